"""Privacy losses as exact value objects: a number, its currency, its unit; how losses compose.

Nothing here converts. Losses of different currencies or units are refused; see
:mod:`headcount.privacy.convert` for the few valid ways from one to another.

A change of one attribute alone moves only the queries that show it, at all levels; a move from one
leaf to another within a unit moves all queries, at the levels below that unit:

    loss(attribute) = largest sum along a path of the losses of queries that show the attribute
    loss(leaf within level) = largest sum along a path of the losses of levels below it

They are smaller than the whole loss, and state what an attacker can learn who knows all else of a
person. The certificates of the 2020 census list them as epsilons, for a tree without only children:
there every path has the losses of the levels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import StrEnum
from fractions import Fraction
from numbers import Rational
from typing import TypeAlias

from headcount.domain import CountsOf
from headcount.errors import PrivacyError, brief
from headcount.fields import (
    MOST_DIGITS,
    RECORDED_DIGITS,
    TooLong,
    exact_number,
    fits,
    shown,
)


class UnitOfPrivacy(StrEnum):
    """What may differ between two neighbouring databases.

    Losses of different units are different quantities: an epsilon under ``CHANGE_ONE`` is never
    set beside an epsilon under ``ADD_REMOVE`` without saying so.
    """

    ADD_REMOVE = "add-remove"
    """One person's record is added or removed."""

    CHANGE_ONE = "change-one"
    """One person's record changes to any other; the number of people stays."""

    HOUSEHOLD_ADD_REMOVE = "household-add-remove"
    """One household, or one person in group quarters, is added or removed."""

    HOUSEHOLD_CHANGE_ONE = "household-change-one"
    """One household, or one person in group quarters, becomes any other; their number stays."""

    HOUSING_UNIT_CHANGE_ONE = "housing-unit-change-one"
    """Records are housing units: one of them changes to any other; their number stays."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"  # so that the repr of a loss round-trips

    @property
    def of_household(self) -> bool:
        """Whether whole households come, go or change."""
        return self in (self.HOUSEHOLD_ADD_REMOVE, self.HOUSEHOLD_CHANGE_ONE)

    @property
    def of_housing_unit(self) -> bool:
        """Whether records are of housing units, and a person is none of them."""
        return self is self.HOUSING_UNIT_CHANGE_ONE

    @property
    def counted(self) -> CountsOf:
        """What the records are."""
        return CountsOf.HOUSING_UNITS if self.of_housing_unit else CountsOf.PEOPLE

    @property
    def adds(self) -> bool:
        """Whether neighbours differ in how many there are."""
        return self in (self.ADD_REMOVE, self.HOUSEHOLD_ADD_REMOVE)

    @property
    def pair(self) -> tuple[UnitOfPrivacy, UnitOfPrivacy]:
        """This unit, and the other one about the same: both persons, or both households.

        Beside a housing unit stands the person who moves, and changes two of them.
        """
        other = {
            self.ADD_REMOVE: self.CHANGE_ONE,
            self.CHANGE_ONE: self.ADD_REMOVE,
            self.HOUSEHOLD_ADD_REMOVE: self.HOUSEHOLD_CHANGE_ONE,
            self.HOUSEHOLD_CHANGE_ONE: self.HOUSEHOLD_ADD_REMOVE,
            self.HOUSING_UNIT_CHANGE_ONE: self.CHANGE_ONE,
        }
        return self, other[self]

    @property
    def phrase(self) -> str:
        """The unit in plain words, to be set beside every epsilon."""
        return {
            self.ADD_REMOVE: "one person is added or removed",
            self.CHANGE_ONE: "one person's record changes",
            self.HOUSEHOLD_ADD_REMOVE: "one household is added or removed",
            self.HOUSEHOLD_CHANGE_ONE: "one household changes",
            self.HOUSING_UNIT_CHANGE_ONE: "one housing unit's record changes",
        }[self]


DEFAULT_UNIT = UnitOfPrivacy.CHANGE_ONE
"""The unit of every mechanism and of every new ledger, unless another is asked for."""


def unit_of_privacy(value: UnitOfPrivacy | str, *, name: str) -> UnitOfPrivacy:
    """The unit of that name; an unknown one is an error that lists the known ones."""
    try:
        return UnitOfPrivacy(value)
    except ValueError:
        known = ", ".join(repr(unit.value) for unit in UnitOfPrivacy)
        raise PrivacyError(place=name, found=repr(value), expected=f"one of {known}") from None


def exact(value: object, *, name: str, digits: int = MOST_DIGITS) -> Fraction:
    """Return ``value`` as an exact fraction.

    Strings (``"1/8"``, ``"0.1"``), integers, decimals and fractions are taken at their word. A
    binary float is refused, because the fraction it stands for is not the number that was typed,
    and so is a number of more than ``digits`` digits, before it is built.
    """
    if isinstance(value, (bool, float)):
        raise PrivacyError(
            place=name,
            found=f"{value!r} ({type(value).__name__})",
            expected="an exact number: a whole number, a Fraction, or a string such as "
            '"1/8" or "0.1"',
        )
    try:
        if isinstance(value, (Rational, Decimal, str)):
            # A fraction is somebody's result already; digits are counted where text is read.
            return value if isinstance(value, Fraction) else exact_number(value, digits=digits)
    except TooLong as error:
        raise PrivacyError(place=name, found=brief(shown(value)), expected=str(error)) from None
    except ValueError:
        pass  # falls through to the one message for all that is not a number
    raise PrivacyError(
        place=name,
        found=brief(shown(value)),
        expected='a finite number such as 1, "1/8" or "0.1"',
    )


def positive(value: object, *, name: str) -> Fraction:
    """Return ``value`` as an exact fraction above zero."""
    number = exact(value, name=name)
    if number <= 0:
        raise PrivacyError(place=name, found=str(number), expected="a number above 0")
    return number


class Currency(StrEnum):
    """What a loss is counted in; amounts of different currencies are never added."""

    EPSILON = "epsilon"
    RHO = "rho"
    EPSILON_AT_DELTA = "epsilon at delta"


@dataclass(frozen=True, kw_only=True)
class PureLoss:
    """Pure differential privacy: Pr[M(D) in E] <= exp(epsilon) Pr[M(D') in E] for every event E."""

    epsilon: Fraction
    unit: UnitOfPrivacy

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, name="epsilon"))

    def __str__(self) -> str:
        return f"epsilon {decimal(self.epsilon)} when {self.unit.phrase}"

    @property
    def currency(self) -> Currency:
        """What this loss is counted in."""
        return Currency.EPSILON

    @property
    def amount(self) -> Fraction:
        """The number that composition adds up: epsilon."""
        return self.epsilon


