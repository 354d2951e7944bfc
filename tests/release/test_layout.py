"""A release in the files that people want: formats, tidy rows, margins, and a data dictionary."""

from __future__ import annotations

import csv
import json
import re
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from headcount.errors import ConfigError, InputError
from headcount.geography import Geography
from headcount.release import CountsRelease, Release, layout, sheets
from headcount.release.layout import FileLayout, marginal
from headcount.release.store import check_files, guarantee_to_json, read_release, write_release
from headcount.schema import Schema
from tests.release.test_frames import withheld_release
from tests.release.test_store import (
    AGE,
    GEOGRAPHIES,
    SCHEMAS,
    SEX,
    assert_equal,
    local,
    release_of,
    wide_release,
)


def save(release: Release, folder: Path, **layout: Any) -> Path:
    receipt = {
        "mechanism": release.mechanism,
        "guarantee": guarantee_to_json(release.guarantee),
        "key_kind": release.key_kind,
        "noise_backend": release.backend,
        "notes": dict(release.notes),
    }
    write_release(release, folder, receipt=receipt, layout=FileLayout(**layout))
    return folder


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("place", GEOGRAPHIES)
@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("tidy", [False, True])
@pytest.mark.parametrize("formats", [("csv",), ("parquet", "csv")])
def test_a_release_in_any_layout_reads_back_equal(
    place: str, schema: str, real: bool, tidy: bool, formats: Any, tmp_path: Path
):
    release = release_of(GEOGRAPHIES[place], SCHEMAS[schema], real=real)
    assert_equal(read_release(save(release, tmp_path, formats=formats, tidy=tidy)), release)


@pytest.mark.parametrize("formats", [("csv",), ("parquet",)])
def test_a_sparse_table_of_many_cells_reads_back_from_any_format(formats: Any, tmp_path: Path):
    made = wide_release()
    back = read_release(save(made, tmp_path, formats=formats)).as_counts()
    assert not isinstance(back.tables["level_2"], np.ndarray)
    assert np.array_equal(back.at("level_2"), made.at("level_2"))


@pytest.mark.parametrize(
    ("product", "column", "said"), [("sf1", "published", "false"), ("own", "flag", "withheld")]
)
def test_withheld_cells_read_back_from_csv(product: str, column: str, said: str, tmp_path: Path):
    made = withheld_release(product)
    back = read_release(save(made, tmp_path, formats=("csv",), tidy=True)).as_tables()
    (one,), (two,) = back.published, made.published
    assert np.array_equal(one.value, two.value)
    assert np.array_equal(one.withheld, two.withheld)
    rows = read_csv(tmp_path / "T@tract.csv")
    count = "value" if product == "sf1" else "n"
    assert [row[count] for row in rows if row[column] == said] == ["", ""]


def test_every_format_says_the_same(tmp_path: Path):
    save(release_of(local(), SCHEMAS["two attributes"]), tmp_path, formats=("parquet", "csv"))
    for file in tmp_path.glob("*.parquet"):
        text = pl.read_csv(file.with_suffix(".csv"), schema=pl.read_parquet_schema(file))
        assert text.equals(pl.read_parquet(file))


def test_codes_keep_their_leading_zeros_and_stand_between_quotes(tmp_path: Path):
    geography = Geography(
        ("whole", "tract"),
        (np.array(["whole"]), np.array(["007", "010"])),
        (np.empty(0, np.int32), np.array([0, 0], np.int32)),
    )
    save(release_of(geography, Schema((SEX,))), tmp_path, formats=("csv",), tidy=True)
    lines = (tmp_path / "tract.csv").read_text().splitlines()
    assert lines[:2] == ['"tract","sex","n"', '"007","f",997']


def test_a_mechanism_that_publishes_the_leaf_has_files_of_all_levels(tmp_path: Path):
    release = release_of(local(), SCHEMAS["two attributes"], levels=("tract",))
    save(release, tmp_path)
    assert pl.read_parquet(tmp_path / "county.parquet").equals(release.to_polars("county"))
    assert pl.read_parquet(tmp_path / "nation.parquet").equals(release.to_polars("nation"))
    package = json.loads((tmp_path / "datapackage.json").read_text())
    words = {one["path"]: one["description"] for one in package["resources"]}
    assert "those of each tract added" in words["county.parquet"]
    assert "added" not in words["tract.parquet"]
    assert list(read_release(tmp_path).as_counts().tables) == ["tract"]


