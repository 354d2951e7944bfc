"""TopDown's settings: the seven choices of Petti & Flaxman (2020), section "TopDown options"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path

from headcount.errors import ConfigError, InputError
from headcount.geography import Geography
from headcount.mechanisms._units import Neighbours, steps_of_all
from headcount.privacy import DEFAULT_UNIT, Allocation, PureLoss, ZCDPLoss, allocate
from headcount.schema.attribute import first_repeated, one_of
from headcount.schema.follows import Steps
from headcount.schema.schema import Combination, Schema
from headcount.tabulate import CELLS, Query

MOST_PEOPLE = 10**9
"""The largest cap: with billions of living quarters, sums still fit 64 bits."""

MOST_UNITED = 10
"""Types of living quarters whose unions are bounded: each more doubles the unions."""


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

    def __post_init__(self) -> None:
        for cap in self.caps:
            if not 1 <= cap <= MOST_PEOPLE:
                raise ConfigError(
                    "topdown", place=f"bounds on {self.query!r}", found=f"a cap of {cap}",
                    expected=f"people in one living quarters, 1 to {MOST_PEOPLE:,}",
                )  # fmt: skip
        if self.unions and len(self.caps) > MOST_UNITED:
            raise ConfigError(
                "topdown", place=f"bounds on {self.query!r}",
                found=f"unions of {len(self.caps)} types",
                expected=f"unions of at most {MOST_UNITED} types (each more doubles them)",
            )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TableBounds:
    """Bounds on the answers of a query in every unit of a level, from a file (bounds_table.py).

    Lows and highs add up over children, so that the levels above leave room for them.

    where
        file     its name; where it lies (``folder``) is no part of the settings
        public   True for a table that anyone may know without this release; False for one worked
                 out from the confidential data, which is then released exactly
        sha256   of its content, so that another table is another setting; "" to take any
    """

    query: str
    level: str
    file: str
    public: bool
    sha256: str = ""
    folder: Path = field(default=Path(), repr=False, compare=False)


@contextmanager
def _asked_by(place: str) -> Iterator[None]:
    """An unknown name is an error of the setting that asks for it."""
    try:
        yield
    except InputError as error:
        place = f"{place}, {error.place}" if error.place else place
        raise ConfigError(
            "topdown", place=place, found=error.found, expected=error.expected
        ) from None


NURSE_NVA_0: Combination = (("hhgq", ("elderly_or_poor",)), ("voting_age", ("under_18",)))
"""The optional structural zero of the 2018 test: no minors in homes for the elderly or poor."""

Shares = tuple[tuple[str, Fraction], ...]
"""Named parts of a whole."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TopDownSettings:
    """What TopDown leaves to its user.

    where
        loss           1. the overall loss, in pure epsilon or zCDP rho, with its unit of privacy;
                       None adds no noise at all, to check a set-up (and protects nothing)
        level_shares   2. how it is split over levels; None for equal parts
        queries        3. the marginals that are measured or restricted, beside the cells
        query_shares   4. how a level's part is split over queries; "cells" is the detailed query
        level_queries  4. other splits at some levels
        invariants     5. what is published exactly
        bounds         6. what bounds the counts
        structural_zeros  6. combinations that the schema must rule out
        (7. what to publish is the run's business: counts, microdata, measurements)
        failsafe_over    attributes to sum over when a parent cannot be met: the margin of all
                         others is kept
        report_epsilon   the loss spent on the protected distance to the truth; 0 for no report
        count_housemates, largest_household
                         what of a household is counted in the unit of privacy (units.py)
    """

    loss: PureLoss | ZCDPLoss | None
    query_shares: Shares
    level_shares: Shares | None = None
    level_queries: tuple[tuple[str, Shares], ...] = ()
    queries: tuple[Query, ...] = ()
    invariants: tuple[Invariant, ...] = ()
    bounds: tuple[QuartersBounds | TableBounds, ...] = ()
    failsafe_over: tuple[str, ...] = ()
    report_epsilon: Fraction = Fraction(0)
    structural_zeros: tuple[Combination, ...] = ()
    count_housemates: bool = False
    largest_household: int | None = None

    def __post_init__(self) -> None:
        self.neighbours.checked(name="topdown")
        known = [CELLS, *(query.name for query in self.queries)]
        if repeated := first_repeated(known):
            raise ConfigError(
                "topdown", place="queries", found=f"{repeated!r} twice", expected="distinct names"
            )
        for name in [*(i.query for i in self.invariants), *(b.query for b in self.bounds)]:
            if name not in known[1:]:
                raise ConfigError(
                    "topdown",
                    place=f"query {name!r}",
                    found="an unknown query",
                    expected=one_of(known[1:]),
                )
        for query in self.queries:
            if twice := first_repeated(str(getattr(axis, "name", axis)) for axis in query.by):
                raise ConfigError(
                    "topdown", place=f"query {query.name!r}", found=f"{twice!r} twice",
                    expected="distinct attributes and recodes",
                )  # fmt: skip
        self._refuse_vacuous()
        if self.level_shares is None:
            others = "every other level" if self.level_queries else "every level"
            levels = [others, *dict(self.level_queries)]
        else:
            levels = [level for level, _ in self.level_shares]
        self._allocate(levels)

    def __repr__(self) -> str:
        # What is said of households only where something is: seeded noise is keyed by the rest.
        shown = [
            f"{one.name}={getattr(self, one.name)!r}"
            for one in fields(self)
            if one.name not in ("count_housemates", "largest_household")
            or getattr(self, one.name) != one.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    @property
    def neighbours(self) -> Neighbours:
        """Which databases the loss compares; without a loss, those of the default unit."""
        unit = self.loss.unit if self.loss is not None else DEFAULT_UNIT
        if self.loss is None:
            return Neighbours(unit=unit)
        return Neighbours(
            unit=unit,
            count_housemates=self.count_housemates,
            largest_household=self.largest_household,
        )

    def steps_of(self, query: str, schema: Schema) -> Steps:
        """How a query's cells go by household size."""
        attributes = schema.attributes
        if query != CELLS:
            attributes = self.query(query).attributes(schema)
        return steps_of_all(attributes)

    def _refuse_vacuous(self) -> None:
        """Every invariant gives the number of people: no two add-remove neighbours share it.

        Living quarters that are counted exactly give the number of households as well.
        """
        unit = self.neighbours.unit
        if self.invariants:
            beside, changes = "an invariant", "every invariant"
        elif unit.of_household and any(isinstance(one, QuartersBounds) for one in self.bounds):
            beside, changes = "bounds from living quarters", "the number of living quarters"
        else:
            return
        if unit.adds:
            one = "household" if unit.of_household else "person"
            raise ConfigError(
                "topdown", place="unit", found=f"{unit.value!r} with {beside}",
                expected=f"{unit.pair[1].value!r}: one {one} more or less changes {changes}, and "
                "the guarantee, which holds given what is published exactly, would promise nothing",
            )  # fmt: skip

    def refuse_strangers(self, schema: Schema, geography: Geography) -> None:
        """Refuse attributes and levels that the data do not have, each by what asks for it."""
        for query in self.queries:  # unmeasured ones too
            with _asked_by(f"query {query.name!r}"):
                query.groups(schema)
        with _asked_by("failsafe_over"):
            for name in self.failsafe_over:
                schema.attribute(name)
        for invariant in self.invariants:
            with _asked_by(f"invariant {invariant.query!r}"):
                geography.depth(invariant.level)
        for bounds in self.bounds:
            if isinstance(bounds, TableBounds):
                with _asked_by(f"bounds on {bounds.query!r}"):
                    geography.depth(bounds.level)
        self._refuse_other_zeros(schema)

    def _refuse_other_zeros(self, schema: Schema) -> None:
        """Refuse a schema that lets someone be where the settings say that nobody can."""
        for zero in self.structural_zeros:
            with _asked_by("structural zeros"):
                ruled_out = Schema(schema.attributes, (zero,))
            if (schema.possible & ~ruled_out.possible).any():
                said = ", ".join(f"{name} in {list(levels)}" for name, levels in zero)
                raise ConfigError(
                    "topdown", place="structural zeros", found=f"a schema with room for {said}",
                    expected="a schema in which that is a structural zero",
                )  # fmt: skip

    def allocation(self, geography: Geography) -> Allocation:
        """The share of every level x query, checked against the levels of a geography."""
        allocation = self._allocate(list(geography.levels))
        root = geography.levels[0]
        if not allocation.queries_at(root) and not self.invariants:
            raise ConfigError(
                "topdown", place=f"level shares: {root!r}", found="no share, and no invariant",
                expected="one of the two: all levels below take their counts from this one",
            )  # fmt: skip
        return allocation

    def _allocate(self, levels: Sequence[str]) -> Allocation:
        shares = self.level_shares
        if shares is None:
            shares = tuple((level, Fraction(1, len(levels))) for level in levels)
        same = {level: self.query_shares for level, _ in shares}
        return allocate(
            levels=shares,
            queries=same | dict(self.level_queries),
            known_levels=levels,
            known_queries=[CELLS, *(query.name for query in self.queries)],
        )

    def query(self, name: str) -> Query:
        """The query of that name."""
        return next(query for query in self.queries if query.name == name)
