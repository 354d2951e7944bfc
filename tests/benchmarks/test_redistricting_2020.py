"""Real tracts beside the Bureau's release of them: what is read, how errors are counted, limits.

The pair of files is made up here: two tracts of a few blocks.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks import redistricting_2020 as bench
from benchmarks.tracts_2020 import CELLS, read_pair, read_pairs
from headcount.errors import ConfigError, InputError

TRACTS = ("36001000200", "01073005103")
BLOCKS = [f"{tract}{number}" for tract in TRACTS for number in (1000, 1001, 2003)]


def persons(sizes: dict[str, int], *, race: int = 1) -> pl.DataFrame:
    rows = [
        (block[:11], block, 10 if k % 4 == 0 else 40, race if k % 5 else 7, k % 3 == 0)
        for block, size in sizes.items()
        for k in range(size)
    ]
    return pl.DataFrame(rows, schema=["tract", "block", "age", "race", "hispanic"], orient="row")


TRUE = dict(zip(BLOCKS, (5, 30, 1, 120, 9, 10), strict=True))
PROTECTED = {**TRUE, BLOCKS[0]: 7, BLOCKS[2]: 0, BLOCKS[3]: 116, BLOCKS[5]: 13} | {
    f"{TRACTS[0]}9999": 4
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    persons(TRUE).write_parquet(tmp_path / "persons_made_up.parquet")
    persons(PROTECTED).write_parquet(tmp_path / "persons_made_up_das.parquet")
    return tmp_path


def test_tracts_stand_side_by_side_in_one_county_beside_another_and_a_second_state(folder: Path):
    (pair,) = read_pairs(folder)
    place = pair.data.counts.geography
    assert place.units[1].tolist() == ["01", "02"]
    assert place.units[2].tolist() == ["01001", "01002", "02001"]
    assert place.units[3].tolist()[:2] == ["01001000001", "01001000002"]
    assert place.units[-1][pair.real].tolist() == [
        f"0100100000{k}{code}" for k in (1, 2) for code in (1000, 1001, 2003)
    ]
    # in the order of the real codes: the tract of Alabama is the first
    assert pair.truth.sum(axis=1).tolist() == [120, 9, 10, 5, 30, 1]
    assert pair.of_tract.tolist() == [0, 0, 0, 1, 1, 1]
    everybody = pair.data.counts
    people = everybody.at("county").totals()
    assert people[0] == 175
    assert people[1:].sum() == pytest.approx(331_000, rel=0.01)  # a thousandth of the nation
    assert everybody.matrix[:, CELLS:].nnz == 0
    assert place.spine is not None
    assert place.spine.size("state") == 2


def test_the_bureaus_people_of_other_blocks_count_in_tracts_alone(folder: Path):
    (pair,) = read_pairs(folder)
    assert pair.block.sum(axis=1).tolist() == [116, 9, 13, 7, 30, 0]
    assert pair.tract.tolist() == [138, 41]
    found = bench.figures(pair, pair.block, pair.tract)
    assert found["block totals: mean absolute error"] == pytest.approx((4 + 3 + 2 + 1) / 6)
    assert found["block totals: root mean square error"] == pytest.approx((30 / 6) ** 0.5)
    assert found["blocks of 1-9 people: mean absolute error"] == pytest.approx(1)
    assert found["blocks of 1-9 people: bias"] == pytest.approx(1 / 3)
    assert found["blocks of 10-99 people: bias"] == 1.5
    assert found["blocks of 100 people and more: bias"] == -4
    assert found["block cells: L1 error of a block"] == pytest.approx((4 + 3 + 2 + 1) / 6)
    assert found["blocks released empty"] == pytest.approx(100 / 6)
    assert found["tract totals: mean absolute error"] == pytest.approx((1 + 5) / 2)
    exact = bench.figures(pair, pair.truth, pair.truth.reshape(2, -1).sum(axis=1))
    assert not any(exact.values())


def test_the_preset_runs_on_the_pair_and_every_limit_is_there(folder: Path):
    readings = {one.what: one for one in bench.measure(directory=folder, replicates=2)}
    assert readings["made_up"].value == 175
    for name, limit in {**bench.LIMITS, bench.TRACTS: bench.DEVIATIONS}.items():
        assert readings[name].at_most == limit
        assert "Bureau" in readings[name].note
    tracts = readings["tract totals beside their own answers: root mean square error"]
    assert "against 2.47; 83 units, 2 runs" in tracts.note
    assert readings["with one pass: levels whose totals are as near"].at_most is not None


def test_a_release_as_far_off_as_it_may_be_fails_its_limit():
    ours = {
        "block totals: mean absolute error": np.array([2.6, 2.7]),
        bench.TRACTS: np.array([1.0, 2.0]),
    }
    near = bench._beside(ours, {"block totals: mean absolute error": 2.6, bench.TRACTS: 2.0})
    far = bench._beside(ours, {"block totals: mean absolute error": 2.5, bench.TRACTS: 3.5})
    assert [one.passed for one in near] == [True, True]
    assert [one.passed for one in far] == [False, False]
    assert far[0].value == pytest.approx(6)


def test_runs_that_are_all_alike_are_on_the_bureaus_figure_or_nowhere_near_it():
    alike = {bench.TRACTS: np.array([1.0, 1.0])}
    (same,), (other,) = (bench._beside(alike, {bench.TRACTS: bureau}) for bureau in (1.0, 1.1))
    assert (same.value, same.passed) == (0, True)
    assert (other.value, other.passed) == (np.inf, False)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda t: t.drop("race"), "column 'race': found columns .*, expected the columns tract"),
        (
            lambda t: t.with_columns(pl.lit("44001000100").alias("tract")),
            "column 'block': found '36001000200.*' in tract '44001000100', expected 15 characters",
        ),
    ],
)
def test_files_of_another_form_are_refused(folder: Path, damage, said: str):
    path = folder / "persons_made_up.parquet"
    damage(persons(TRUE)).write_parquet(path)
    with pytest.raises(InputError, match=said):
        read_pair(path, folder / "persons_made_up_das.parquet", name="x")


def test_what_is_no_pair_is_refused(folder: Path, tmp_path: Path):
    more = persons({**TRUE, "440010001001000": 3})
    more.write_parquet(folder / "persons_made_up_das.parquet")
    with pytest.raises(InputError, match="found tract '44001000100', expected one of the 2 tracts"):
        list(read_pairs(folder))
    (folder / "persons_made_up.parquet").unlink()
    with pytest.raises(InputError, match="found no such file, expected the other file of the pair"):
        list(read_pairs(folder))
    (folder / "persons_made_up_das.parquet").unlink()
    with pytest.raises(InputError, match=r"found no file persons_NAME_das\.parquet, expected"):
        list(read_pairs(folder))
    with pytest.raises(InputError, match="found no such folder"):
        list(read_pairs(tmp_path / "none"))
    with pytest.raises(ConfigError, match="--replicates: found 1, expected 2 or more"):
        bench.measure(directory=folder, replicates=1)