@pytest.mark.parametrize("tidy", [False, True])
def test_margins_are_sums_of_published_counts(tidy: bool, tmp_path: Path):
    release = release_of(local(), SCHEMAS["two attributes"])
    save(release, tmp_path, formats=("csv",), tidy=tidy, margins=((), ("age",), ("age", "sex")))
    for level in release.geography.levels:
        rows = release.to_polars(level, tidy=True)
        total = {row[level]: 0 for row in rows.iter_rows(named=True)}
        by_age: dict[tuple[str, str], int] = {}
        for row in rows.iter_rows(named=True):
            total[row[level]] += row["n"]
            key = (row[level], row["age"])
            by_age[key] = by_age.get(key, 0) + row["n"]
        found = read_csv(tmp_path / f"{level}.total.csv")
        assert {row[level]: int(row["n" if tidy else "total"]) for row in found} == total
        found = read_csv(tmp_path / f"{level}.age.csv")
        if tidy:
            assert {(row[level], row["age"]): int(row["n"]) for row in found} == by_age
        else:
            ages = {(row[level], age): int(row[age]) for row in found for age in AGE.levels}
            assert ages == by_age
    assert list(read_csv(tmp_path / "tract.age-sex.csv")[0])[2:] == (
        ["age", "sex", "n"] if tidy else ["minor_f", "minor_m", "adult_f", "adult_m"]
    )


def test_structural_zeros_of_a_margin_have_no_row(tmp_path: Path):
    schema = SCHEMAS["a structural zero"]
    assert marginal(schema, ("age", "sex")).possible.tolist() == [True, False, True, True]
    assert marginal(schema, ("age",)).possible.all()


def test_a_release_of_many_pieces_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    release = release_of(GEOGRAPHIES["numbered"], SCHEMAS["two attributes"])
    whole = save(release, tmp_path / "whole", formats=("parquet", "csv"), tidy=True)
    monkeypatch.setattr(sheets, "COUNTS_AT_ONCE", 7)
    made: list[int] = []

    def counted(units: pl.DataFrame, *rest: Any) -> pl.DataFrame:
        made.append(units.height)
        return layout.tidy_frame(units, *rest)

    monkeypatch.setattr(sheets, "tidy_frame", counted)
    pieces = save(release, tmp_path / "pieces", formats=("parquet", "csv"), tidy=True)
    assert made == [1] * (1 + 12 + 144)  # a unit of four counts at a time
    for file in whole.glob("*.csv"):
        assert file.read_bytes() == (pieces / file.name).read_bytes()
    for file in whole.glob("*.parquet"):
        assert pl.read_parquet(file).equals(pl.read_parquet(pieces / file.name))


def test_a_table_that_fails_half_way_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sheets, "COUNTS_AT_ONCE", 1)
    left = iter([True, True, True])

    def failing(*given: Any) -> pl.DataFrame:
        if not next(left, False):
            raise OSError("the disk is full")
        return layout.wide_frame(*given)

    monkeypatch.setattr(sheets, "wide_frame", failing)
    with pytest.raises(OSError, match="the disk is full"):
        save(release_of(local(), Schema()), tmp_path, formats=("parquet", "csv"))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["county.csv", "county.parquet", "nation.csv", "nation.parquet"]


def test_the_manifest_has_the_digest_of_every_file(tmp_path: Path):
    save(release_of(local(), Schema((SEX,))), tmp_path, formats=("csv", "parquet"), margins=((),))
    files = {path.name for path in tmp_path.iterdir()}
    assert set(check_files(tmp_path)["files"]) == files - {"manifest.json"}
    assert {"tract.csv", "tract.total.parquet", "datapackage.json"} <= files


NAME = re.compile(r"^([-a-z0-9._/])+$")
TRUTH = {"true": True, "false": False}
TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": TRUTH.__getitem__,
}
CONSTRAINTS = {"required", "enum"}


