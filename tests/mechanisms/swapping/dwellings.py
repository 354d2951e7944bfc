"""Small towns of dwellings for tests: drawn, or by hypothesis."""

import numpy as np
from hypothesis import strategies as st

from headcount.domain import Domain
from headcount.geography import Geography, regular
from headcount.population import Population
from headcount.population.population import Households
from headcount.schema import Attribute

AGE = Attribute("age", ("5", "17", "18", "40+"))
RACE = Attribute("race", ("a", "b", "c"))
TENURE = Attribute("tenure", ("own", "rent"))
KINDS = ("household", "vacant", "prison")


def spine(counties: int = 2, tracts: int = 2, blocks: int = 3) -> Geography:
    """State, counties, tracts and blocks, each with the same number of children."""
    levels = ("state", "county", "tract", "block")
    units, parents = [np.array(["s"])], [np.empty(0, dtype=np.int32)]
    for children in (counties, tracts, blocks):
        above = units[-1]
        units.append(np.array([f"{code}.{i}" for code in above for i in range(children)]))
        parents.append(np.repeat(np.arange(len(above), dtype=np.int32), children))
    return Geography(levels, tuple(units), tuple(parents))


def dwellings(
    dwelling_count: int, *, seed: int, geography: Geography | None = None, largest: int = 3
) -> Households:
    """Dwellings at random: one in eight is vacant, one in eight a prison."""
    rng = np.random.default_rng(seed)
    tree = geography or spine()
    kind = rng.choice(3, size=dwelling_count, p=[0.75, 0.125, 0.125]).astype(np.int8)
    size = np.where(kind == 1, 0, rng.integers(1, largest + 1, dwelling_count))
    people = int(size.sum())
    return Households(
        "town",
        tree,
        (AGE, RACE),
        (TENURE,),
        KINDS,
        rng.integers(0, tree.size(tree.leaf), dwelling_count).astype(np.int32),
        kind,
        np.concatenate([[0], np.cumsum(size)]).astype(np.int64),
        {
            "age": rng.integers(0, AGE.size, people),
            "race": rng.choice(3, people, p=[0.7, 0.2, 0.1]),
        },
        {"tenure": rng.integers(0, 2, dwelling_count)},
    )


def some_people(households: Households, names: tuple[str, ...] = ("race", "tenure")) -> Population:
    """The people that a mechanism protects."""
    schema, cell = households.cells(names)
    unit = households.block[households.dwelling]
    return Population(
        "town", Domain(schema, households.geography), unit, cell, households=households
    )


@st.composite
def towns_of_dwellings(draw: st.DrawFn, *, most: int = 40) -> Households:
    """A tiny town whose number of dwellings, spread and sizes vary."""
    tree = draw(
        st.sampled_from([spine(), spine(1, 1, 2), spine(3, 1, 2), regular(children=2, depth=1)])
    )
    count = draw(st.integers(1, most))
    return dwellings(
        count, seed=draw(st.integers(0, 10**6)), geography=tree, largest=draw(st.integers(1, 4))
    )
