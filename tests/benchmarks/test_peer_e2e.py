"""Comparing with a peer: files are understood, equal laws pass, other laws are caught."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benchmarks import peer_e2e
from benchmarks.peer_e2e import compare, measure, peer_settings
from benchmarks.peer_files import read_peer
from benchmarks.peer_tree import find_levels
from headcount.errors import ConfigError, InputError
from headcount.tabulate import Tabulated, tabulate
from headcount.topdown.choices import QuartersBounds
from tests.benchmarks.peer_folder import OTHER, PADDED, SHAPE, change, release, tiny_peer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("peer")
    tiny_peer(folder, runs=40)
    return folder


def verdicts(readings) -> list[str]:
    return [one.note for one in readings if one.unit == "peer's s.e."]


def chances(readings) -> list[float]:
    return [one.value for one in readings if one.unit == "p"]


def test_schema_tree_and_releases_come_from_the_files(folder: Path):
    peer = read_peer(folder, "tiny")
    population = peer.population
    assert population.schema.names == ("kind", "age", "group")
    assert population.schema.shape == SHAPE
    assert population.geography.levels == ("whole", "state", "county", "district")
    assert [len(units) for units in population.geography.units] == [1, 2, 4, 12]
    assert list(peer.releases) == [Fraction(1)]
    releases = peer.releases[Fraction(1)]
    assert releases.totals.shape == (40, 12)
    assert releases.cells is not None
    assert np.array_equal(releases.cells.sum(axis=2), releases.totals)
    assert population.quarters is not None
    assert population.quarters.occupied[1].sum() == 0
    assert (population.quarters.vacant == 2).all()


def test_another_tree_with_other_codes(tmp_path: Path):
    peer = tiny_peer(tmp_path, layout=OTHER)
    geography = peer.population.geography
    assert geography.levels == ("whole", "state", "district")
    assert [len(units) for units in geography.units] == [1, 3, 12]
    readings = compare(
        tabulate(peer.population),
        release(peer, Fraction(1), seed=2, runs=4),
        peer.releases[Fraction(1)],
    )
    assert not any("county" in one.what for one in readings)


def test_without_counts_sizes_are_those_seen_and_our_cells_stand_alone(tmp_path: Path):
    tiny_peer(tmp_path)
    (tmp_path / "tiny_counts.csv.gz").unlink()
    peer = read_peer(tmp_path, "tiny")
    assert peer.population.schema.shape == SHAPE
    ours = release(peer, Fraction(1), seed=2, runs=4)
    readings = compare(tabulate(peer.population), ours, peer.releases[Fraction(1)])
    assert len(verdicts(readings)) == 2
    (cells,) = [one for one in readings if "age x group" in one.what]
    assert cells.value > 0
    assert cells.note.endswith("; the peer's are not in its files")


def test_the_settings_are_those_of_the_preset(folder: Path):
    settings = peer_settings(read_peer(folder, "tiny"), Fraction(1, 4))
    assert {q.name: q.by for q in settings.marginals} == {
        "hhgq": ("kind",),
        "va_hisp_race": ("age", "group"),
        "total": (),
    }
    assert dict(settings.query_shares) == {
        "cells": Fraction(1, 10),
        "hhgq": Fraction(9, 40),
        "va_hisp_race": Fraction(27, 40),
    }
    (bounds,) = settings.bounds
    assert isinstance(bounds, QuartersBounds)
    assert bounds.caps == (99, 99_999, 99_999)
    assert bounds.total_level == settings.invariant[0].level == "state"
    assert settings.report_epsilon == 0
    assert settings.failsafe_over == ("kind",)


def test_the_same_law_passes(folder: Path):
    peer = read_peer(folder, "tiny")
    ours = release(peer, Fraction(1), seed=2, runs=150)
    readings = compare(tabulate(peer.population), ours, peer.releases[Fraction(1)])
    assert verdicts(readings) == ["within 3.5"] * 3
    assert min(chances(readings)) > 0.01


def test_another_epsilon_is_caught(folder: Path):
    peer = read_peer(folder, "tiny")
    ours = release(peer, Fraction(1, 2), seed=2, runs=150)
    readings = compare(tabulate(peer.population), ours, peer.releases[Fraction(1)])
    assert verdicts(readings) == ["NOT within 3.5"] * 3
    spread, _, whole = chances(readings)
    assert spread < 1e-4
    assert whole < 1e-3


def test_everything_together_with_keys_of_the_system(folder: Path):
    readings = measure(directory=folder, name="tiny", replicates=5)
    assert [one.value for one in readings[:2]] == [18, 12]
    assert readings[1].note == "state 2, county 4, district 12; exact totals: state"
    assert readings[2].what == "epsilon 1: 5 replicates"
    assert len(verdicts(readings)) == len(chances(readings)) == 3


def test_every_replicate_has_a_key_of_its_own(folder: Path):
    peer = read_peer(folder, "tiny")
    data = Tabulated.of(peer.population)
    counts = data.counts
    made, seconds = peer_e2e.replicate(data, peer_settings(peer, Fraction(1)), 6)
    assert len(np.unique(made.totals, axis=0)) == 6
    assert seconds > 0
    states = made.totals.reshape(6, 2, -1).sum(axis=2)
    assert (states == counts.totals().reshape(2, -1).sum(axis=1)).all()


def test_shares_add_up():
    for whole in (1, 2, 19, 500):
        shares = peer_e2e._shares(whole, pieces=20)
        assert sum(shares) == whole
        assert min(shares) > 0


def test_one_replicate_has_no_standard_error(folder: Path):
    with pytest.raises(ConfigError, match="--replicates: found 1, expected 2 or more"):
        measure(directory=folder, name="tiny", replicates=1)


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(InputError, match=r"none_truth_cells\.csv: found no such file"):
        read_peer(tmp_path, "none")


BAD = [
    ("tiny_truth_cells.csv", "kind", 0, "3", "found code 3, expected codes from 0 to 2"),
    ("tiny_truth_cells.csv", "geocode", 0, "0900000001", "found unit '0900000001'"),
    ("tiny_truth_cells.csv", "count", 0, "12345", "found a different true total"),
    ("tiny_ed_totals.csv", "geocode", 0, "0100200001", "found a replicate with other units"),
    ("tiny_ed_totals.csv", "dp", 0, "99999", "found totals that are exact at no level"),
    ("tiny_units.csv", "geocode", 0, "01", "found codes of 2 and 10 characters"),
]


@pytest.mark.parametrize(("file", "column", "row", "value", "message"), BAD)
def test_bad_files(tmp_path: Path, file: str, column: str, row: int, value: str, message: str):
    tiny_peer(tmp_path)
    change(tmp_path / file, column=column, row=row, value=value)
    if file == "tiny_units.csv":
        change(tmp_path / "tiny_ed_totals.csv", column=column, row=row, value=value)
        for again in range(1, 4):
            change(tmp_path / "tiny_ed_totals.csv", column=column, row=12 * again, value=value)
    with pytest.raises(InputError) as caught:
        read_peer(tmp_path, "tiny")
    assert message in str(caught.value)


def test_missing_columns(tmp_path: Path):
    tiny_peer(tmp_path)
    for file, column, message in (
        ("tiny_counts.csv.gz", "a0_g1", "found 5 columns of cells, expected 6"),
        ("tiny_ed_totals.csv", "dp", "found no column 'dp'"),
        ("tiny_truth_cells.csv", "count", "two or more attributes, 'count'"),
        ("tiny_units.csv", "geocode", "expected 'geocode' and some rows"),
    ):
        _drop(tmp_path / file, column)
        with pytest.raises(InputError) as caught:
            read_peer(tmp_path, "tiny")
        assert message in str(caught.value)


def _drop(path: Path, column: str) -> None:
    import gzip

    import polars as pl

    text = pl.read_csv(path, infer_schema=False).drop(column).write_csv().encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def levels(codes: list[str], off: list[int]):
    return find_levels(codes, np.array([off]), source="file")


@pytest.mark.parametrize(
    ("codes", "off", "expected"),
    [
        # the layout of 2018, also where a state has one county
        (["0100100001", "0100100002", "0600100001", "0600100002"], [1, -1, 2, -2], [2, 6, 10]),
        # ten characters, but the exact level is cut elsewhere
        (["0010010001", "0010010002", "0020010001", "0020010002"], [1, -1, 2, -2], [3, 10]),
        # numbers next to each other: only the exact totals tell them apart
        (["11", "12", "21", "22"], [1, -1, 2, -2], [1, 2]),
        # one state, padded counties
        (["1010010", "1010020", "1020010", "1020020"], [3, -1, -1, -1], [1, 3, 7]),
        # four levels below the whole
        (
            ["1010101", "1010102", "1010201", "1020101", "2010101", "2010102"],
            [1, 1, 1, -3, 5, -5],
            [1, 3, 5, 7],
        ),
    ],
)
def test_levels_are_found(codes: list[str], off: list[int], expected: list[int]):
    found = levels(codes, off)
    assert [length for _, length in found] == expected
    assert [name for name, _ in found][-1] == "district"
    assert "state" in [name for name, _ in found]


def test_padded_is_the_layout_of_2018():
    assert PADDED[0].format(1, 1, 1) == "0100100001"
