"""What grows with the nation is in files while a run works, and the same bits come out."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from headcount.files import POSIX
from headcount.geography import regular
from headcount.population.population import Quarters
from headcount.storage import storage_at
from headcount.tabulate.counts import every_level
from headcount.topdown import _bounds
from headcount.topdown import parts as _joined
from headcount.topdown._pool import _mapped
from headcount.topdown.measure import truth_in_files
from headcount.topdown.parts import reordered
from tests.topdown.test_topdown_pool import people


def _is_mapped(array: object) -> bool:
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


def test_rows_in_another_order_are_the_same_from_pages_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    chance = np.random.default_rng(1)
    table = csr_array(chance.poisson(0.3, (50, 7)))
    order = chance.permutation(50)
    monkeypatch.setattr(_joined, "UNITS_AT_ONCE", 8)
    here = reordered(table, order, workspace=None)
    filed = reordered(table, order, workspace=storage_at(tmp_path))
    assert (here.toarray() == table.toarray()[order]).all()
    assert (filed.toarray() == here.toarray()).all()
    assert _is_mapped(filed.data) == POSIX
    assert not list(tmp_path.iterdir())  # the names of the files are gone


def test_counts_whose_files_are_in_use_need_not_stay_in_memory(tmp_path: Path):
    levels = every_level(people())
    county = weakref.ref(levels["county"].matrix)
    with truth_in_files(levels, storage_at(tmp_path)) as files:
        del levels
        gc.collect()
        assert county() is None
        assert files.rows("county", range(1)).value.sum() > 0


def test_pooled_answers_without_a_workspace_are_pages_of_a_file():
    chance = np.random.default_rng(1)
    pieces = [chance.normal(size=(units, 3)) for units in (2, 5, 1)]
    kept = _mapped(iter(pieces))
    assert all((one == other).all() for one, other in zip(kept, pieces, strict=True))
    assert all(_is_mapped(one) for one in kept) == POSIX


def test_living_quarters_are_held_in_32_bits_and_summed_in_64(monkeypatch: pytest.MonkeyPatch):
    places = regular(children=3, depth=2)
    most = 2**30 - 1  # twice that still fits in 32 bits, three times does not
    many = np.full((9, 2), most, dtype=np.int64)
    narrow = Quarters(places, "hhgq", many, many[:, 0])
    wide = Quarters(places, "hhgq", many + 1, many[:, 0])
    assert (narrow.occupied.itemsize, wide.occupied.itemsize) == (4, 8)
    for at_once in (1, 2, 100):
        monkeypatch.setattr(_bounds, "PARENTS_AT_ONCE", at_once)
        sums = _bounds._summed(narrow.occupied, places.children_start("level_1"))
        assert (sums == 3 * most).all()
        assert sums.shape == (3, 2)
