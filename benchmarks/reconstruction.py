"""How fast, how sure and how right is the reconstruction attack?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Reading, timed
from headcount.arrays import Ints
from headcount.attacks.knowledge import Knowledge, exact
from headcount.attacks.reconstruction import Reconstruction, reconstruct
from headcount.geography import Geography
from headcount.schema import Schema, load_schema
from headcount.tabulate.counts import adder
from headcount.tabulate.published import TableCells, supported, tables
from tests.support.persons import BlockPeople, block_people, read_people

BLOCKS = 1000
TRACT_BLOCKS = 80
SEED = 8  # the first whose blocks hold 43,000-45,000 people and the largest nearly 600
SCHEMA = "persons-2010"


def measure(persons: Path | None = None) -> list[Reading]:
    """CPU seconds of one thread, from published tables to records and proven variability.

    Without ``persons`` on synthetic blocks (see ``block_people``); with it on the user's own
    person records (columns block, sex, age, race 1-63, hispanic, and tract if there is one).
    """
    _warm()
    if persons is not None:
        return _measure_file(read_people(persons, load_schema(SCHEMA)))
    blocks = block_people(load_schema(SCHEMA), blocks=BLOCKS, seed=SEED)
    tract = block_people(load_schema(SCHEMA), blocks=TRACT_BLOCKS, seed=SEED + 1)
    return [
        *_blocks(f"{BLOCKS:,} synthetic blocks", blocks),
        *_joint(f"tract of {TRACT_BLOCKS} synthetic blocks", tract),
        _redistricting(blocks),
    ]


def _warm() -> None:
    """Compile on a few people, so that no compiler is measured."""
    people = block_people(load_schema(SCHEMA), blocks=12, seed=1)
    reconstruct(knowledge_of(people, ("sf1",)), together="tract")
    reconstruct(knowledge_of(people, ("sf1",), joint=False))


def _measure_file(people: BlockPeople) -> list[Reading]:
    readings = _blocks("blocks of the file", people)
    if people.has_tracts:
        readings += _joint("tracts of the file", people)
    return readings


def knowledge_of(people: BlockPeople, products: Sequence[str], *, joint: bool = True) -> Knowledge:
    """All tables of the products, exact: block tables and, if ``joint``, tract tables."""
    made = [table for product in products for table in tables(product).values()]
    cells, _ = supported((t for t in made if joint or t.lowest == "block"), people.schema)
    return tabulated(
        cells, people.counts("block"), schema=people.schema, geography=people.geography
    )


def agreement(people: BlockPeople, found: Reconstruction) -> tuple[float, float, Ints]:
    """Shares of people met by a record, with exact and with binned age; and misses by block."""
    truth, records = people.counts("block"), found.matrix
    exactly = float(truth.minimum(records).sum() / truth.sum())
    fold = _fold(found.class_of)
    binned_truth, binned = truth @ fold, records @ fold
    missed = np.asarray(abs(binned_truth - binned).sum(axis=1)).reshape(-1)
    return exactly, float(binned_truth.minimum(binned).sum() / truth.sum()), missed


def _fold(class_of: Ints) -> Any:
    """0/1 (cells x classes)."""
    from scipy.sparse import csr_array

    inside = np.flatnonzero(class_of >= 0)
    shape = (len(class_of), int(class_of.max()) + 1)
    return csr_array((np.ones(len(inside), np.int64), (inside, class_of[inside])), shape=shape)


def _blocks(name: str, people: BlockPeople) -> list[Reading]:
    knowledge = knowledge_of(people, ("sf1",), joint=False)
    found, _, seconds = timed(lambda: reconstruct(knowledge))
    return [
        Reading(
            f"{name}: records and variability",
            seconds,
            "s CPU",
            f"{people.size:,} people, median {np.median(people.sizes):.0f} and at most "
            f"{people.sizes.max()} a block; {people.source}; {_methods(found)}",
        ),
        *_sureness(people, found),
    ]


def _joint(name: str, people: BlockPeople) -> list[Reading]:
    knowledge = knowledge_of(people, ("sf1",))
    found, _, seconds = timed(lambda: reconstruct(knowledge, together="tract"))
    return [
        Reading(
            f"{name}, jointly, single years of age",
            seconds,
            "s CPU",
            f"{people.size:,} people; {people.source}; {_methods(found)}",
        ),
        *_sureness(people, found),
    ]


def _sureness(people: BlockPeople, found: Reconstruction) -> list[Reading]:
    exactly, binned, missed = agreement(people, found)
    certain = found.certain
    here = people.sizes > 0
    held = people.sizes[certain].sum() / people.size
    return [
        Reading("  blocks proven", 100 * found.proven[here].mean(), "%"),
        Reading(
            "  blocks whose records are certain",
            100 * certain[here].mean(),
            "%",
            f"{100 * held:.1f} % of people",
        ),
        Reading(
            "  certain blocks not recovered exactly (binned age)",
            float((missed[certain] > 0).sum()),
            "blocks",
            at_most=0,
        ),
        Reading(
            "  people recovered, binned age",
            100 * binned,
            "%",
            f"{100 * exactly:.1f} % with the exact age",
        ),
    ]


def _redistricting(people: BlockPeople) -> Reading:
    knowledge = knowledge_of(people, ("pl94-171",))
    found, _, seconds = timed(lambda: reconstruct(knowledge))
    algebra = float((found.method == "algebra").mean())
    return Reading(
        f"{BLOCKS:,} blocks from P.L. 94-171 P1-P4",
        seconds,
        "s CPU",
        f"{100 * algebra:.0f} % by algebra alone, "
        f"{int((agreement(people, found)[2] > 0).sum())} blocks wrong",
    )


def _methods(found: Reconstruction) -> str:
    names, counts = np.unique(found.method, return_counts=True)
    return ", ".join(f"{count:,} by {name}" for name, count in zip(names, counts, strict=True))


def tabulated(
    cells: Sequence[TableCells], counts: Any, *, schema: Schema, geography: Geography
) -> Knowledge:
    """All tables exact, from counts (leaf units x cells), each at the lowest level it is made for.

    For any file of persons that gets tabulated: true, swapped, or noisy and made consistent.
    """
    held = []
    for one in cells:
        level = one.table.published_at(geography)[-1]
        up = adder(geography, level, of=geography.leaf)
        held.append(exact(one, one.table.of(up @ counts, schema), level=level))
    return Knowledge(schema, geography, tuple(held))
