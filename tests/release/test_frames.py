"""The tables of a release as data frames: wide and tidy say the same."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

from headcount.domain import Domain
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.privacy import Guarantee
from headcount.release import TablesRelease
from headcount.release.layout import counted_rows, dense, is_large, only_counted, units_frame
from headcount.release.published import PublishedCells, Rules, Thresholds
from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate.published import PublishedTable
from tests.release.test_store import AGE, SCHEMAS, SEX, local, release_of, wide_release


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("real", [False, True])
def test_every_row_of_a_tidy_table_is_a_cell_of_the_wide_one(schema: Schema, real: bool):
    release = release_of(local(), schema, real=real)
    wide, tidy = (release.to_polars("tract", tidy=tidy) for tidy in (False, True))
    assert tidy.columns == ["county", "tract", *schema.names, "n"]
    assert wide.columns[:2] == ["county", "tract"]
    assert tidy.height == wide.height * (wide.width - 2)
    for row in tidy.iter_rows(named=True):
        cell = "_".join(row[name] for name in schema.names) or "total"
        (found,) = wide.filter(county=row["county"], tract=row["tract"])[cell].to_list()
        assert found == row["n"]


def test_codes_are_text_and_levels_are_in_their_order():
    geography = Geography(
        ("whole", "tract"),
        (np.array(["whole"]), np.array(["007", "010"])),
        (np.empty(0, np.int32), np.array([0, 0], np.int32)),
    )
    schema = Schema((AGE, SEX), (impossible({"sex": ["m"], "age": ["minor"]}),))
    tidy = release_of(geography, schema).to_polars("tract", tidy=True)
    assert tidy["tract"].to_list() == ["007"] * 3 + ["010"] * 3
    assert tidy["age"].dtype == pl.Enum(["minor", "adult"])
    rows = tidy.filter(tract="010").drop("tract", "n").rows()
    assert rows == [("minor", "f"), ("adult", "f"), ("adult", "m")]


def test_a_level_that_is_not_published_is_added_up():
    release = release_of(local(), SCHEMAS["two attributes"], levels=("tract",))
    county = release.to_polars("county", tidy=True)
    tract = release.to_polars("tract", tidy=True)
    added = tract.group_by("county", "sex", "age", maintain_order=True).agg(pl.col("n").sum())
    assert county.equals(added)


def test_a_sparse_table_of_many_cells_has_rows_for_counts_that_are_not_zero():
    release = wide_release()
    tidy = release.to_polars("level_2", tidy=True)
    assert only_counted(release.schema, release.table("level_2"))
    assert (tidy["n"] != 0).all()
    assert tidy["n"].sum() == release.at("level_2").sum()


def test_a_level_named_like_a_column_of_a_tidy_table_is_refused():
    for attribute in (Attribute("tract", ("a", "b")), Attribute("n", ("a", "b"))):
        geography = local() if attribute.name == "tract" else numbered()
        release = release_of(geography, Schema((attribute,)))
        with pytest.raises(InputError, match="found a geography level and a column of that name"):
            release.to_polars(geography.leaf, tidy=True)


def numbered() -> Geography:
    units = (np.array(["whole"]), np.array(["1"]))
    return Geography(("whole", "n"), units, (np.empty(0, np.int32), np.zeros(1, np.int32)))


def withheld_release(product: str = "sf1") -> TablesRelease:
    table = PublishedTable(product, "T", "people by sex", "block", (("sex", ("sex",)),))
    schema = Schema((Attribute("sex", ("male", "female")),))
    cells = table.on(schema)
    withheld = np.zeros((3, cells.size), dtype=bool)
    withheld[1, -2:] = True
    value = np.arange(3 * cells.size).reshape(3, cells.size)
    geography = Geography(
        ("whole", "tract"),
        (np.array(["whole"]), np.array(["01", "02", "03"])),
        (np.empty(0, np.int32), np.zeros(3, np.int32)),
    )
    published = PublishedCells(
        cells=cells, level="tract", value=np.where(withheld, 0, value), withheld=withheld
    )
    return TablesRelease(
        domain=Domain(schema, geography),
        mechanism="Suppression()",
        guarantee=Guarantee.none("for a test"),
        key_kind="none",
        backend="none",
        published=(published,),
        rules=Rules(rule="1980", tables=("T",), thresholds=Thresholds(), width=1, audit=0),
    )


def test_withheld_cells_are_missing_and_said_to_be():
    release = withheld_release()
    tidy = release.to_polars("tract", tidy=True)
    assert tidy.columns == ["table", "tract", "cell", "n", "published"]
    assert tidy.filter(~pl.col("published")).select("tract", "n").rows() == [("02", None)] * 2
    assert tidy["n"].null_count() == 2
    wide = release.to_polars("tract")
    assert wide.height == 3
    assert [wide[name].null_count() for name in wide.columns] == [0, 0, 1, 1]
    assert wide.filter(tract="03").row(0)[1:] == tuple(release.published[0].value[2].tolist())


def test_a_level_without_published_tables_is_refused():
    with pytest.raises(InputError, match="found level 'whole', expected tables at one of 'tract'"):
        withheld_release().to_polars("whole")


@pytest.mark.parametrize("step", [1, 5, 1000])
def test_rows_for_the_writer_of_parquet_are_those_of_the_tidy_table(step):
    """Codes and levels held once say the same as text in every row."""
    release = wide_release()
    level, geography, schema = "level_2", release.geography, release.schema
    table, height = release.table(level), release.geography.size("level_2")
    found = []
    for start in range(0, height, step):
        units = range(start, min(start + step, height))
        rows = counted_rows(geography, level, units, schema, table[start : units.stop])
        found.append(pl.DataFrame(rows).cast({pl.Categorical: pl.String}))
    expected = release.to_polars(level, tidy=True)
    expected = expected.with_columns(pl.col(*schema.names).cast(pl.String))
    assert pl.concat(found).equals(expected)


@pytest.mark.parametrize(
    ("cells", "units", "large"),
    [(256, 1000, False), (257, 1, True), (256, 1 << 16, False), (256, (1 << 16) + 1, True)],
)
def test_large_tables_list_counts_that_are_not_zero(cells, units, large):
    schema = Schema((Attribute("kind", tuple(str(k) for k in range(cells))),))
    assert is_large(schema, units) == large


def test_codes_of_some_units_are_those_of_all():
    geography = local()
    whole = units_frame(geography, "tract")
    for first in range(whole.height):
        for last in range(first, whole.height + 1):
            assert units_frame(geography, "tract", range(first, last)).equals(whole[first:last])


def test_a_full_array_larger_than_memory_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HEADCOUNT_MEMORY", "1")
    table = csr_array((1 << 17, 2016), dtype=np.int64)
    with pytest.raises(InputError, match=r"131,072 units x 2,016 cells, which take 2\.0 GiB as a"):
        dense(table)
    assert dense(table[:3]).shape == (3, 2016)
