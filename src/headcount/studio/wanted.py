"""The trade-off of privacy and accuracy: expected errors of a loss, and the loss for an accuracy.

Both follow from the settings, the attributes, the places and public facts; no person's record is
looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log10

from headcount.config.load import Config
from headcount.domain import Domain
from headcount.errors import ConfigError, HeadcountError
from headcount.mechanisms import Chain
from headcount.privacy import Guarantee
from headcount.privacy.loss import decimal, exact
from headcount.registry import POPULATIONS
from headcount.report.specs import svg_of
from headcount.report.theme import looks_for
from headcount.run.how_far_off import HowFarOff, Off, how_far_off
from headcount.run.plan import Goal, currency_of, least_loss, with_amount
from headcount.run.protect import key_kind_of
from headcount.run.public_facts import Facts

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


def _amount_of(chain: Chain) -> Fraction:
    """What the dial stands at."""
    return Fraction(getattr(chain.last, currency_of(chain)))


def _name(one: Off) -> str:
    """The level and the query, as a choice."""
    return f"{one.level}: {one.query}"


def known_domain(config: Config) -> Domain:
    """The cells and places of a config: what a plan and a promise need.

    Where they are known only with the people, these are read, and not kept.
    """
    try:
        found = config.population.domain()
    except ConfigError:
        found = config.population.read().domain
    found = found.down_to(config.run.lowest)
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
    far: HowFarOff | None = None
    fault: HeadcountError | None = None


def cards_of(config: Config, domain: Domain, facts: Facts | None) -> list[_MethodCard]:
    """The method of a config and its cases, as they would be on these cells and places."""
    return [_card(name, way, config, domain, facts) for name, way in ways_in(config).items()]


def ways_in(config: Config) -> dict[str, Chain]:
    """The method of a config and its cases, by name."""
    cases = {case.name: Chain.of(case.mechanism) for case in config.case}
    return {OWN: Chain.of(config.mechanism), **cases}


def _card(
    name: str, chain: Chain, config: Config, domain: Domain, facts: Facts | None
) -> _MethodCard:
    made = _MethodCard(name, tuple(part.name for part in chain.parts), own=name == OWN)
    try:
        design = chain.on(domain)
        promise = design.promise(key_kind_of(config))
        return replace(made, guarantee=promise, far=how_far_off(design, facts))
    except HeadcountError as error:
        return replace(made, fault=error)


@dataclass(frozen=True)
class _Dialled:
    """What a loss buys.

    where
        loss    the loss, as it is typed
        dial    where the dial stands for it
        saved   whether it is the one of the config
        far     how far off counts will be
        aim     the counts whose accuracy is named beside the loss
    """

    currency: str
    loss: str
    dial: int
    saved: bool
    far: HowFarOff
    aim: Off | None
    promise: Guarantee

    @property
    def targets(self) -> dict[str, Off]:
        """Counts for which an accuracy can be asked, by name."""
        return {_name(one): one for one in self.far.rows if one.rmse}


def dialled(
    config: Config, domain: Domain, facts: Facts | None, *, moved: str, asks: Mapping[str, str]
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
        goal = Goal(*target.partition(": ")[::2], people=wanted)
        amount = _amount_of(least_loss(saved.on(domain), [goal], facts).chain)
    elif asks.get("amount"):
        amount = exact(asks["amount"], name=currency)
    chain = saved if amount is None else with_amount(saved, amount)
    design = chain.on(domain)
    far = how_far_off(design, facts)
    noisy = [one for one in far.rows if one.rmse]
    return _Dialled(
        currency,
        decimal(_amount_of(chain), digits=12),
        _dial_of(_amount_of(chain)),
        _amount_of(chain) == _amount_of(saved),
        far,
        next((one for one in noisy if _name(one) == target), _first_aim(noisy)),
        design.promise(key_kind_of(config)),
    )


def _first_aim(rows: list[Off]) -> Off | None:
    """The total of a middle level, else whatever there is."""
    found = [one for one in rows if one.query == "total"] or rows
    return found[len(found) // 2] if found else None


def draw_errors(rows: Sequence[Off]) -> str:
    """Expected errors by level and query as a drawing; "" where there is nothing to draw."""
    import altair as alt
    import polars as pl

    shown = [(one.level, one.counts, round(one.within, 2)) for one in rows if one.within]
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
            x=alt.X("people:Q", title="19 out of 20 counts are within this many people")
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
