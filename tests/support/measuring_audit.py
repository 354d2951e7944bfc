"""An audit of TopDown's measuring step: is each query's noise worth the share it claims?

The total epsilon is set so that the audited query's share of it is 1. One person's record changes
from one group of the query to another, in the same unit; the two answers are all that depends on
it, and their joint event shows the whole loss of the query. Below the root a level of many equal
units gives as many independent runs in one measurement; at the root each run is a measurement.

If the measuring step keeps its promise, lower bounds at confidence c exceed the share in at most
a fraction 1 - c of all audits, whatever they are; and if its noise is not wasted, they come close.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count

import numpy as np

from headcount.arrays import Ints
from headcount.domain import Domain
from headcount.errors import ConfigError
from headcount.geography import Geography
from headcount.noise import KeyedNoise, RunKey
from headcount.privacy import UnitOfPrivacy
from headcount.schema import Schema
from headcount.tabulate import CELLS, Counts, every_cell
from headcount.topdown.measure import Measurements
from headcount.topdown.settings import TopDownSettings
from tests.support.audit_trials import AuditTrials, audit_trials

Build = Callable[..., Measurements]
"""Makes measurements as ``Measurements`` does; a mutated one must be caught."""

_BACKGROUND = 3
"""People whose records stay."""


@dataclass(frozen=True, kw_only=True)
class MeasuringAudit:
    """Audits of one query at one level, at a total epsilon where its share is 1."""

    level: str
    query: str
    total: Fraction
    trials: AuditTrials

    @property
    def above(self) -> int:
        """How many of the bounds exceed the share."""
        return self.trials.above(1.0)

    @property
    def p_value(self) -> float:
        """Chance of so many or more if the share is the true loss."""
        return self.trials.p_value(1.0)

    @property
    def reached(self) -> float:
        """The part of the share that the bounds show on average."""
        return self.trials.mean


def audit_measuring(
    settings: TopDownSettings,
    schema: Schema,
    *,
    levels: tuple[str, ...],
    level: str,
    query: str,
    runs: int = 10_000,
    trials: int = 200,
    seed: int = 0,
    build: Build = Measurements,
) -> MeasuringAudit:
    """Audit one query at one of the levels, named from the whole down.

    Invariants and bounds play no part: they are not measured. ``runs`` and ``trials`` are as in
    ``audit_trials``.
    """
    at_root = level == levels[0]
    place = _place(levels, 1 if at_root else runs)
    share = settings.allocation(place).share(level=level, query=query)
    if share == 0:
        raise ConfigError(
            "measuring audit",
            place=f"{query!r} at {level!r}",
            found="no share",
            expected="a query that is measured at this level",
        )
    total = 1 / share
    unit = UnitOfPrivacy.CHANGE_ONE
    measured = replace(settings, epsilon=total, rho=None, unit=unit)
    pair = _two_cells(settings, schema, query)
    noise = KeyedNoise(RunKey.from_seed(seed), "measuring audit", b"neighbours", level.encode())
    number = count()  # no two samples share a run of the noise

    def sampler(lives_in: int) -> Callable[[np.random.Generator, int], Ints]:
        counts = _counts(schema, place, pair, lives_in)

        def once() -> Ints:
            made = build(counts, measured, noise, run=next(number))
            return _answers(made, level, query, pair, units=place.size(level))

        def sample(_: np.random.Generator, size: int) -> Ints:
            return np.concatenate([once() for _ in range(size)]) if at_root else once()

        return sample

    found = audit_trials(sampler(0), sampler(1), runs=runs, trials=trials, seed=seed)
    return MeasuringAudit(level=level, query=query, total=total, trials=found)


@dataclass(frozen=True)
class _Pair:
    """Two cells between which one record changes, the query's groups they are in, and a third."""

    cells: tuple[int, int]
    groups: tuple[int, int]
    apart: int | None


def _two_cells(settings: TopDownSettings, schema: Schema, query: str) -> _Pair:
    groups = (every_cell(schema) if query == CELLS else settings.query(query)).groups(schema)
    possible = np.flatnonzero(schema.possible)
    first, last = possible[0], possible[-1]
    if groups[first] == groups[last]:
        raise ConfigError(
            "measuring audit",
            place=f"query {query!r}",
            found="first and last cell in one group",
            expected="a query whose answers change when a record does",
        )
    others = possible[~np.isin(groups[possible], groups[[first, last]])]
    apart = int(others[len(others) // 2]) if len(others) else None
    return _Pair((int(first), int(last)), (int(groups[first]), int(groups[last])), apart)


def _place(levels: tuple[str, ...], units: int) -> Geography:
    """The whole, and below it as many lines of only children as there are units."""
    codes, below = np.arange(units).astype(np.str_), len(levels) - 1
    parents = [np.zeros(units, np.int32)] + [np.arange(units, dtype=np.int32)] * (below - 1)
    return Geography(
        levels,
        (np.array(["whole"]), *[codes] * below),
        (np.empty(0, np.int32), *parents[:below]),
    )


def _counts(schema: Schema, place: Geography, pair: _Pair, lives_in: int) -> dict[str, Counts]:
    """In each unit one person lives in one of two cells, which are empty otherwise."""
    from scipy.sparse import csr_array

    one = np.zeros(schema.size, dtype=np.int64)
    if pair.apart is not None:
        one[pair.apart] = _BACKGROUND
    one[pair.cells[lives_in]] = 1
    leaf = Counts(
        Domain(schema, place), place.leaf, csr_array(np.tile(one, (place.size(place.leaf), 1)))
    )
    return {level: leaf.at(level) for level in place.levels}


def _answers(made: Measurements, level: str, query: str, pair: _Pair, *, units: int) -> Ints:
    """The two answers of each unit, units x 2: drawn by the very function that ``answered`` uses.

    Whole margins are drawn otherwise, for publication; that both are the same is tested elsewhere.
    """
    unit = np.repeat(np.arange(units, dtype=np.int64), 2)
    pairs = pair.cells if query == CELLS else pair.groups
    group = np.tile(np.array(pairs, dtype=np.int64), units)
    return made.picker(level, unit)(query, unit, group).reshape(units, 2)
