"""From what epsilon TopDown's records tell more than a guess."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

import polars as pl

from headcount.comparison.template import cell
from headcount.evaluation.reidentified import ALL, PROPORTIONAL, TELLING
from headcount_papers.hawes_rodriguez_2021.methods import PURE, TOPDOWN, ZCDP

POINTS = 5.0
"""How far precision must be above the guess, in percentage points."""
OWN, EXACT = "from the same release", "from exact counts"


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """Where a rising curve passes a height, given at some epsilons.

    where
        above   the largest epsilon tried up to which the curve stays below; None if it starts above
        upto    the first epsilon tried at which it is above; None if it never is
        at      between the two, straight in log epsilon; None if it lies outside what was tried
    """

    above: float | None
    upto: float | None
    at: float | None

    def __str__(self) -> str:
        if self.upto is None:
            return f"above {self.above:g}" if self.above is not None else "not known"
        if self.at is None:
            return f"at most {self.upto:g}"
        return f"about {self.at:.2g} (between {self.above:g} and {self.upto:g})"


def find_crossing(gaps: list[tuple[float, float | None]], *, points: float = POINTS) -> Crossing:
    """Where (epsilon, gap) first stays above ``points`` for all larger epsilons tried."""
    known = [(epsilon, gap) for epsilon, gap in sorted(gaps) if gap is not None]
    below = [epsilon for epsilon, gap in known if gap <= points]
    if not known or not below:
        return Crossing(above=None, upto=known[0][0] if known else None, at=None)
    last = max(below)
    for (low, gap_low), (high, gap_high) in pairwise(known):
        if low == last:
            share = (points - gap_low) / (gap_high - gap_low)
            at = exp(log(low) + share * (log(high) - log(low)))
            return Crossing(above=low, upto=high, at=at)
    return Crossing(above=last, upto=None, at=None)


def crossing_table(reid: pl.DataFrame, methods: pl.DataFrame) -> pl.DataFrame:
    """For either kind of loss, attacker, universe and guess: epsilon and between which tried."""
    rows = []
    for loss in (PURE, ZCDP):
        tried = methods.filter(kind=TOPDOWN, loss=loss).select("method", "epsilon").rows()
        for attacker in reid["attacker"].unique(maintain_order=True):
            for universe in (ALL, "nonmodal", TELLING):
                where = {"attacker": attacker, "universe": universe}
                guess = cell(reid, "precision", method=PROPORTIONAL, **where)
                own = [(e, cell(reid, "above_proportional", method=m, **where)) for m, e in tried]
                exact = [
                    (e, None if guess is None or found is None else found - guess)
                    for m, e in tried
                    for found in [cell(reid, "precision", method=m, **where)]
                ]
                for name, gaps in ((OWN, own), (EXACT, exact)):
                    found = find_crossing(gaps)
                    rows.append(
                        {
                            "loss": loss,
                            **where,
                            "guess": name,
                            "points": POINTS,
                            "epsilon": found.at,
                            "above": found.above,
                            "upto": found.upto,
                            "words": str(found),
                        }
                    )
    return pl.DataFrame(rows, infer_schema_length=None)
