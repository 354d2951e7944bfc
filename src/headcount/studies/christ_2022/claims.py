"""The paper's claims, one by one, beside what this run finds.

A printed number holds if ours is within a factor of 1.3 of it or within 5 points (percent, or
0.05 of a rate): the authors mostly read them off figures. A statement in words holds if it is true
of every case that it is about, and partly if of most. Nothing was tuned to make a claim hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

import polars as pl

Holds = Literal["yes", "partly", "no"]
Tables = Mapping[str, pl.DataFrame]

FACTOR = 1.3
POINTS = 5.0
NEAR = "within a factor of 1.3, or 5 points"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim; ``rule`` says when it holds."""

    claim: str
    paper: str
    ours: str
    holds: Holds
    rule: str


def claims_table(tables: Tables, *, synthetic: bool) -> pl.DataFrame:
    """``claims.csv``: claims about the counties only where they are; formulas always."""
    from headcount.studies.christ_2022.claims_accuracy import accuracy_claims
    from headcount.studies.christ_2022.claims_privacy import privacy_claims
    from headcount.studies.christ_2022.claims_theory import theory_claims

    found: list[Claim] = []
    if synthetic:
        found += [*accuracy_claims(tables), *privacy_claims(tables)]
    found += theory_claims(tables)
    return pl.DataFrame([asdict(claim) for claim in found])


def near(paper: float, ours: float, *, points: float = POINTS) -> bool:
    """Whether a number is within the factor of a printed one, or within so many points."""
    if abs(ours - paper) <= points:
        return True
    return paper > 0 and paper / FACTOR <= ours <= paper * FACTOR


def number(
    claim: str,
    *,
    paper: float,
    ours: float,
    show: str = "{:.1f} %",
    points: float = POINTS,
    note: str = "",
) -> Claim:
    """A printed number beside ours."""
    return Claim(
        claim=claim,
        paper=show.format(paper),
        ours=show.format(ours) + note,
        holds="yes" if near(paper, ours, points=points) else "no",
        rule=NEAR if points else "within a factor of 1.3",
    )


def share(true: int, of: int) -> Holds:
    """Yes if always, partly if in most cases, else no."""
    if true == of:
        return "yes"
    return "partly" if 2 * true > of else "no"


def counted(claim: str, *, paper: str, true: int, of: int, what: str, rule: str) -> Claim:
    """A statement that is about several cases."""
    return Claim(
        claim=claim,
        paper=paper,
        ours=f"{true} of {of} {what}",
        holds=share(true, of),
        rule=f"{rule}; partly: in most",
    )


def present(tables: Tables, *names: str) -> bool:
    """Whether all these counties were run."""
    return set(names) <= set(tables["areas"]["county"])


def by_class(tables: Tables, diversity: str) -> list[str]:
    """The counties of a class of diversity."""
    return tables["areas"].filter(diversity=diversity)["county"].to_list()


def classes(tables: Tables) -> Iterator[tuple[str, list[str]]]:
    """The classes that were run, most diverse first."""
    for name in ("high", "medium", "low"):
        if counties := by_class(tables, name):
            yield name, counties


RULES = {
    1: "one bend",
    2: "two bends allowed, levelling off; a rule added after the first results",
}
"""How kinks are found, by the number of bends; see ``kinks``."""


def at_uniques(kinks: pl.DataFrame) -> int:
    """Curves whose kink is within 0.05 of the share of unique rows; those without do not count."""
    return kinks.filter((pl.col("kink") - pl.col("unique_share")).abs() <= 0.05).height


def kink_claim(claim: str, kinks: pl.DataFrame, *, paper: float, bends: int) -> Claim:
    """A printed rate beside the kink of every swapper; a curve without one is a miss."""
    found = kinks["kink"].to_list()
    hits = sum(kink is not None and near(paper, kink, points=0.05) for kink in found)
    told = ", ".join(
        f"{name} {'none' if kink is None else format(kink, '.2f')}"
        for name, kink in zip(kinks["mechanism"], found, strict=True)
    )
    return Claim(
        claim=f"{claim} ({RULES[bends]})",
        paper=f"{paper:.2f}",
        ours=told,
        holds=share(hits, len(found)),
        rule="every swapper within a factor of 1.3, or 0.05; partly: most",
    )
