"""What least squares cannot do is refused before memory runs out."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate import CELLS, TOTAL, every_cell
from headcount.topdown.linear import matrices
from headcount.topdown.linear.components import Components
from headcount.topdown.linear.matrices import MOST_TOGETHER, TooManyTogether
from headcount.topdown.linear.tree import LevelNoise, NoiseTree, level_variances
from headcount.topdown.linear.variances import AnswerVariances, AreaErrors, Members


def triangle(size: int) -> Components:
    """Two attributes, the second never above the first: every combination is by itself."""
    levels = [f"{k:02}" for k in range(size)]
    zeros = (impossible({"a": [one], "b": levels[k + 1 :]}) for k, one in enumerate(levels[:-1]))
    schema = Schema((Attribute("a", tuple(levels)), Attribute("b", tuple(levels))), tuple(zeros))
    return Components.of(schema, [every_cell(schema), TOTAL])


def test_zeros_that_tell_too_many_levels_apart_are_refused_while_memory_is_small() -> None:
    tree = NoiseTree([np.zeros(0, dtype=np.int32)], [LevelNoise(({CELLS: 1.0},))])
    components = triangle(60)  # 1,830 cells; all combinations of levels in one matrix are 100 MB
    tracemalloc.start()
    try:
        with pytest.raises(
            TooManyTogether,
            match=r"least squares: structural zeros and groups of levels: found 1,830 combinations "
            r"of levels that they tell apart, to be estimated together, expected at most 1,000",
        ):
            level_variances(tree, components, [CELLS])
        with pytest.raises(TooManyTogether, match="1,830 combinations"):
            components.even_cells()
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
    assert MOST_TOGETHER == 1_000


def test_matrices_of_many_classes_of_units_are_refused_beyond_the_memory_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """6 cells in 2 classes of tracts, 1 of leaves and the whole: 12 matrices, and 3 links."""
    parents = [np.zeros(0), np.zeros(2), np.array([0, 0, 1])]
    noise = LevelNoise(({CELLS: 1.0, "total": 1.0},))
    tree = NoiseTree([one.astype(np.int32) for one in parents], [noise] * 3)
    components = triangle(3)
    size = max(one.size for one in components.every)
    held = 3 * 4 + 2 + 2
    areas = Members(30, np.arange(30), np.zeros(30, dtype=np.int64))
    monkeypatch.setattr(matrices, "LITTLE", 0)
    monkeypatch.setattr(matrices, "memory_limit", lambda: held * size**2 * 8)
    level_variances(tree, components, [CELLS])
    with pytest.raises(TooManyTogether, match=r"counts to be estimated together in 30 areas"):
        AreaErrors.of(tree, components, areas, [CELLS])
    monkeypatch.setattr(matrices, "memory_limit", lambda: held * size**2 * 8 - 1)
    said = (
        rf"memory: found {size} counts to be estimated together in 4 classes of units, which needs"
    )
    for ask in (
        lambda: level_variances(tree, components, [CELLS]),
        lambda: AnswerVariances.of(tree, components, CELLS, 2),
    ):
        with pytest.raises(TooManyTogether, match=said):
            ask()
    monkeypatch.setattr(matrices, "LITTLE", 1 << 30)
    assert level_variances(tree, components, [CELLS])
