"""The trade-off of privacy and accuracy: expected errors of a loss, and the loss for an accuracy.

Both follow from the settings, the attributes and the places; no person's record is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, inf, isinf, log10
from typing import Any

from headcount.config.load import Config
from headcount.domain import Domain
from headcount.errors import ConfigError, HeadcountError
from headcount.mechanisms import Chain, ChainDesign
from headcount.privacy import Guarantee
from headcount.privacy.loss import decimal, exact
from headcount.registry import POPULATIONS
from headcount.report.specs import svg_of
from headcount.report.theme import looks_for
from headcount.run.protect import key_kind_of

FURTHEST, MOST_SECANTS = 4.0, 12
"""Powers of ten between which a loss is looked for, and in how many steps."""


MOST_NOISY = 2
"""A power of ten of the loss, below which answers with noise are never exact."""

CHART_WIDTH = 300
"""So that it can be read on a telephone; on wider screens it is drawn larger."""

OWN = ""
"""What the method of a config is called among its cases, none of which can have this name."""


LOWEST, HIGHEST, STEPS = -2, 2, 120
"""The dial: powers of ten at its ends, and its steps."""


def _dial_of(amount: Fraction) -> int:
    """Where the dial stands for an amount."""
    share = (log10(max(float(amount), 1e-9)) - LOWEST) / (HIGHEST - LOWEST)
    return round(min(max(share, 0.0), 1.0) * STEPS)


def _at_dial(position: str) -> Fraction:
    """The amount where the dial stands, with two digits."""
    whole = exact(position or "0", name="dial")
    power = LOWEST + (HIGHEST - LOWEST) * min(max(float(whole) / STEPS, 0.0), 1.0)
    return exact(f"{10**power:.2g}", name="dial")


def currency_of(chain: Chain) -> str:
    """The unit of the chain's dial: "epsilon", "rho", or "" where nothing can be dialled."""
    given = (name for name in ("rho", "epsilon") if getattr(chain.last, name, None) is not None)
    return next(given, "")


def _amount_of(chain: Chain) -> Fraction:
    """What the dial stands at."""
    return Fraction(getattr(chain.last, currency_of(chain)))


def with_amount(chain: Chain, amount: Fraction) -> Chain:
    """The same with another loss."""
    last: Any = chain.last
    return Chain(chain.steps, replace(last, **{currency_of(chain): amount}))


@dataclass(frozen=True)
class Reach:
    """How far off answers will be: 19 of 20 are no further from the truth; None if unknown."""

    level: str
    query: str
    people: float | None

    @property
    def name(self) -> str:
        """The level and the query, as a choice."""
        return f"{self.level}: {self.query}"


def _reaches(design: ChainDesign) -> list[Reach]:
    """What a plan expects, before anything is spent and without a look at any person."""
    return [
        Reach(one.level, one.query, None if isinf(one.within) else one.within)
        for one in design.expected_errors()
    ]


def _amount_for(chain: Chain, domain: Domain, *, target: str, people: float) -> Fraction:
    """The loss at which the answers of ``target`` are within so many people, rounded up.

    The logarithm of the error falls nearly as a line of the logarithm of the loss: -1 for epsilon,
    -1/2 for rho, steeper where whole noise is mostly 0. A few secants find the place.
    """

    def beyond(at: float) -> float:
        """How far the error is beyond what was asked for, as a logarithm."""
        found = _reaches(with_amount(chain, _rounded(10**at)).on(domain))
        one = next((one for one in found if one.name == target), None)
        if one is None or one.people is None or (one.people == 0 and at < MOST_NOISY):
            raise ConfigError("accuracy", found=repr(target), expected="answers that have noise")
        return log10(max(one.people, 1e-9) / people)

    slope = -0.5 if currency_of(chain) == "rho" else -1.0
    at, over = log10(_amount_of(chain)), inf
    before: tuple[float, float] | None = None
    for _ in range(MOST_SECANTS):
        over = beyond(at)
        if abs(over) < 0.001:
            break
        if before is not None and abs(at - before[0]) > 1e-9:
            slope = min((over - before[1]) / (at - before[0]), -0.1)
        before, at = (at, over), min(max(at - over / slope, -FURTHEST), FURTHEST)
    if over > 0.01:
        raise ConfigError(
            "accuracy",
            found=f"{people:g} people",
            expected=f"more: {currency_of(chain)} {10**at:.3g} does not reach that",
        )
    return _rounded(10**at)


