"""The cases of a comparison: what methods and strengths can be tried on a population, and why not.

Which cases there are follows from the settings and the public domain alone, so that the version of
a report to be published may list them. That the *data* refuse a case is found out later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import partial
from typing import Any

from headcount.comparison.settings import DELTA, Settings
from headcount.domain import Domain
from headcount.errors import HeadcountError
from headcount.mechanisms import Chain, ChainDesign, Identity, Mechanism, Sampling
from headcount.privacy import DEFAULT_UNIT, Guarantee, PureLoss, UnitOfPrivacy, ZCDPLoss
from headcount.privacy.convert import zcdp_to_approximate
from headcount.privacy.loss import ApproximateLoss, decimal
from headcount.processes import gib, memory_limit
from headcount.registry import MECHANISMS

_CALLED = {
    "topdown": "TopDown",
    "geometric": "geometric noise",
    "sampling": "sample",
    "cell-key": "cell keys",
}
"""What a case of a method is called where its name in a config is none for people."""
NONE = "no protection"
OWN = "as configured"
_NEIGHBOURS = ("count_housemates", "largest_household")


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparedDomain(Domain):
    """What is public about a population, and whose losses are compared.

    where
        households   whether it is known who lives with whom
        unit         the one unit of privacy of the comparison
        neighbours   what mechanisms with a loss are told besides: ``largest_household``, ...
    """

    households: bool = False
    unit: UnitOfPrivacy = DEFAULT_UNIT
    neighbours: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Way:
    """One way to protect the population.

    where
        name      of the case
        method    its family: the name of the method that it is about
        strength  in words: "epsilon 1", "10 % swapped"
    """

    name: str
    method: str
    strength: str
    design: ChainDesign

    @property
    def mechanism(self) -> Chain:
        """The chain."""
        return self.design.chain


@dataclass(frozen=True)
class LeftOut:
    """A case that was not run, and why."""

    name: str
    why: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Offered:
    """The ways to protect that fit the public domain, and those that do not.

    ``own`` is the name of the config's own; "" if it has none that fits.
    """

    ways: tuple[Way, ...]
    left_out: tuple[LeftOut, ...]
    own: str = ""


def offered(
    settings: Settings,
    domain: ComparedDomain,
    *,
    own: Mechanism | None = None,
    cases: Mapping[str, Mechanism] | None = None,
) -> Offered:
    """Every case of a comparison: no protection, those named, the config's own, the preset's.

    where
        own     the mechanism of the config
        cases   further ones by name; where there are any, the preset's methods are left out unless
                some are asked for
    """
    made: dict[str, Way] = {}
    left_out: list[LeftOut] = []

    def add(name: str, method: str, strength: str, make: Callable[[], Mechanism]) -> None:
        try:
            chain = Chain.of(make())
            if settings.no_noise and chain.left_to_chance:
                raise _Unfit(f"{chain.left_to_chance}, and noise is forbidden here")
            design = _fitted(chain, domain)
        except HeadcountError as error:
            left_out.append(LeftOut(name, str(error)))
            return
        if not any(way.mechanism == chain for way in made.values()):
            made[name] = Way(name=name, method=method, strength=strength, design=design)

    add(NONE, "identity", "none", Identity)
    for name, mechanism in (cases or {}).items():
        chain = Chain.of(mechanism).for_a_trial()
        add(name, chain.called, name, partial(Chain.of, chain))
    methods = settings.methods or (() if cases else settings.what.methods)
    for method in methods:
        for strength, make in _strengths(method, settings, domain, left_out):
            called = _CALLED.get(method, method)
            add(f"{called}, {strength}" if strength else called, method, strength, make)
    if own is not None:
        chain = Chain.of(own).for_a_trial()
        add(
            f"{_CALLED.get(chain.called, chain.called)}, {OWN}",
            chain.called,
            OWN,
            partial(Chain.of, chain),
        )
    same = [way.name for way in made.values() if own and way.mechanism == chain]
    return Offered(ways=tuple(made.values()), left_out=tuple(left_out), own="".join(same))


def _fitted(chain: Chain, domain: ComparedDomain) -> ChainDesign:
    """The chain on the domain; what does not fit it or the machine is refused."""
    for step in chain.steps:
        if step.of_households and not domain.households:
            raise _Unfit("it swaps whole households, and who lives with whom is not known here")
    design = chain.on(domain)
    tables, most = design.table_bytes, memory_limit()
    if tables > most:
        raise _Unfit(
            f"its tables need up to {gib(tables)} at once, and this machine has {gib(most)}"
        )
    return design


class _Unfit(HeadcountError):
    """A method that cannot be tried on this domain; the message says why."""


Strengths = Iterator[tuple[str, Callable[[], Mechanism]]]


def _strengths(
    method: str, settings: Settings, domain: ComparedDomain, left_out: list[LeftOut]
) -> Strengths:
    """The strengths at which a method is tried; an unknown method is an error at once."""
    kind: Any = MECHANISMS.get(method, source="compare", place="--methods")
    preset = settings.what
    known = {one.name for one in fields(kind)}
    if method == "sampling":
        for part in preset.fractions:
            yield f"{_percent(part)} of {domain.counted}", partial(Sampling, fraction=part)
    elif "rate" in known:
        if kind.of_households and not domain.households:
            why = "it swaps whole households, and who lives with whom is not known here"
            left_out.append(LeftOut(method, why))
            return
        given = {"risk_variables": domain.schema.names, "level": domain.geography.leaf}
        more = {name: one for name, one in (given | {"kind": "random"}).items() if name in known}
        for rate in preset.rates:
            yield f"{_percent(rate)} swapped", partial(kind, rate=rate, **more)
    elif method == "suppression":
        # Each attribute and small pairs of them, by the rule that no sum gives a cell back.
        yield "tables of each attribute", partial(kind, tables="auto", effort=0, audit=0)
    elif method == "cell-key":
        for largest, variance in preset.changes:
            yield (
                f"at most {largest}, variance {decimal(variance)}",
                partial(kind, maximum=largest, variance=variance),
            )
    elif method == "rounding":
        for base in preset.bases:
            yield f"to multiples of {base}", partial(kind, base=base)
    elif method == "coarsening":
        # Without an audit: what may be known and what is secret is for the user to say.
        for least in preset.areas:
            yield f"areas of {least} people", partial(kind, **kind.of_areas(least, domain))
    elif "epsilon" in known:
        more = {name: v for name, v in domain.neighbours.items() if name in known}
        several = preset.epsilons if method == preset.methods[0] else preset.few
        for epsilon in settings.epsilon or several:
            yield (
                f"epsilon {decimal(epsilon)}",
                partial(kind, epsilon=epsilon, unit=domain.unit, **more),
            )
    else:
        yield "", kind


def _percent(part: Fraction) -> str:
    return f"{decimal(100 * part)} %"


def neighbours_of(mechanism: Mechanism | None) -> tuple[UnitOfPrivacy | None, dict[str, Any]]:
    """The unit of privacy that a mechanism states its loss for, and what goes with it."""
    last = None if mechanism is None else Chain.of(mechanism).last
    unit = getattr(last, "unit", None)
    given = {name: getattr(last, name, None) for name in _NEIGHBOURS}
    return unit, {name: value for name, value in given.items() if value}


def fitting(neighbours: Mapping[str, Any], unit: UnitOfPrivacy) -> dict[str, Any]:
    """What of a mechanism's neighbours goes with another unit of privacy."""
    name = "largest_household" if unit.of_household else "count_housemates"
    return {name: neighbours[name]} if name in neighbours else {}


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What a case promises in the unit of privacy of the comparison.

    where
        words     for a table; why there is nothing, where there is none
        epsilon   the number to compare by; None without a guarantee in this unit
    """

    words: str
    epsilon: float | None


def _stated(guarantee: Guarantee, unit: UnitOfPrivacy) -> Stated:
    """A guarantee in one unit of privacy; a rho as epsilon at a stated delta."""
    if not guarantee.losses:
        return Stated(words="none", epsilon=None)
    loss = guarantee.loss_for(unit)
    match loss:
        case PureLoss():
            return Stated(words=f"epsilon {decimal(loss.epsilon)}", epsilon=float(loss.epsilon))
        case ZCDPLoss():
            at = zcdp_to_approximate(loss, delta=DELTA).value
            assert isinstance(at, ApproximateLoss)
            words = f"rho {decimal(loss.rho)}, epsilon {float(at.epsilon):.3g} at delta 1e-10"
            return Stated(words=words, epsilon=float(at.epsilon))
        case None:
            units: Sequence[str] = [one.unit.phrase for one in guarantee.losses]
            return Stated(words=f"stated only when {' or '.join(units)}", epsilon=None)
    return Stated(words=str(loss), epsilon=float(loss.amount))


def promises(ways: Sequence[Way], domain: ComparedDomain) -> dict[str, Stated]:
    """What each case promises: known from settings and public domain alone."""
    return {way.name: _stated(way.design.guarantee, domain.unit) for way in ways}