def check_resource(resource: dict[str, Any], folder: Path) -> None:
    """The rules of Data Resource and Table Schema, and the rows of the file by them."""
    assert NAME.match(resource["name"])
    path = resource["path"]
    assert not path.startswith(("/", "."))
    assert ".." not in Path(path).parts
    assert (folder / path).is_file()
    schema = resource["schema"]
    names = [field["name"] for field in schema["fields"]]
    assert len(set(names)) == len(names)
    assert set(schema["primaryKey"]) <= set(names)
    for field in schema["fields"]:
        assert field["type"] in TYPES
        assert set(field.get("constraints", {})) <= CONSTRAINTS
    if resource["format"] == "parquet":
        assert list(pl.read_parquet_schema(folder / path)) == names
        return
    assert resource["profile"] == "tabular-data-resource"
    content = (folder / path).read_bytes()
    assert resource["bytes"] == len(content)
    assert resource["hash"] == f"sha256:{sha256(content).hexdigest()}"
    rows = read_csv(folder / path)
    assert list(rows[0]) == names
    keys = {tuple(row[name] for name in schema["primaryKey"]) for row in rows}
    assert len(keys) == len(rows)
    for row in rows:
        for field in schema["fields"]:
            text, constraints = row[field["name"]], field.get("constraints", {})
            if text in schema["missingValues"]:
                assert not constraints.get("required")
                continue
            value = TYPES[field["type"]](text)
            assert value in constraints.get("enum", [value])


@pytest.mark.parametrize("tidy", [False, True])
@pytest.mark.parametrize("place", GEOGRAPHIES)
@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_data_dictionary_keeps_the_rules_of_the_standard(
    place: str, schema: str, tidy: bool, tmp_path: Path
):
    release = release_of(GEOGRAPHIES[place], SCHEMAS[schema], real=True)
    save(release, tmp_path, formats=("csv", "parquet"), tidy=tidy, margins=((),))
    package = json.loads((tmp_path / "datapackage.json").read_text())
    names = [one["name"] for one in package["resources"]]
    assert len(set(names)) == len(names)
    files = {path.name for path in tmp_path.iterdir() if path.suffix != ".json"}
    assert {one["path"] for one in package["resources"]} == files
    for resource in package["resources"]:
        check_resource(resource, tmp_path)


@pytest.mark.parametrize("made", [wide_release, withheld_release, partial(withheld_release, "own")])
def test_rows_of_counts_and_of_withheld_cells_are_described(made: Any, tmp_path: Path):
    save(made(), tmp_path, formats=("csv",))
    package = json.loads((tmp_path / "datapackage.json").read_text())
    assert package["description"].startswith("No differential-privacy guarantee")
    for resource in package["resources"]:
        check_resource(resource, tmp_path)


def test_a_broken_row_breaks_the_rules(tmp_path: Path):
    save(release_of(local(), Schema((SEX,))), tmp_path, formats=("csv",), tidy=True)
    package = json.loads((tmp_path / "datapackage.json").read_text())
    (resource,) = (one for one in package["resources"] if one["path"] == "tract.csv")
    text = (tmp_path / "tract.csv").read_text().replace('"f"', '"x"')
    (tmp_path / "tract.csv").write_text(text)
    with pytest.raises(AssertionError, match="sha256"):
        check_resource(resource, tmp_path)
    resource["hash"] = f"sha256:{sha256(text.encode()).hexdigest()}"
    with pytest.raises(AssertionError, match=r"'x' in \['f', 'm'\]"):
        check_resource(resource, tmp_path)


def refused(release: CountsRelease, message: str, **layout: Any) -> None:
    with pytest.raises((ConfigError, InputError), match=message):
        FileLayout(**layout).check(release.domain)


def test_layouts_that_cannot_be_written_are_refused():
    release = release_of(local(), Schema((SEX, AGE)))
    refused(
        release,
        r"margins: found attribute 'race', expected some of \['sex', 'age'\]",
        margins=(("race",),),
    )
    refused(release, "found an attribute twice in", margins=(("sex", "sex"),))
    refused(
        release,
        r"found one file, 'nation.sex', for margin \['sex'\] of level 'nation' and",
        margins=(("sex",), ("sex",)),
    )
    refused(release, r'format: found \[\], expected "parquet", "csv" or both', formats=())
    refused(release, r"format: found \['csv', 'csv'\]", formats=("csv", "csv"))
    units = Geography(("whole", "units"), *alone_below())
    refused(release_of(units, Schema((SEX,))), "a column or file of that name", tidy=True)


def alone_below() -> Any:
    units = (np.array(["whole"]), np.array(["1"]))
    return units, (np.empty(0, np.int32), np.zeros(1, np.int32))