@dataclass(frozen=True, kw_only=True)
class ZCDPLoss:
    """Zero-concentrated differential privacy: D_alpha(M(D) || M(D')) <= rho alpha, all alpha > 1.

    where
        D_alpha   the Renyi divergence of order alpha between the two output distributions

    Bun and Steinke (2016), "Concentrated Differential Privacy", definition 1.1 with xi = 0.
    """

    rho: Fraction
    unit: UnitOfPrivacy

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", positive(self.rho, name="rho"))

    def __str__(self) -> str:
        return f"rho {decimal(self.rho)} when {self.unit.phrase}"

    @property
    def currency(self) -> Currency:
        """What this loss is counted in."""
        return Currency.RHO

    @property
    def amount(self) -> Fraction:
        """The number that composition adds up: rho."""
        return self.rho


@dataclass(frozen=True, kw_only=True)
class ApproximateLoss:
    """Approximate differential privacy: Pr[M(D) in E] <= exp(epsilon) Pr[M(D') in E] + delta.

    Epsilon may be 0: then delta bounds the total variation distance.
    """

    epsilon: Fraction
    delta: Fraction
    unit: UnitOfPrivacy

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon, name="epsilon"))
        if self.epsilon < 0:
            raise PrivacyError(f"epsilon: found {self.epsilon}, expected a number of at least 0")
        object.__setattr__(self, "delta", positive(self.delta, name="delta"))
        if self.delta >= 1:
            raise PrivacyError(
                f"delta: found {self.delta}, expected a number below 1: "
                f"at 1 the promise allows publishing the records themselves"
            )

    def __str__(self) -> str:
        return (
            f"epsilon {decimal(self.epsilon)} at delta {decimal(self.delta)} "
            f"when {self.unit.phrase}"
        )

    @property
    def currency(self) -> Currency:
        """What this loss is counted in."""
        return Currency.EPSILON_AT_DELTA

    @property
    def amount(self) -> Fraction:
        """The number that is compared: epsilon, at the stated delta."""
        return self.epsilon


