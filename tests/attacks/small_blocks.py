"""Small blocks and tables, and every table-consistent file of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from headcount.arrays import Flags
from headcount.attacks.knowledge import Knowledge, KnownTable, exact
from headcount.geography import Geography
from headcount.schema import Attribute, Schema, load_schema
from headcount.tabulate.published import PublishedTable, TableCells

Ints = NDArray[np.int64]

SEVEN = load_schema("sex-age38-race7-hispanic").attribute("race")
TINY = Schema(
    (
        Attribute("sex", ("male", "female")),
        Attribute("voting_age", ("under_18", "18_and_over")),
        Attribute("hispanic", ("not_hispanic", "hispanic")),
    )
)
SMALL = Schema((*TINY.attributes[1:], SEVEN))


def table(name: str, universe: tuple[tuple[str, str], ...] = (), **axes: str) -> PublishedTable:
    """A table by one coding for each role."""
    return PublishedTable(
        product="own",
        name=name,
        title=name,
        lowest="block",
        axes=tuple((role, (coding,)) for role, coding in axes.items()),
        universe=tuple((role, (group,)) for role, group in universe),
    )


PAIRS = (
    table("SA", sex="sex", age="voting-age"),
    table("SH", sex="sex", hispanic="hispanic"),
    table("AH", age="voting-age", hispanic="hispanic"),
)


def flat(blocks: int, tracts: int = 1) -> Geography:
    """Blocks in tracts of equal size."""
    parent = np.repeat(np.arange(tracts), blocks // tracts).astype(np.int32)
    return Geography(
        ("all", "tract", "block"),
        (
            np.array(["all"]),
            np.array([f"t{i}" for i in range(tracts)]),
            np.array([f"b{i:04d}" for i in range(blocks)]),
        ),
        (np.empty(0, np.int32), np.zeros(tracts, np.int32), parent),
    )


def hold(counts: Any, schema: Schema, tables: Sequence[PublishedTable]) -> tuple[KnownTable, ...]:
    """Exact block tables."""
    return tuple(exact(t.on(schema), t.of(counts, schema), level="block") for t in tables)


def knowledge(counts: Any, schema: Schema, tables: Sequence[PublishedTable]) -> Knowledge:
    """Exact block tables of counts (blocks x cells)."""
    return Knowledge(schema, flat(counts.shape[0]), hold(counts, schema, tables))


@cache
def every_file(size: int, people: int) -> Ints:
    """Every histogram of so many people over so many cells, one in each row."""
    chosen = np.array(list(combinations_with_replacement(range(size), people)), dtype=np.int64)
    found = np.zeros((len(chosen), size), dtype=np.int64)
    for column in chosen.T:
        found[np.arange(len(found)), column] += 1
    return found


def consistent(tables: Sequence[KnownTable], block: int, people: range, size: int) -> Ints:
    """All histograms that agree with what is held of one block."""
    x = np.vstack([every_file(size, n) for n in people])
    for held in tables:
        low, high = held.bounds(np.array([block]))
        sums = (held.cells.matrix.T @ x.T).T
        x = x[((low <= sums) & (sums <= high)).all(axis=1)]
    return x


def zeros_hide(
    cells: TableCells, values: Any, *, level: str, most: int = 2, spared: Flags | None = None
) -> KnownTable:
    """A table in which counts of 1 to ``most`` were published as 0.

    The attacker reads each 0 as 0 to ``most``; ``spared`` cells, by default the total of all axes,
    were never touched.
    """
    dense = csr_array(values).toarray()
    if spared is None:
        spared = np.array([all(one == "total" for one in label) for label in cells.labels])
    return KnownTable(cells, level, csr_array(dense), csr_array(most * ((dense == 0) & ~spared)))
