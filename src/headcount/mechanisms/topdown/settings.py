"""TopDown's settings: the seven choices of Petti & Flaxman (2020), section "TopDown options"."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from headcount.errors import ConfigError
from headcount.privacy import Allocation, PureLoss, ZCDPLoss
from headcount.tabulate import CELLS, Query


@dataclass(frozen=True, kw_only=True)
class Invariant:
    """A query whose true answers are published exactly at one level."""

    query: str
    level: str


@dataclass(frozen=True, kw_only=True)
class QuartersBounds:
    """Bounds on people by type of living quarters, from the number of quarters of each type.

    Each type k of a leaf unit holds at least as many people as it has quarters, and at most
    ``caps[k]`` for each of them; nobody where there are none. Bounds add up over children. At
    ``total_level`` they are rebuilt from the unit's total T and its quarters u (U in all),

        low[k]  = T if all quarters are of type k, else u[k]
        high[k] = T - (U - u[k]) if u[k] > 0, else 0

    and add up again above it. ``unions`` also bounds the sum of every set of two or more types.
    """

    query: str
    caps: tuple[int, ...]
    total_level: str = ""
    unions: bool = False


@dataclass(frozen=True, kw_only=True)
class TopDownSettings:
    """What TopDown leaves to its user.

    where
        loss        1. the overall loss, in pure epsilon or zCDP rho, with its unit of privacy;
                    None adds no noise at all, to check a set-up (and protects nothing)
        allocation  2. how it is split over levels, 4. and over queries within a level
        queries     3. the marginals that are measured or constrained, beside the cells
        invariants  5. what is published exactly
        bounds      6. what bounds the counts
        (7. what to publish is the run's business: counts, microdata, measurements)
        failsafe_over    attributes to sum over when a parent cannot be met: the margin of all
                         others is kept
        report_epsilon   the loss spent on the protected distance to the truth; 0 for no report
    """

    loss: PureLoss | ZCDPLoss | None
    allocation: Allocation
    queries: tuple[Query, ...] = ()
    invariants: tuple[Invariant, ...] = ()
    bounds: tuple[QuartersBounds, ...] = ()
    failsafe_over: tuple[str, ...] = ()
    report_epsilon: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        names = [CELLS, *(query.name for query in self.queries)]
        used = [*(one.query for one in self.allocation.shares)]
        used += [*(one.query for one in self.invariants), *(one.query for one in self.bounds)]
        for name in used:
            if name not in names:
                raise ConfigError(
                    "topdown", place=f"query {name!r}", found="an unknown query",
                    expected=f"one of {names}",
                )  # fmt: skip

    def query(self, name: str) -> Query:
        """The query of that name."""
        return next(query for query in self.queries if query.name == name)
