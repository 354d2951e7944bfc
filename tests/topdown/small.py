"""Small places with people and living quarters, drawn by hand or by hypothesis."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from headcount.domain import Domain
from headcount.geography import Geography
from headcount.mechanisms._base import Context, CountsOutcome
from headcount.noise import KeyedNoise, RunKey
from headcount.population.population import Quarters
from headcount.privacy import PureLoss, UnitOfPrivacy, ZCDPLoss
from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate import CELLS, Counts, Query
from headcount.testing.strategies import geographies
from headcount.topdown.choices import Invariant, QuartersBounds
from headcount.topdown.mechanism import TopDown
from tests.support.drawn_bounds import keys_of

Ints = NDArray[np.int64]

SCHEMA = Schema(
    (Attribute("kind", ("home", "school", "nursing")), Attribute("age", ("minor", "adult"))),
    (impossible({"kind": ["nursing"], "age": ["minor"]}),),
)
TOTAL, KIND, AGE = Query("total"), Query("kind", ("kind",)), Query("age", ("age",))
HALF = Fraction(1, 2)
SHARES = ((CELLS, Fraction(1, 4)), ("kind", Fraction(1, 4)), ("age", HALF))


def pure(epsilon: object, unit: UnitOfPrivacy = UnitOfPrivacy.CHANGE_ONE) -> PureLoss:
    return PureLoss(epsilon=Fraction(str(epsilon)), unit=unit)


def zcdp(rho: object) -> ZCDPLoss:
    return ZCDPLoss(rho=Fraction(str(rho)), unit=UnitOfPrivacy.CHANGE_ONE)


def settings(loss: Any, **other: Any) -> TopDown:
    """TopDown on the small schema, without invariants or bounds unless they are given."""
    chosen = {"query_shares": SHARES, "queries": (TOTAL, KIND, AGE)} | other
    shares, queries = chosen.pop("query_shares"), chosen.pop("queries")
    for name, key in (("invariants", "invariant"), ("level_shares", "levels")):
        if name in chosen:
            chosen[key] = chosen.pop(name)
    return TopDown(**spent(loss), **keys_of(queries, shares), **chosen)


def spent(loss: PureLoss | ZCDPLoss | None) -> dict[str, Any]:
    """A loss as settings of TopDown."""
    if loss is None:
        return {"epsilon": "inf"}
    if isinstance(loss, PureLoss):
        return {"epsilon": loss.epsilon, "unit": loss.unit}
    return {"rho": loss.rho, "unit": loss.unit}


def tree(*levels: tuple[str, list[int]]) -> Geography:
    """A geography from the number of children of each unit, level by level."""
    names, units, parents = ["whole"], [np.array(["whole"])], [np.empty(0, dtype=np.int32)]
    for name, children in levels:
        names.append(name)
        units.append(np.array([f"{name}{k}" for k in range(sum(children))]))
        parents.append(np.repeat(np.arange(len(children), dtype=np.int32), children))
    return Geography(tuple(names), tuple(units), tuple(parents))


def counts_of(
    dense: Any, geography: Geography, *, schema: Schema = SCHEMA, occupied: Any = None
) -> Counts:
    """Leaf counts from an array leaves x cells."""
    from scipy.sparse import csr_array

    quarters = None
    if occupied is not None:
        taken = np.asarray(occupied, dtype=np.int64)
        vacant = np.zeros(len(taken), dtype=np.int64)
        quarters = Quarters(geography, schema.names[0], taken, vacant)
    matrix = csr_array(np.asarray(dense, dtype=np.int64))
    return Counts(Domain(schema, geography, read_off=()), geography.leaf, matrix, quarters=quarters)


def by_level(counts: Counts) -> dict[str, Counts]:
    return {level: counts.at(level) for level in counts.geography.levels}


def keyed(seed: int = 1) -> KeyedNoise:
    return KeyedNoise(RunKey.from_seed(seed), "topdown", b"data", b"config")


def run(mechanism: TopDown, counts: Counts, *, seed: int = 1, **context: Any) -> CountsOutcome:
    """One run; its tables are dense below."""
    design = mechanism.on(counts.domain)
    made = design.run(counts, keyed(seed), runs=range(1), context=Context(**context))
    return made.as_counts()


def dense(outcome: CountsOutcome) -> dict[str, Ints]:
    return {level: np.asarray(outcome.dense(level)[0]) for level in outcome.tables}


def same(one: Mapping[str, Ints], other: Mapping[str, Ints]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


def answers(dense_counts: Ints, query: Query, schema: Schema = SCHEMA) -> Ints:
    """A marginal of every unit, cell by cell."""
    group = query.groups(schema)
    made = np.zeros((len(dense_counts), query.size(schema)), dtype=np.int64)
    for cell, g in enumerate(group):
        made[:, g] += dense_counts[:, cell]
    return made


def add_up(geography: Geography, leaf: Ints, level: str) -> Ints:
    """Leaf rows summed to a level, one by one."""
    made = np.zeros((geography.size(level), *leaf.shape[1:]), dtype=np.int64)
    for k, unit in enumerate(geography.ancestors(level)):
        made[unit] += leaf[k]
    return made


VILLAGE = tree(("state", [2]), ("county", [2, 1]), ("leaf", [3, 2, 2]))
"""Two states; the second has an only county."""

OCCUPIED = np.array(
    [[4, 1, 0], [3, 0, 1], [2, 0, 0], [5, 1, 1], [1, 0, 0], [3, 1, 2], [0, 0, 0]], dtype=np.int64
)
PEOPLE = np.array(
    [
        [5, 9, 12, 3, 0, 0],
        [2, 8, 0, 0, 0, 6],
        [0, 5, 0, 0, 0, 0],
        [7, 11, 4, 4, 0, 3],
        [1, 1, 0, 0, 0, 0],
        [3, 7, 2, 0, 0, 9],
        [0, 0, 0, 0, 0, 0],
    ],
    dtype=np.int64,
)
BOUNDS = QuartersBounds(query="kind", caps=(9, 99, 99), total_level="state")
STATE_TOTAL = Invariant(query="total", level="state")


def village() -> Counts:
    """People who keep the bounds of their quarters; the last leaf is empty."""
    return counts_of(PEOPLE, VILLAGE, occupied=OCCUPIED)


def bounded(loss: Any, **other: Any) -> TopDown:
    """The small TopDown with the invariants and bounds of the 2018 test."""
    chosen = {"invariants": (STATE_TOTAL,), "bounds": (BOUNDS,), "failsafe_over": ("kind",)}
    return settings(loss, **(chosen | other))


@st.composite
def hierarchies(draw: st.DrawFn, *, losses: Any = None) -> tuple[TopDown, Counts]:
    """A place with adversarial bounds, and a TopDown for it.

    Caps are small, so that a type is often full (low = high) or empty, totals and whole marginals
    may be exact at any level, and some of these cross each other or come as unions.
    """
    place = draw(geographies(max_depth=3, max_children=3))
    leaves, kinds = place.size(place.leaf), 3
    caps = tuple(draw(st.lists(st.integers(1, 3), min_size=kinds, max_size=kinds)))
    # Drawn from a seed: hypothesis alone would leave most of the larger arrays at 0.
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    occupied = chance.choice([0, 0, 1, 1, 2, 5], size=(leaves, kinds))
    fill = chance.choice([0.0, 0.0, 0.5, 1.0], size=(leaves, kinds))
    people = np.rint(occupied * (1 + (np.array(caps) - 1) * fill)).astype(np.int64)
    young = np.floor(people * chance.choice([0.0, 0.5, 1.0], size=(leaves, kinds)))
    young[:, 2] = 0  # nobody under age in a nursing home: a structural zero
    cells = np.stack([young, people - young], axis=2).reshape(leaves, -1)
    counts = counts_of(cells, place, occupied=occupied)
    exact = st.builds(
        Invariant,
        query=st.sampled_from(["total", "total", "kind", "age"]),
        level=st.sampled_from(place.levels),
    )
    total_level = draw(st.sampled_from(["", *place.levels[:-1]]))
    needed = [Invariant(query="total", level=total_level)] if total_level else []
    unions = draw(st.sampled_from([False, False, False, True]))
    bounds = QuartersBounds(query="kind", caps=caps, total_level=total_level, unions=unions)
    known = [pure("1/4"), pure(2), zcdp("1/10"), None]
    mechanism = settings(
        draw(st.sampled_from(known) if losses is None else losses),
        invariants=(*needed, *draw(st.lists(exact, max_size=2))),
        bounds=(bounds,),
        failsafe_over=("kind",),
    )
    return mechanism, counts