Loss: TypeAlias = PureLoss | ZCDPLoss | ApproximateLoss


def scaled(loss: PureLoss | ZCDPLoss, share: Fraction) -> PureLoss | ZCDPLoss:
    """The given share of a loss, in the same currency and unit."""
    if isinstance(loss, PureLoss):
        return PureLoss(epsilon=loss.epsilon * share, unit=loss.unit)
    if isinstance(loss, ZCDPLoss):
        return ZCDPLoss(rho=loss.rho * share, unit=loss.unit)
    raise PrivacyError(
        f"share of a loss: found {loss}, expected a pure epsilon or a rho: shares of "
        f"(epsilon, delta) do not add up to it when the noise is measured in one of the others"
    )


def to_record(loss: Loss) -> dict[str, str]:
    """Write a loss as plain strings, amounts as exact fractions, for receipts and the ledger."""
    record = {"currency": str(loss.currency), "amount": str(loss.amount), "unit": str(loss.unit)}
    if isinstance(loss, ApproximateLoss):
        record["delta"] = str(loss.delta)
    return record


def from_record(record: Mapping[str, str]) -> Loss:
    """Read back what :func:`to_record` wrote."""
    currency = Currency(record["currency"])
    unit = UnitOfPrivacy(record["unit"])
    amount = exact(record["amount"], name="amount", digits=RECORDED_DIGITS)
    if currency is Currency.EPSILON:
        return PureLoss(epsilon=amount, unit=unit)
    if currency is Currency.RHO:
        return ZCDPLoss(rho=amount, unit=unit)
    delta = exact(record["delta"], name="delta", digits=RECORDED_DIGITS)
    return ApproximateLoss(epsilon=amount, delta=delta, unit=unit)


def decimal(value: Fraction, *, digits: int = 6) -> str:
    """Write a fraction for people: exactly where short, else rounded, marked with '~'."""
    try:
        near = float(value)
    except OverflowError:
        near = 0.0
    text = f"{near:.{digits}g}"
    if value and not near:  # larger or smaller than any float
        text = f"{Context(prec=digits).divide(value.numerator, value.denominator):.{digits}g}"
    return text if Fraction(text) == value else f"~{text}"


def figure(value: Fraction) -> str:
    """Write a fraction for a message in which the exact value matters: '1/3 (~0.333333)'."""
    text = decimal(value)
    if text.startswith("~") and fits(value, digits=24) and len(str(value)) <= 24:
        return f"{value} ({text})"
    return text


def written(value: Fraction) -> str:
    """Write a fraction as it is, or rounded where it has more digits than a message can hold."""
    return str(value) if fits(value, digits=MOST_DIGITS) else decimal(value)


def sequential(losses: Iterable[Loss]) -> Loss:
    """The loss of several releases about the same people: losses add up.

    epsilon = sum epsilon_i;  rho = sum rho_i;  (epsilon, delta) = (sum epsilon_i, sum delta_i)

    Dwork and Roth (2014), "The Algorithmic Foundations of Differential Privacy", theorem 3.16;
    Bun and Steinke (2016), "Concentrated Differential Privacy", lemma 2.3 for rho.
    """
    parts = _alike(losses)
    first = parts[0]
    amount = sum((part.amount for part in parts), Fraction(0))
    if isinstance(first, PureLoss):
        return PureLoss(epsilon=amount, unit=first.unit)
    if isinstance(first, ZCDPLoss):
        return ZCDPLoss(rho=amount, unit=first.unit)
    delta = sum((part.delta for part in parts if isinstance(part, ApproximateLoss)), Fraction(0))
    return ApproximateLoss(epsilon=amount, delta=delta, unit=first.unit)