def _rounded(amount: float) -> Fraction:
    """Three digits, upwards: what was asked for is kept."""
    digits = 2 - int(log10(amount) // 1)
    whole = ceil(round(amount * 10**digits, 6))
    return Fraction(whole) / Fraction(10) ** digits


def known_domain(config: Config) -> Domain:
    """The cells and places of a config: what a plan and a promise need.

    Where they are known only with the people, these are read, and not kept.
    """
    try:
        found = config.population.domain()
    except ConfigError:
        found = config.population.read().domain
    return replace(found, plugin=POPULATIONS.outside(config.population))


@dataclass(frozen=True)
class _MethodCard:
    """One way to protect: its steps, its promise and its errors; or why it does not fit.

    ``own`` is the one that the config's run uses.
    """

    name: str
    steps: tuple[str, ...]
    own: bool
    guarantee: Guarantee | None = None
    rows: tuple[Reach, ...] = ()
    fault: HeadcountError | None = None


def cards_of(config: Config, domain: Domain) -> list[_MethodCard]:
    """The method of a config and its cases, as they would be on these cells and places."""
    return [_card(name, way, config, domain) for name, way in ways_in(config).items()]


def ways_in(config: Config) -> dict[str, Chain]:
    """The method of a config and its cases, by name."""
    cases = {case.name: Chain.of(case.mechanism) for case in config.case}
    return {OWN: Chain.of(config.mechanism), **cases}


def _card(name: str, chain: Chain, config: Config, domain: Domain) -> _MethodCard:
    made = _MethodCard(name, tuple(part.name for part in chain.parts), own=name == OWN)
    try:
        design = chain.on(domain)
        promise = design.promise(key_kind_of(config))
        return replace(made, guarantee=promise, rows=tuple(_reaches(design)))
    except HeadcountError as error:
        return replace(made, fault=error)


@dataclass(frozen=True)
class _Dialled:
    """What a loss buys.

    where
        loss    the loss, as it is typed
        dial    where the dial stands for it
        saved   whether it is the one of the config
        rows    how far off answers will be
        aim     the answers whose accuracy is named beside the loss
    """

    currency: str
    loss: str
    dial: int
    saved: bool
    rows: tuple[Reach, ...]
    aim: Reach | None
    promise: Guarantee

    @property
    def targets(self) -> list[Reach]:
        """Answers for which an accuracy can be asked."""
        return [one for one in self.rows if one.people]


def dialled(
    config: Config, domain: Domain, *, moved: str, asks: Mapping[str, str]
) -> _Dialled | None:
    """What follows when one control is moved; None where a method has no loss to dial.

    where
        moved   "dial", "people" (an accuracy for ``asks["target"]``), or any other for the loss
        asks    what the controls say, by name
    """
    saved = Chain.of(config.mechanism)
    if not (currency := currency_of(saved)):
        return None
    target, amount = asks.get("target", ""), None
    if moved == "dial":
        amount = _at_dial(asks.get("dial", ""))
    elif moved == "people" and asks.get("people"):
        wanted = float(exact(asks["people"], name="people"))
        if not wanted > 0:
            raise ConfigError("accuracy", found=asks["people"], expected="a number above 0")
        amount = _amount_for(saved, domain, target=target, people=wanted)
    elif asks.get("amount"):
        amount = exact(asks["amount"], name=currency)
    chain = saved if amount is None else with_amount(saved, amount)
    design = chain.on(domain)
    rows = tuple(_reaches(design))
    noisy = [one for one in rows if one.people]
    return _Dialled(
        currency,
        decimal(_amount_of(chain), digits=12),
        _dial_of(_amount_of(chain)),
        _amount_of(chain) == _amount_of(saved),
        rows,
        next((one for one in noisy if one.name == target), _first_aim(noisy)),
        design.promise(key_kind_of(config)),
    )


def _first_aim(rows: list[Reach]) -> Reach | None:
    """The total of a middle level, else whatever there is."""
    found = [one for one in rows if one.query == "total"] or rows
    return found[len(found) // 2] if found else None


def draw_reaches(rows: Sequence[Reach]) -> str:
    """Expected errors by level and query as a drawing; "" where there is nothing to draw."""
    import altair as alt
    import polars as pl

    shown = [(one.level, one.query, round(one.people, 2)) for one in rows if one.people]
    if not shown:
        return ""
    frame = pl.DataFrame(shown, schema=["level", "query", "people"], orient="row")
    levels, queries = (
        frame[name].unique(maintain_order=True).to_list() for name in ("level", "query")
    )
    looks = looks_for(queries)
    chart = (
        alt.Chart(frame)
        .mark_point(filled=True, size=90)
        .encode(
            x=alt.X("people:Q", title="19 out of 20 answers are within this many people")
            .scale(type="log", nice=True)
            .axis(labelOverlap="greedy", labelSeparation=6),
            y=alt.Y("level:N", title=None, sort=levels),
            color=alt.Color("query:N", sort=queries, legend=alt.Legend(columns=2)).scale(
                domain=queries, range=[look.colour for look in looks]
            ),
            shape=alt.Shape("query:N", sort=queries).scale(
                domain=queries, range=[look.symbol for look in looks]
            ),
        )
        .properties(width=CHART_WIDTH, height=alt.Step(34))
    )
    return svg_of(chart, alt_text="Expected errors by level; the table below has the numbers.")
