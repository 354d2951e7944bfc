"""Tiny problems, and every possible answer to them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from headcount.topdown.solve.batch import NO_BOUND, Batch
from tests.support.dense import Margin, from_dense

Ints = NDArray[np.int64]

# Partitions of four cells. The first four nest; the last one crosses the halves.
WHOLE, HALVES, SINGLES, HALVES_AGAIN, CROSS = (
    np.array(g) for g in ([0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 2, 3], [1, 1, 0, 0], [0, 1, 0, 1])
)
NESTED = (WHOLE, HALVES, SINGLES, HALVES_AGAIN)
CELLS = 4

# How far the bounds are below and above a margin: often not at all; 9 stands for no bound.
SLACKS = [(a, b) for a in (0, 0, 1, 9) for b in (0, 0, 1, 9)]


def margin_of(group: Ints, counts: NDArray[np.generic]) -> NDArray[np.generic]:
    """Sums of counts (cells, children) over the groups."""
    out = np.zeros((int(group.max()) + 1, counts.shape[1]), counts.dtype)
    np.add.at(out, group, counts)
    return out


def bounds_hold(batch: Batch, answers: Ints) -> NDArray[np.bool_]:
    """Which of the answers (any number, cells, children) keep every bound of a parent."""
    holds = np.ones(len(answers), dtype=bool)
    for f, group in enumerate(batch.group):
        for g in range(int(group.max()) + 1):
            have = answers[:, group == g].sum(axis=1)
            column = batch.family_start[f] + g
            holds &= ((batch.low[:, column] <= have) & (have <= batch.high[:, column])).all(axis=1)
    return holds


def every_choice(rows: list[Ints]) -> Ints:
    """One row of each table, in every combination: (choices, tables, columns)."""
    index = np.indices([len(table) for table in rows]).reshape(len(rows), -1)
    return np.stack([table[k] for table, k in zip(rows, index, strict=True)], axis=1)


def every_share(batch: Batch) -> Ints:
    """Every way to share the counts of a parent among its children (answers, cells, children)."""
    children = int(batch.child_start[-1])
    tables = [np.array(list(_shares(int(t), children))) for t in batch.total]
    return spread(batch, every_choice(tables))


def dense(batch: Batch, counts: Ints) -> Ints:
    """Counts of one parent's variables, all of them open, as (cells, children)."""
    every: Ints = spread(batch, counts.reshape(1, len(batch.cell), -1))[0]
    return every


def spread(batch: Batch, kept: Ints) -> Ints:
    """Answers over the kept entries as answers over all cells."""
    answers = np.zeros((len(kept), batch.group.shape[1], kept.shape[2]), np.int64)
    answers[:, batch.cell] = kept
    return answers


def _shares(total: int, children: int) -> Iterator[tuple[int, ...]]:
    """Every way to share a count among children."""
    if children == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _shares(total - first, children - 1):
            yield (first, *rest)


@st.composite
def problems(
    draw: st.DrawFn, *, families: tuple[Ints, ...], top: int = 3, moved: bool = True
) -> tuple[Batch, Ints]:
    """A parent of four cells with two or three children, and counts that may keep its bounds.

    Adversarial on purpose: many bounded groups have low = high, totals are tight, and with
    ``moved`` only some families are bounded and bounds may be off the counts they surround.
    """
    children = draw(st.sampled_from([2, 2, 3]))
    counts = np.array(
        draw(st.lists(st.integers(0, top), min_size=CELLS * children, max_size=CELLS * children))
    ).reshape(CELLS, children)
    counts[0, 0] = max(counts[0, 0], 1)
    some = st.lists(st.sampled_from(range(len(families))), unique=True, min_size=1)
    chosen = draw(some) if moved else range(len(families))
    bounded = []
    for k in chosen:
        margin = margin_of(families[k], counts)
        size = margin.size
        slack = np.array(draw(st.lists(st.sampled_from(SLACKS), min_size=size, max_size=size)))
        below, above = slack.T.reshape(2, *margin.shape)
        shift = draw(st.sampled_from([0, 0, 0, 0, 1, -1])) if moved else 0
        low = np.where(below == 9, -int(NO_BOUND), margin - below + shift)
        high = np.where(above == 9, int(NO_BOUND), margin + above + shift)
        bounded.append(Margin(group=families[k], low=low, high=high))
    answer = np.zeros((CELLS, children))
    batch = from_dense(answer, weight=1.0, total=counts.sum(axis=1), families=bounded)
    return batch, counts


@st.composite
def estimates(draw: st.DrawFn, batch: Batch, counts: Ints) -> NDArray[np.float64]:
    """An estimate with the parent's sums: persons moved by fractions, some values left whole."""
    x = counts.astype(np.float64)
    for _ in range(draw(st.integers(0, 6))):
        cell = draw(st.integers(0, CELLS - 1))
        source, target = draw(st.permutations(range(counts.shape[1])))[:2]
        part = draw(st.sampled_from([0.1, 0.25, 0.3, 0.5, 0.7, 1.0, 1.6]))
        part = min(part, x[cell, source])
        x[cell, source] -= part
        x[cell, target] += part
    flat: NDArray[np.float64] = x[batch.cell].ravel()
    return flat