def along_paths(losses: Iterable[tuple[Loss, frozenset[int] | None]]) -> Loss | None:
    """The loss of measurements of places in a tree: the largest sum along a path to a leaf.

        loss = max over paths p of S_p,   S_p = sum of the losses of measurements on p

    where
        losses   of each measurement, stated for a record that moves from one of its counts to
                 another, with the numbers of the paths it lies on; None for all of them

    Proof for Gaussian noise and one changed record, which leaves a cell of leaf a for one of leaf
    b. A query of a unit on both paths has at most one count less and one more: squared distance
    2, and rho = 2 / (2 s^2) = 1 / s^2, the loss as stated. A unit on one of the two paths has one
    count that moves by 1: squared distance 1, half that loss. So

        rho(a, b) <= sum over both of 1/s^2 + 1/2 sum over one of 1/s^2 = (S_a + S_b) / 2

    which is at most the larger of the two. The same holds for epsilon with distances in place of
    squares, 2 and 1, and noise whose loss is proportional to them. A record that is added or
    removed moves one count of each unit on one path: its loss, stated so, is S_a. Unequal sums
    are safe, and a waste: paths with a smaller sum are protected more than is said.
    """
    given = list(losses)
    if not given:
        return None
    numbers = frozenset[int]().union(*(paths for _, paths in given if paths is not None)) or {0}
    sums = [
        sequential(own)
        for number in numbers
        if (own := [loss for loss, paths in given if paths is None or number in paths])
    ]
    return max(sums, key=lambda loss: loss.amount)


