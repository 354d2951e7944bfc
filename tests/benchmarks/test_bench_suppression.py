"""The suppression benchmark on small sizes."""

import polars as pl
import pytest

from benchmarks import suppression
from benchmarks.suppression_workloads import census_rows, census_tables, folder_tables
from headcount.errors import InputError


def test_the_state_has_its_people_and_all_margins():
    rows = census_rows(20_000)
    assert rows["freq"].sum() == pytest.approx(2.49 * 20_000, rel=0.02)
    tables = census_tables(20_000)
    for table in tables:
        table.additive.check(table.values)
        assert table.values[0] == table.values[table.publish].sum()
    assert tables[0].additive.size == 24 * (1 + 4 + 400)
    assert tables[1].additive.size == 24 * (1 + 20 + 400)


def test_small_tables_beside_the_optimum_and_with_holes():
    mean, worst = suppression._beside_optimum(2)
    assert 0 <= mean.value <= worst.value
    assert suppression._holes(2)[0].value == 100


def test_random_tables_against_the_integer_program():
    (reading,) = suppression._random(3)
    assert reading.value == 0
    assert reading.note.startswith("of 24;")


def test_published_tables_have_all_their_witnesses(monkeypatch):
    monkeypatch.setattr(suppression, "PUBLISHED", ((("P1", "P2"), "tract", 0),))
    withheld, bare = suppression._published(3_000)
    assert withheld.what == "P1, P2 by tract, effort 0: withheld"
    assert withheld.value > 0
    assert bare.value == 0


def test_a_folder_of_tables_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(suppression, "SMALL_TABLES", 1)
    monkeypatch.setattr(suppression, "RANDOM_TABLES", 1)
    monkeypatch.setattr(suppression, "PUBLISHED", ())
    monkeypatch.setattr(suppression, "PEOPLE", 1_000)
    monkeypatch.setattr(suppression, "EFFORTS", (0, 1))
    rows = census_rows(200_000).filter(pl.col("tract") < 5)
    by_tract = rows.group_by("county", "tract", "race", "hisp").agg(pl.col("freq").sum())
    by_tract.write_parquet(tmp_path / "five.parquet")
    rows.filter(pl.col("tract") < 1).write_parquet(tmp_path / "blocks.parquet")
    pl.DataFrame({"other": [1]}).write_parquet(tmp_path / "other.parquet")
    readings = suppression.measure(directory=tmp_path)
    values = {one.what: one.value for one in readings}
    assert values["five, effort 1: withheld"] > 0
    assert values["blocks, effort 0: withheld"] > 0
    for what in ("  attack", "  small counts without witnesses"):
        found = [one.value for one in readings if one.what.startswith(what)]
        assert len(found) == 4
        assert not any(found)
    assert any(one.what.startswith("growth from") for one in readings)


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(InputError, match="no Parquet file with a column 'freq'"):
        folder_tables(tmp_path)
    pl.DataFrame({"freq": [1], "race": [1], "hisp": [0]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a: found columns .*, expected also county"):
        folder_tables(tmp_path)
