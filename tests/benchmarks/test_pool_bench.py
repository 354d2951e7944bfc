"""The comparison of pooled with unpooled answers, on a made-up file of counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks import pool
from headcount.errors import InputError
from tests.topdown.small import counts_of, tree


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