def _alike(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    parts = tuple(losses)
    if not parts:
        raise PrivacyError("sequential composition: found no losses, expected at least one")
    first = parts[0]
    for part in parts[1:]:
        if part.currency is not first.currency:
            raise PrivacyError(
                f"sequential composition: found {part.currency} beside {first.currency}, expected "
                "one currency: convert first, so that the method is named"
            )
        if part.unit is not first.unit:
            raise PrivacyError(
                f"sequential composition: found the unit of privacy '{part.unit}' beside "
                f"'{first.unit}', expected one unit: their losses are different quantities"
            )
    return parts


@dataclass(frozen=True, kw_only=True)
class MeasuredLoss:
    """The loss of a query at a level, and the paths that it lies on (``along_paths``)."""

    level: str
    query: str
    loss: Loss
    paths: frozenset[int] | None = None


def attribute_losses(
    measured: Sequence[MeasuredLoss], *, shows: Mapping[str, Collection[str]]
) -> dict[str, Loss]:
    """The loss of each attribute; ``shows`` has the attributes of each query, recoded ones too."""
    attributes = dict.fromkeys(one for some in shows.values() for one in some)
    found = {
        name: _together(one for one in measured if name in shows[one.query]) for name in attributes
    }
    return {name: loss for name, loss in found.items() if loss is not None}


def leaf_losses(measured: Sequence[MeasuredLoss], *, levels: Sequence[str]) -> dict[str, Loss]:
    """The loss of a leaf within a unit of each level above it, from the whole down."""
    found = {
        level: _together(one for one in measured if one.level in levels[depth:])
        for depth, level in enumerate(levels[:-1], start=1)
    }
    return {level: loss for level, loss in found.items() if loss is not None}


def _together(measured: Iterable[MeasuredLoss]) -> Loss | None:
    return along_paths((one.loss, one.paths) for one in measured)


ExactNumber: TypeAlias = Fraction | int | str
NamedShares: TypeAlias = Mapping[str, ExactNumber] | Sequence[tuple[str, ExactNumber]]
"""Named shares: a mapping, or pairs in which a repeated name can still be seen and refused."""


@dataclass(frozen=True, kw_only=True)
class _AllocatedShare:
    """The part of the whole loss that goes to one query at one level."""

    level: str
    query: str
    share: Fraction


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """Shares of one loss for each (level, query) that is measured; together exactly 1.

    Levels and queries compose in sequence, so shares of the same loss add up to it. Nothing here
    needs data: an allocation is checked against the names of levels and queries alone.
    A (level, query) with share 0 is not measured and is left out.
    """

    shares: tuple[_AllocatedShare, ...]

    def __post_init__(self) -> None:
        kept = _checked(
            ((f"{one.query!r} at {one.level!r}", one.share) for one in self.shares),
            what="shares",
        )
        object.__setattr__(
            self,
            "shares",
            tuple(
                _AllocatedShare(level=one.level, query=one.query, share=share)
                for one, share in zip(self.shares, kept, strict=True)
                if share > 0
            ),
        )

    @property
    def measured(self) -> tuple[tuple[str, str], ...]:
        """The (level, query) pairs that get a share, in order."""
        return tuple((one.level, one.query) for one in self.shares)

    def share(self, *, level: str, query: str) -> Fraction:
        """The share of one query at one level; 0 if it is not measured."""
        return next(
            (one.share for one in self.shares if (one.level, one.query) == (level, query)),
            Fraction(0),
        )

    def level_share(self, level: str) -> Fraction:
        """The share of everything measured at one level."""
        return sum((one.share for one in self.shares if one.level == level), Fraction(0))

    def queries_at(self, level: str) -> tuple[str, ...]:
        """The queries measured at one level, in order."""
        return tuple(one.query for one in self.shares if one.level == level)

    def losses(self, total: PureLoss | ZCDPLoss) -> dict[tuple[str, str], PureLoss | ZCDPLoss]:
        """The exact loss of each (level, query) that is measured; they add up to ``total``."""
        return {(one.level, one.query): scaled(total, one.share) for one in self.shares}


def allocate(
    *,
    levels: NamedShares,
    queries: Mapping[str, NamedShares],
    known_levels: Sequence[str],
    known_queries: Sequence[str],
) -> Allocation:
    """Build an allocation from shares of levels and, within each level, shares of queries.

    where
        levels          share of the loss for each level; sums to 1
        queries         for each of these levels, shares of its queries; each set sums to 1.
                        One set for all levels is ``dict.fromkeys(levels, shares)``
        known_levels    the levels of the geography
        known_queries   the queries of the workload

    Every name must be known, none may come twice, no share may be negative.
    """
    level_shares = _named(levels, what="level shares", known=known_levels)
    _check_levels(queries, [level for level, _ in level_shares], known=known_levels)
    shares: list[_AllocatedShare] = []
    for level, level_share in level_shares:
        what = f"query shares at level {level!r}"
        for query, share in _named(queries[level], what=what, known=known_queries):
            shares.append(_AllocatedShare(level=level, query=query, share=level_share * share))
    return Allocation(shares=tuple(shares))


def _check_levels(
    queries: Mapping[str, NamedShares], levels: Sequence[str], *, known: Sequence[str]
) -> None:
    for level in queries:
        _known(level, what="query shares: level", known=known)
        if level not in levels:
            raise PrivacyError(
                place="query shares",
                found=f"some for level {level!r}",
                expected="none: the level shares do not name it",
            )
    for level in levels:
        if level not in queries:
            raise PrivacyError(
                place="query shares",
                found=f"none for level {level!r}",
                expected="some: the level shares name it",
            )


def _named(shares: NamedShares, *, what: str, known: Sequence[str]) -> list[tuple[str, Fraction]]:
    pairs = list(shares.items() if isinstance(shares, Mapping) else shares)
    for name, _ in pairs:
        _known(name, what=what, known=known)
    kept = _checked(((repr(name), share) for name, share in pairs), what=what)
    return [(name, share) for (name, _), share in zip(pairs, kept, strict=True)]


def _known(name: str, *, what: str, known: Sequence[str]) -> None:
    if name not in known:
        expected = ", ".join(repr(one) for one in known)
        raise PrivacyError(place=what, found=repr(name), expected=f"one of {expected}")


def _checked(named: Iterable[tuple[str, ExactNumber]], *, what: str) -> list[Fraction]:
    """Exact shares, each at least 0, no name twice, together exactly 1."""
    seen: set[str] = set()
    kept: list[Fraction] = []
    for name, given in named:
        if name in seen:
            raise PrivacyError(place=what, found=f"{name} twice", expected="each once")
        seen.add(name)
        share = exact(given, name=f"{what}: {name}")
        if share < 0:
            raise PrivacyError(place=what, found=f"{share} for {name}", expected="at least 0")
        kept.append(share)
    total = sum(kept, Fraction(0))
    if total != 1:
        gap = abs(total - 1)
        direction = "too much" if total > 1 else "too little"
        raise PrivacyError(
            place=what,
            found=f"a sum of {written(total)} ({decimal(total)})",
            expected=f"exactly 1: {written(gap)} {direction}",
        )
    return kept
