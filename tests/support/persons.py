"""People in blocks, what is published of them, and how many of them records meet again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.attacks.knowledge import Knowledge, exact
from headcount.attacks.reconstruction import Reconstruction
from headcount.geography import Geography
from headcount.schema import Schema
from headcount.tabulate.published import supported, tables

MEDIAN, SPREAD, LARGEST = 29, 0.92, 600
HOUSEHOLD_SIZE = (0.28, 0.33, 0.16, 0.13, 0.06, 0.03, 0.01)
RACES = (0.70, 0.13, 0.012, 0.06, 0.003, 0.065, 0.03)
"""White, black, American Indian, Asian, Pacific islander, other, two or more."""


@dataclass(frozen=True, eq=False)
class BlockPeople:
    """One entry a person: block number and cell of the schema."""

    schema: Schema
    geography: Geography
    block: Ints
    cell: Ints
    source: str
    has_tracts: bool = True

    @property
    def size(self) -> int:
        """Number of people."""
        return len(self.block)

    @cached_property
    def sizes(self) -> Ints:
        """People in each block."""
        return np.bincount(self.block, minlength=self.geography.size("block"))

    def counts(self, level: str) -> Any:
        """Counts (units of a level x cells), sparse."""
        from scipy.sparse import coo_array

        unit = self.geography.ancestors(level)[self.block]
        shape = (self.geography.size(level), self.schema.size)
        return coo_array((np.ones(self.size, np.int64), (unit, self.cell)), shape=shape).tocsr()


def block_people(schema: Schema, *, blocks: int, seed: int) -> BlockPeople:
    """Synthetic people of one tract, in households.

    Block sizes are lognormal (median 29, sigma 0.92, at most 600). Households have 1 to 7 members
    (mean 2.49). A block's race mix is Dirichlet(6 x national shares) over seven groups, a member
    differs from the householder with probability 0.08; two or more races are combination k of 57
    with probability in proportion to 1 / k^2. A block's Hispanic share is Beta(0.5, 2.5), a member
    differs with probability 0.06. Householders are 18-89 years old, others 0-84, uniform.
    """
    rng = np.random.default_rng(seed)
    sizes = np.clip(np.rint(rng.lognormal(np.log(MEDIAN), SPREAD, blocks)), 1, LARGEST).astype(int)
    block = np.repeat(np.arange(blocks), sizes)
    n = len(block)
    head = _householders(rng, block, sizes)
    mixes, shares = rng.dirichlet(6 * np.array(RACES), blocks), rng.beta(0.5, 2.5, blocks)
    own = (mixes[block].cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=6)
    weights = 1 / np.arange(1.0, 58.0) ** 2
    several = rng.choice(np.arange(6, 63), n, p=weights / weights.sum())
    race = np.where(own < 6, own, several)
    race = np.where(rng.random(n) < 0.08, race, race[head])
    hispanic = rng.random(n) < shares[block]
    hispanic = hispanic[head] ^ (rng.random(n) < 0.06) & (head != np.arange(n))
    age = np.where(head == np.arange(n), rng.integers(18, 90, n), rng.integers(0, 85, n))
    sex = rng.integers(0, 2, n)
    cell = np.ravel_multi_index((sex, age, race, hispanic.astype(np.int64)), schema.shape)
    codes = np.array([f"b{i:05d}" for i in range(blocks)])
    geography = blocks_geography(codes, np.zeros(blocks, dtype=np.int32), np.array(["t0"]))
    return BlockPeople(schema, geography, block, cell, f"seed {seed}, {block_people.__name__}")


def _householders(rng: np.random.Generator, block: Ints, sizes: Ints) -> Ints:
    """For each person the householder: the first of a household, within the block."""
    n = len(block)
    head = np.empty(n, dtype=np.int64)
    start = 0
    for size in sizes:
        end = start + int(size)
        while start < end:
            members = min(int(rng.choice(7, p=HOUSEHOLD_SIZE)) + 1, end - start)
            head[start : start + members] = start
            start += members
    return head


def blocks_geography(
    blocks: NDArray[np.str_], parent: NDArray[Any], tracts: NDArray[np.str_]
) -> Geography:
    """Blocks in tracts in a whole, from the codes of both and the number of each block's tract."""
    nothing = np.empty(0, dtype=np.int32)
    return Geography(
        ("all", "tract", "block"),
        (np.array(["all"]), tracts, blocks),
        (nothing, np.zeros(len(tracts), dtype=np.int32), parent.astype(np.int32)),
    )


def knowledge_of(people: BlockPeople, products: Sequence[str], *, joint: bool = True) -> Knowledge:
    """All tables of the products, exact: block tables and, if ``joint``, tract tables."""
    made = [table for product in products for table in tables(product).values()]
    cells, _ = supported((t for t in made if joint or t.lowest == "block"), people.schema)
    held = []
    for one in cells:
        level = one.table.published_at(people.geography)[-1]
        counts = people.counts(level)
        held.append(exact(one, one.table.of(counts, people.schema), level=level))
    return Knowledge(people.schema, people.geography, tuple(held))


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
