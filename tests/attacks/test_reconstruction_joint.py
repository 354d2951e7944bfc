"""Blocks of a tract together: every table kept, single years of age, sharper certainty."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from headcount.attacks._problem import Effort
from headcount.attacks.knowledge import Knowledge, exact
from headcount.attacks.reconstruction import reconstruct
from headcount.schema import load_schema
from headcount.tabulate.counts import adder
from tests.attacks.small_blocks import PAIRS, TINY, every_file, flat, table
from tests.support.persons import agreement, block_people, knowledge_of

FINE = load_schema("persons-2010")


@pytest.mark.parametrize("effort", [Effort(), Effort(nodes=0)], ids=["search", "solver"])
def test_every_table_of_blocks_and_tract_is_kept(effort: Effort):
    people = block_people(FINE, blocks=12, seed=5)
    held = knowledge_of(people, ("sf1",))
    found = reconstruct(held, together="tract", effort=effort)
    assert not found.unused
    tract = csr_array(found.matrix.sum(axis=0)[None])
    for one in held.tables:
        counts = found.matrix if one.level == "block" else tract
        assert (one.cells.table.of(counts, FINE) != one.low).nnz == 0, one
    assert found.proven.all()
    exactly, binned, missed = agreement(people, found)
    assert not missed[found.variability == 0].any()
    alone = reconstruct(knowledge_of(people, ("sf1",), joint=False))
    assert exactly > agreement(people, alone)[0]
    assert binned >= 0.9
    # What a block's own tables make certain stays certain.
    assert (found.variability[alone.variability == 0] == 0).all()


def tiny_tracts(counts: np.ndarray, tracts: int) -> Knowledge:
    """Sex and voting age by block; all pairs by tract."""
    place = flat(len(counts), tracts)
    up = adder(place, "tract", of="block")
    leaf = table("S", sex="sex"), table("A", age="voting-age")
    held = [exact(t.on(TINY), t.of(csr_array(counts), TINY), level="block") for t in leaf]
    held += [
        exact(t.on(TINY), t.of(csr_array(up @ counts), TINY), level="tract") for t in PAIRS[:2]
    ]
    return Knowledge(TINY, place, tuple(held))


@pytest.mark.parametrize("seed", range(8))
def test_variability_is_never_below_that_of_all_joint_files(seed: int):
    """With limits instead of equations a block may look less certain, never more."""
    counts = np.random.default_rng(seed).poisson(0.25, (2, 8))
    held = tiny_tracts(counts, 1)
    found = reconstruct(held, together="tract")
    leaf, tract = held.at("block"), held.at("tract")
    sums = [one.cells.matrix.toarray() for one in (*leaf, *tract)]
    first, second = (every_file(8, int(n)) for n in counts.sum(axis=1))

    def keep(x: np.ndarray, block: int) -> np.ndarray:
        for matrix, one in zip(sums[:2], leaf, strict=True):
            x = x[(x @ matrix == one.low.toarray()[block]).all(axis=1)]
        return x

    first, second = keep(first, 0), keep(second, 1)
    pairs = first[:, None, :] + second[None, :, :]
    good = np.ones(pairs.shape[:2], dtype=bool)
    for matrix, one in zip(sums[2:], tract, strict=True):
        good &= (pairs @ matrix == one.low.toarray()[0]).all(axis=2)
    assert good.any()
    fold = np.eye(found.class_of.max() + 1, dtype=np.int64)[found.class_of]
    records = found.matrix.toarray() @ fold
    for block, x in ((0, first[good.any(axis=1)]), (1, second[good.any(axis=0)])):
        n = records[block].sum()
        farthest = np.abs(x @ fold - records[block]).sum(axis=1).max()
        nobody = np.inf if farthest else 0.0
        assert found.variability[block] >= (100 * farthest / (2 * n) if n else nobody) - 1e-9


def test_tracts_are_independent():
    counts = np.random.default_rng(1).poisson(0.3, (6, 8))
    both = reconstruct(tiny_tracts(counts, 2), together="tract")
    first = reconstruct(tiny_tracts(counts[:3], 1), together="tract")
    second = reconstruct(tiny_tracts(counts[3:], 1), together="tract")
    apart = np.vstack([first.matrix.toarray(), second.matrix.toarray()])
    assert (both.matrix.toarray() == apart).all()
    assert both.variability.tolist() == [*first.variability, *second.variability]


def test_levels_between_are_used_too():
    counts = np.array([[1, 0, 0, 1, 0, 1, 0, 0], [0, 1, 1, 0, 0, 0, 2, 0]])
    held = tiny_tracts(counts, 2)
    found = reconstruct(held, together="all")
    assert not found.unused
    assert found.people.tolist() == counts.sum(axis=1).tolist()
    for one in held.tables:
        # each tract holds one block
        assert (one.cells.table.of(found.matrix, TINY) != one.low).nnz == 0


def test_the_least_change_of_blocks_and_tract_is_the_least():
    """Two blocks whose tables and whose tract's tables are off: every pair of files is tried."""
    rng = np.random.default_rng(3)
    files = np.vstack([every_file(8, n) for n in range(5)])
    leaf, above = (table("SA", sex="sex", age="voting-age"), table("H", hispanic="hispanic")), PAIRS
    moved = {"block": 0, "tract": 0}
    for _ in range(12):
        counts = np.array([rng.multinomial(n, [1 / 8] * 8) for n in rng.integers(0, 3, size=2)])
        held = []
        for level, tables, values in (
            ("block", leaf, counts),
            ("tract", above, counts.sum(axis=0, keepdims=True)),
        ):
            for own in tables:
                said = own.of(csr_array(values), TINY).toarray()
                off = rng.choice([-1, 0, 0, 0, 0, 1], size=said.shape)
                held.append(exact(own.on(TINY), np.maximum(said + off, 0), level=level))
        knowledge = Knowledge(TINY, flat(2), tuple(held))
        found = reconstruct(knowledge, together="tract", on_conflict="least-change")
        price = [np.zeros(len(files)), np.zeros(len(files))]
        for one in knowledge.at("block"):
            for block in range(2):
                off = files @ one.cells.matrix.toarray() - one.low.toarray()[block]
                price[block] += np.abs(off).sum(axis=1)
        every = price[0][:, None] + price[1][None, :]
        for one in knowledge.at("tract"):
            cells, said = one.cells.matrix.toarray(), one.low.toarray()[0]
            for cell in range(cells.shape[1]):
                part = files @ cells[:, cell]
                every += np.abs(part[:, None] + part[None, :] - said[cell])
        least = every.min()
        assert found.proven.all()
        assert sum(abs(move.by) for move in found.moves) == least
        assert found.conflict.any() == (least > 0)
        assert not found.certain[found.conflict].any()
        for move in found.moves:
            moved[move.level] += 1
    assert min(moved.values()) > 5


def test_a_solver_that_dies_leaves_the_change_unproven(monkeypatch):
    """Neither the run nor its report ends with it."""
    from headcount.solve import worker

    def dies(*_, **__):
        raise worker._WorkerDiedError("the process of HiGHS ended without an answer")

    monkeypatch.setattr(worker, "solve_apart", dies)
    counts = np.array([[1, 0, 0, 1, 0, 1, 0, 0], [0, 1, 1, 0, 0, 0, 2, 0]])
    unsure = reconstruct(tiny_tracts(counts, 1), together="tract", effort=Effort(nodes=0))
    assert not unsure.proven.any()
