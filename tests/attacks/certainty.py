"""By brute force: is a block that reconstruction calls certain the only one its tables allow?

Each case is a tract of one or two blocks with few people and eight possible records, some tables of
them, exact, withheld in part or whole, or with small counts shown as 0, and the attack on blocks
alone or together. Every set of records of up to four people in each block is tried against the
tables: here, with no code of the attack.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from headcount.arrays import Ints
from headcount.attacks._problem import Effort
from headcount.attacks.intervals import UNKNOWN
from headcount.attacks.knowledge import Knowledge, KnownTable, between, exact
from headcount.attacks.reconstruction import Reconstruction, reconstruct
from headcount.draws import multinomial
from headcount.geography import Geography
from headcount.schema import Attribute, Schema
from headcount.tabulate.published import PublishedTable
from tests.attacks.small_blocks import zeros_hide

LARGEST_BLOCK = 4
"""The most people in a block that are tried."""

SCHEMA = Schema(
    (
        Attribute("sex", ("male", "female")),
        Attribute("voting_age", ("under_18", "18_and_over")),
        Attribute("hispanic", ("not_hispanic", "hispanic")),
    )
)
_CODINGS = {"sex": "sex", "age": "voting-age", "hispanic": "hispanic"}
_TABLES = (
    ("sex",),
    ("age",),
    ("hispanic",),
    ("sex", "age"),
    ("sex", "hispanic"),
    ("age", "hispanic"),
    ("sex", "age", "hispanic"),
)


@dataclass(frozen=True, eq=False)
class CertaintyCase:
    """What the attacker holds, and how the attack goes about it."""

    knowledge: Knowledge
    together: str | None
    effort: Effort

    def attacked(self) -> Reconstruction:
        """What the attack makes of it."""
        return reconstruct(self.knowledge, together=self.together, effort=self.effort)


def judge(case: CertaintyCase, found: Reconstruction, seen: Counter[str]) -> None:
    """Count what became of each block, beside every set of records that the tables allow."""
    held = case.knowledge.tables
    seen["together"] += case.together is not None
    seen["withheld"] += any(not one.exact for one in held)
    fold = np.eye(int(found.class_of.max()) + 1, dtype=np.int64)[found.class_of]
    records = np.asarray(found.matrix.toarray(), dtype=np.int64)
    tried = bool((found.people <= LARGEST_BLOCK).all())
    for block, every in enumerate(allowed(case)):
        kinds = np.unique(every @ fold, axis=0)
        mine = records[block] @ fold
        certain = bool(found.certain[block])
        same = (kinds == mine).all(axis=1)
        seen["blocks"] += 1
        seen["certain"] += certain
        seen["certainly empty"] += certain and not mine.any()
        seen["wrong"] += certain and not same.all()
        seen["broken"] += tried and not same.any()
        seen["missed"] += len(kinds) == 1 and not certain


def allowed(case: CertaintyCase) -> list[Ints]:
    """For each block the sets of records, of up to MOST people, in some solution of all tables."""
    knowledge = case.knowledge
    blocks = [
        _keeps(knowledge.at("block"), every_set(), block)
        for block in range(knowledge.geography.size("block"))
    ]
    if case.together is None:
        return blocks
    if len(blocks) == 1:
        return [_keeps(knowledge.at("tract"), blocks[0], 0)]
    one, other = blocks
    good = np.ones((len(one), len(other)), dtype=bool)
    for held in knowledge.at("tract"):
        low, high = (end[0] for end in held.bounds(np.array([0])))
        cells = held.cells.matrix.toarray()
        for cell in range(cells.shape[1]):
            sums = (one @ cells[:, cell])[:, None] + (other @ cells[:, cell])[None, :]
            good &= (sums >= low[cell]) & (sums <= high[cell])
    return [one[good.any(axis=1)], other[good.any(axis=0)]]


def _keeps(tables: tuple[KnownTable, ...], sets: Ints, unit: int) -> Ints:
    for held in tables:
        low, high = held.bounds(np.array([unit]))
        sums = sets @ held.cells.matrix.toarray()
        sets = sets[((sums >= low) & (sums <= high)).all(axis=1)]
    return sets


@cache
def every_set() -> Ints:
    """Every histogram of up to MOST people over the cells, one in each row."""
    rows = [
        np.bincount(chosen, minlength=SCHEMA.size)
        for people in range(LARGEST_BLOCK + 1)
        for chosen in combinations_with_replacement(range(SCHEMA.size), people)
    ]
    return np.array(rows, dtype=np.int64)


def draw_case(number: int) -> CertaintyCase:
    """Case ``number``, always the same."""
    rng = np.random.default_rng([12, number])
    blocks = int(rng.integers(1, 3))
    together = "tract" if rng.random() < 0.6 else None
    place = Geography(
        ("tract", "block"),
        (np.array(["t"]), np.array([f"b{k}" for k in range(blocks)])),
        (np.empty(0, np.int32), np.zeros(blocks, np.int32)),
    )
    people = rng.choice([0, 1, 1, 2, 2, 3], size=blocks)
    counts = np.array(
        [multinomial(rng, n, rng.dirichlet(np.full(SCHEMA.size, 0.5))) for n in people]
    )
    held = _drawn_tables(rng, counts, "block", at_least=1)
    if together:
        held += _drawn_tables(rng, counts.sum(axis=0, keepdims=True), "tract", at_least=1)
    effort = Effort() if rng.random() < 0.7 else Effort(nodes=int(rng.integers(0, 3)))
    return CertaintyCase(Knowledge(SCHEMA, place, tuple(held)), together, effort)


def _drawn_tables(
    rng: np.random.Generator, counts: Ints, level: str, *, at_least: int
) -> list[KnownTable]:
    """Some tables at a level, each published in one of several ways."""
    which = rng.permutation(len(_TABLES))[: rng.integers(at_least, 4)]
    return [_published(rng, _TABLES[k], counts, level) for k in which]


def _published(
    rng: np.random.Generator, axes: tuple[str, ...], counts: Ints, level: str
) -> KnownTable:
    from scipy.sparse import csr_array

    name = " ".join(axes)
    table = PublishedTable(
        product="own",
        name=name,
        title=name,
        lowest="block",
        axes=tuple((role, (_CODINGS[role],)) for role in axes),
        universe=(),
    )
    cells = table.on(SCHEMA)
    values: Any = np.asarray(table.of(csr_array(counts), SCHEMA).toarray(), dtype=np.int64)
    way = rng.choice(["exact", "cells", "units", "zeros", "rounded"], p=[0.4, 0.25, 0.1, 0.1, 0.15])
    if way == "exact":
        return exact(cells, values, level=level)
    if way == "units":
        return exact(cells, values, level=level).withheld(rng.random(len(values)) < 0.6)
    if way == "zeros":
        return zeros_hide(
            cells,
            np.where(values <= 2, 0, values),
            level=level,
            spared=np.zeros(cells.size, dtype=bool),
        )
    if way == "rounded":
        wide = rng.integers(0, 2, size=values.shape)
        return between(cells, np.maximum(values - wide, 0), values + wide, level=level)
    hidden = rng.random(values.shape) < 0.4
    least = np.where(rng.random() < 0.5, np.minimum(values, 1), 0)  # known not to be 0, or not
    return between(
        cells, np.where(hidden, least, values), np.where(hidden, UNKNOWN, values), level=level
    )
