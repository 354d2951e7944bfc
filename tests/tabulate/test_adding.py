"""Counts added up level by level are those added up from the leaf."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from headcount.domain import Domain
from headcount.geography import Geography
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts, counts_digest
from headcount.tabulate import counts as tabulating
from headcount.tabulate.counts import every_level

SCHEMA = Schema((Attribute("kind", tuple("abcdefg")),))


def _place(chance: np.random.Generator) -> Geography:
    names, units, parents = ["whole"], [np.array(["whole"])], [np.empty(0, dtype=np.int32)]
    for level in ("state", "county", "leaf"):
        children = chance.integers(1, 5, size=len(units[-1]))
        names.append(level)
        parents.append(np.repeat(np.arange(len(children), dtype=np.int32), children))
        units.append(np.array([f"{level}{k}" for k in range(children.sum())]))
    return Geography(tuple(names), tuple(units), tuple(parents))


@pytest.mark.parametrize("seed", range(5))
def test_every_level_is_the_sum_of_its_leaves(seed: int):
    chance = np.random.default_rng(seed)
    place = _place(chance)
    people = chance.poisson(0.4, size=(place.size("leaf"), SCHEMA.size))
    people[0] = 0
    counts = Counts(Domain(SCHEMA, place), "leaf", csr_array(people))
    levels = every_level(counts)
    assert list(levels) == list(place.levels)
    for level, found in levels.items():
        expected = np.zeros((place.size(level), SCHEMA.size), dtype=np.int64)
        np.add.at(expected, place.ancestors(level), people)
        assert np.array_equal(found.dense(), expected)
        assert (found.level, found.geography) == (level, place)
        matrix = found.matrix
        assert (matrix.data > 0).all()
        for row in range(matrix.shape[0]):
            cells = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
            assert (np.diff(cells) > 0).all()


def test_a_digest_made_in_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch):
    """Written down when it was still made of whole arrays; and of as many pieces as one likes."""
    place = _place(np.random.default_rng(2))
    people = np.random.default_rng(3).poisson(0.4, size=(place.size("leaf"), SCHEMA.size))
    counts = Counts(Domain(SCHEMA, place), "leaf", csr_array(people.astype(np.int64)))
    assert counts_digest(counts).hex()[:16] == WRITTEN_DOWN
    for at_once in (1, 2, 7):
        monkeypatch.setattr(tabulating, "HASHED_AT_ONCE", at_once)
        assert counts_digest(counts).hex()[:16] == WRITTEN_DOWN


WRITTEN_DOWN = "2a40d6723f3819aa"
