"""The comparison of pooled with unpooled answers, on a made-up file of counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from benchmarks import pool, pool_2020, pool_nation
from benchmarks.nation_2020 import run_nation
from headcount.errors import InputError
from headcount.geography import Geography
from tests.mechanisms.topdown.small import counts_of, tree


def write(folder: Path, *, blocks: int = 3) -> None:
    """A state of 2 counties with 6 tracts each, these with 2 block groups."""
    chance = np.random.default_rng(0)
    code = [
        {"state": "44", "county": f"44{c}", "tract": f"44{c}{t}", "block_group": f"44{c}{t}{g}"}
        | {"block": f"44{c}{t}{g}{b}"}
        for c in range(2)
        for t in range(6)
        for g in range(2)
        for b in range(blocks)
    ]
    counts = {
        f"{group}_{age}": chance.poisson(5, size=len(code))
        for group in pool.GROUPS
        for age in pool.AGES
    }
    pl.DataFrame(code).with_columns(
        **{n: pl.Series(n, v) for n, v in counts.items()}
    ).write_parquet(folder / "made_up.parquet")


def test_errors_are_compared_for_both_ways_to_share_a_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.setattr(pool, "RHOS", ("0.5",))
    found = {one.what: one for one in pool.measure(tmp_path, replicates=6)}
    gains = found["made_up, equal shares, rho 0.5: cells at tract"]
    assert gains.value < -8  # tracts have 2 children, which tell much of them
    assert "made_up, shares like 2020, rho 0.5: total at block_group" in found
    assert not [name for name in found if "total at state" in name]


def test_the_same_counts_from_a_file_whose_top_is_a_nation(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "made_up.parquet"
    one = pl.read_parquet(path)
    two = one.with_columns(pl.col(pool.PLACES[0]).str.replace("44", "45")).with_columns(
        *(
            pl.col(name).str.replace("^44", "45")
            for name in ("county", "tract", "block_group", "block")
        )
    )
    pl.concat([one, two]).write_parquet(path)
    counts = pool.read_file(path)
    assert counts is not None
    assert counts.geography.levels[:2] == ("nation", "state")
    assert [setting.name for setting in pool.settings_for(counts)] == ["equal shares"]


def test_a_folder_without_such_files_is_refused(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "other.parquet")
    with pytest.raises(InputError) as refused:
        pool.measure(tmp_path)
    assert "found no file of counts by group and age" in str(refused.value)


def test_the_standard_error_of_a_change_is_over_seeds() -> None:
    setting = pool.SplitOfLoss("equal shares", {}, {})
    before, after = np.array([4.0, 4.0, 4.0, 4.0]), np.array([4.4, 3.6, 4.4, 3.6])
    counts = counts_of(np.ones((2, 6), dtype=np.int64), tree(("block", [2])))
    one = pool._change("made up", "county", "cells", before, after, setting, counts)
    error = np.std([5.0, -5.0, 5.0, -5.0], ddof=1) / 2
    assert one.value == pytest.approx(0)
    assert one.at_most == pytest.approx(3 * error + pool.SLACK)


def test_changes_with_the_preset_of_2020_are_judged_by_what_answers_allow() -> None:
    squares = {
        (False, "tract", "cells"): [4.0, 4.0],
        (True, "tract", "cells"): [2.3, 1.9],
        (False, "block_group", "total"): [4.0, 4.0],
        (True, "block_group", "total"): [3.61, 3.61],
    }
    most = {"block_group": -5.5}
    cells, total = pool_2020._changes("tree", squares, most, judged=True)
    assert cells.value == pytest.approx(100 * (np.sqrt(2.1 / 4) - 1))
    assert (cells.at_most, cells.passed) == (-22, True)
    assert cells.note == "2 to 1.45, standard error 2.5"
    assert total.value == pytest.approx(-5)
    assert total.at_most == pytest.approx(-5.5 + pool_2020.NEAR)
    assert "by the best linear estimate, rounded: -5.5 (-8 was asked)" in total.note
    assert not any(one.at_most for one in pool_2020._changes("tree", squares, most, judged=False))


def test_errors_of_totals_from_own_answers_alone_are_those_of_least_squares() -> None:
    levels, chance = ("whole", "state", "county", "tract", "block_group"), np.random.default_rng(1)
    kids = {"state": [2], "county": [2, 3], "tract": [2, 1, 3, 2, 2]}
    kids["block_group"] = chance.integers(1, 5, 10).tolist()
    units, parents = [1], [np.zeros(0, dtype=np.int32)]
    for level in levels[1:]:
        parents.append(np.repeat(np.arange(units[-1], dtype=np.int32), kids[level]))
        units.append(len(parents[-1]))
    codes = tuple(np.array([f"{k:02}" for k in range(n)]) for n in units)
    own = {"county": 2.0, "tract": 3.0, "block_group": 1.5}
    found = pool_2020._totals_alone(Geography(levels, codes, tuple(parents)), own)
    covariance = np.zeros((2, 2))  # states are exact
    for level, parent in zip(levels[2:], parents[2:], strict=True):
        sums = np.equal.outer(np.arange(parent.max() + 1), parent).astype(float)
        share = sums.T / sums.sum(axis=1)  # what is missing in a parent is divided evenly
        kept = np.eye(len(parent)) - share @ sums
        covariance = own[level] ** 2 * kept @ kept.T + share @ covariance @ share.T
        assert found[level] == pytest.approx(np.trace(covariance) / len(parent), rel=1e-12)


def test_what_pooling_costs_on_a_nation_stands_beside_the_same_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def apart(work: Any, share: float, *, pool: bool, **options: Any) -> dict[str, Any]:
        asked.append((work, share, pool, options))
        return {
            "people": 7,
            "stages": {"check": [1.0, 1.0], "protect": [9.0, 12.0 if pool else 9.0]},
            "levels": {"answers pooled": 2.0, "block": 3.0} if pool else {"block": 3.5},
            "peak": 4.5 if pool else 3.0,
            "constraints": [100, 0],
        }

    monkeypatch.setattr(pool_nation, "apart", apart)
    found = {one.what.strip(): one for one in pool_nation.measure(share=0.02)}
    options = {"workers": 0, "warm": True, "passes": 2}
    assert asked == [(run_nation, 0.02, pool, options) for pool in (False, True)]
    assert found["beside none"].value == pytest.approx(1.3)
    assert found["block"].note == "without: 3.5 s"
    assert found["answers pooled"].note == ""
    assert [one.what.strip() for one in found.values() if not one.passed] == [
        "peak anonymous memory"
    ]
