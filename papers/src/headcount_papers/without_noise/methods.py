"""The ways to publish the same wanted tables: coarser ones, and those that change numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from headcount.mechanisms import Identity, Mechanism
from headcount.mechanisms.coarsening.mechanism import Coarsening
from headcount.mechanisms.coarsening.search import NOWHERE, WITH_AREAS
from headcount.mechanisms.coarsening.settings import AuditLimits, CoarsenedTable
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.mechanisms.suppression.mechanism import Suppression
from headcount.mechanisms.swapping.mechanism import HouseholdSwapping
from headcount.topdown.mechanism import TopDown
from headcount_papers.without_noise.people import People
from headcount_papers.without_noise.settings import LADDERS

COARSENING, SUPPRESSION, ROUNDING, SWAPPING, TOPDOWN, NONE = (
    *("coarsening", "suppression", "rounding", "swapping", "topdown", "as counted"),
)


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to publish.

    where
        family    its kind
        least     for coarsening the least people of an area, or "leaf"
        crossed   for coarsening where known attributes and secrets are crossed
    """

    name: str
    family: str
    mechanism: Mechanism
    least: str = ""
    crossed: str = ""


def wanted(people: People) -> Coarsening:
    """Everything crossed for all places: what each plan takes something of."""
    levels, leaf = people.counts.geography.levels, people.counts.geography.leaf
    by = (*people.known, *people.secret)
    return Coarsening(
        ladder=levels[-2:0:-1],
        tables={"people": CoarsenedTable(by=by, at=leaf)},
        audit=AuditLimits(known=people.known, secret=people.secret),
    )


def _coarsened(people: People, least: int | str, crossed: str) -> Coarsening:
    base = wanted(people)
    numbers = (least,) if isinstance(least, int) else ()
    whole = dict(base.wanted)["people"]
    tables = {"people": replace(whole, at=least)}
    if crossed != WITH_AREAS:
        tables = {
            "known": CoarsenedTable(by=people.known, at=least),
            "secret": CoarsenedTable(by=people.secret, at=least),
        }
        if crossed != NOWHERE:
            tables["people"] = replace(whole, at=crossed)
    return replace(base, ladder=(*numbers, *base.ladder), tables=tables)


def ways(people: People) -> Iterator[Way]:
    """Every way, in the order of reports."""
    levels, leaf = people.counts.geography.levels, people.counts.geography.leaf
    upper = "tract" if "tract" in levels else levels[0]
    yield Way(name="as counted", family=NONE, mechanism=Identity())
    for least in (leaf, *LADDERS):
        called = "leaves" if least == leaf else f"areas of {least}"
        shown = "leaf" if least == leaf else str(least)
        for crossed, words in (
            (WITH_AREAS, "crossed"),
            (upper, f"apart, crossed at {upper}"),
            (NOWHERE, "apart, never crossed"),
        ):
            yield Way(
                name=f"{called}, {words}",
                family=COARSENING,
                mechanism=_coarsened(people, least, crossed),
                least=shown,
                crossed=crossed,
            )
    apart: Any = {"known": people.known, "secret": people.secret}
    yield Way(
        name="complementary suppression",
        family=SUPPRESSION,
        mechanism=Suppression(tables=apart, effort=0, audit=0),
    )
    yield Way(name="rounded to 5", family=ROUNDING, mechanism=Rounding(tables=apart, base=5))
    graduated = replace(Rounding.from_preset("us-drb-2019"), tables=apart)
    yield Way(name="rounded by steps", family=ROUNDING, mechanism=graduated)
    if people.homes:
        for rate in (Fraction(1, 20), Fraction(1, 2)):
            yield Way(
                name=f"swapping {float(rate):.0%}".replace("%", " %"),
                family=SWAPPING,
                mechanism=HouseholdSwapping(rate=rate),
            )
    for name, given in (
        ("epsilon 1", {"epsilon": 1}),
        ("epsilon 4", {"epsilon": 4}),
        ("rho 2.56", {"rho": Fraction("2.56")}),
        ("rho 2.56, pooled", {"rho": Fraction("2.56"), "pool": True}),
    ):
        loss: Any = given
        yield Way(name=f"TopDown, {name}", family=TOPDOWN, mechanism=TopDown(**loss))
