"""A release reads back as it was written, and a damaged one is found out."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

from headcount.domain import Domain
from headcount.errors import InputError, RunError
from headcount.geography import Geography, regular
from headcount.geography.geography import CodeColumns, build_geography
from headcount.privacy import Guarantee, PureLoss, UnitOfPrivacy
from headcount.release import CountsRelease, Release
from headcount.release.layout import FileLayout, stem_of
from headcount.release.store import (
    check_files,
    geography_of_units,
    guarantee_from_json,
    guarantee_to_json,
    read_receipt,
    read_release,
    write_release,
)
from headcount.schema import Attribute, Schema, impossible

GUARANTEE = Guarantee(
    losses=(
        PureLoss(epsilon=Fraction(1, 3), unit=UnitOfPrivacy.ADD_REMOVE),
        PureLoss(epsilon=Fraction(2, 3), unit=UnitOfPrivacy.CHANGE_ONE),
    ),
    released_exactly=("which units exist",),
    holds_against="some",
)
SEX = Attribute("sex", ("f", "m"))
AGE = Attribute("age", ("minor", "adult"))


def release_of(
    geography: Geography, schema: Schema, *, levels: tuple[str, ...] | None = None, real=False
) -> CountsRelease:
    """A release with every number different, so that no two can be mistaken."""
    tables = {}
    for level in levels or geography.levels:
        shape = geography.size(level), schema.size
        numbers = np.arange(np.prod(shape)).reshape(shape) - 3 + 1000 * geography.depth(level)
        tables[level] = numbers * schema.possible / (7.0 if real else 1)
        if not real:
            tables[level] = tables[level].astype(np.int64)
    return CountsRelease(
        domain=Domain(schema, geography),
        mechanism="Made(up=1)",
        tables=tables,
        guarantee=GUARANTEE,
        key_kind="os",
        backend="table",
        notes={"shared": 3},
    )


def save(release: Release, folder: Path) -> Path:
    receipt = {
        "mechanism": release.mechanism,
        "guarantee": guarantee_to_json(release.guarantee),
        "key_kind": release.key_kind,
        "noise_backend": release.backend,
        "notes": dict(release.notes),
    }
    write_release(release, folder / "release", receipt=receipt)
    return folder / "release"


def assert_equal(found: Release, two: CountsRelease) -> None:
    one = found.as_counts()
    assert one.schema == two.schema
    assert one.geography.levels == two.geography.levels
    for mine, theirs in zip(one.geography.units, two.geography.units, strict=True):
        assert mine.tolist() == theirs.tolist()
    for up, above in zip(one.geography.parents, two.geography.parents, strict=True):
        assert up.tolist() == above.tolist()
        assert up.dtype == above.dtype
    assert list(one.tables) == list(two.tables)
    for level, table in one.tables.items():
        assert table.dtype == two.tables[level].dtype
        np.testing.assert_array_equal(table, two.tables[level])
    for field in ("mechanism", "guarantee", "key_kind", "backend", "notes"):
        assert getattr(one, field) == getattr(two, field)


def alone() -> Geography:
    return Geography(("whole",), (np.array(["whole"]),), (np.empty(0, dtype=np.int32),))


def local() -> Geography:
    table = pl.DataFrame({"county": ["b", "b", "a", "a"], "tract": ["1", "2", "1", "10"]})
    source = CodeColumns(columns=("county", "tract"), local_codes=True, root="nation")
    return build_geography(table, source, name="local")[0]


GEOGRAPHIES = {
    "alone": alone(),
    "local codes": local(),
    # Ten and more children: "0.10" sorts before "0.2", and must stay behind it.
    "numbered": regular(children=12, depth=2),
    "one child each": regular(children=1, depth=3),
    "odd names": Geography(
        ("../up", "a/b", "100%"),
        (np.array(["../up"]), np.array(["x/y", "NA"]), np.array(["007", "", "null"])),
        (np.empty(0, np.int32), np.array([0, 0], np.int32), np.array([0, 1, 1], np.int32)),
    ),
}
SCHEMAS = {
    "total": Schema(),
    "two attributes": Schema((SEX, AGE)),
    "a structural zero": Schema((SEX, AGE), (impossible({"sex": ["m"], "age": ["minor"]}),)),
}


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("place", GEOGRAPHIES)
@pytest.mark.parametrize("real", [False, True])
def test_a_release_reads_back_equal(place: str, schema: str, real: bool, tmp_path: Path):
    geography = GEOGRAPHIES[place]
    release = release_of(geography, SCHEMAS[schema], real=real)
    folder = save(release, tmp_path)
    assert_equal(read_release(folder), release)
    assert {p.parent for p in tmp_path.rglob("*") if p.is_file()} == {folder}


def test_a_release_of_the_leaf_alone_reads_back_equal(tmp_path: Path):
    release = release_of(GEOGRAPHIES["numbered"], SCHEMAS["two attributes"], levels=("level_2",))
    assert_equal(read_release(save(release, tmp_path)), release)


def test_structural_zeros_have_no_column(tmp_path: Path):
    folder = save(release_of(alone(), SCHEMAS["a structural zero"]), tmp_path)
    assert pl.read_parquet(folder / "whole.parquet").columns == [
        "whole",
        "f_minor",
        "f_adult",
        "m_adult",
    ]


def test_two_levels_never_share_a_file():
    names = [
        "a/b",
        "a%2Fb",
        ".a",
        "%2Ea",
        "a",
        "..",
        "é",
        "a:b",
        "a\\b",
        "a?",
        "con",
        "conurbation",
    ]
    files = [stem_of(name) for name in names]
    assert len(set(files)) == len(names)
    assert not [f for f in files if set(f) & set("/\\:?") or f.startswith(".") or f == "con"]
    assert stem_of("census tract") == "census tract"


def test_levels_that_differ_in_capitals_alone_are_refused():
    frame = pl.DataFrame({"Town": ["a", "a"], "town": ["b", "c"]})
    geography = geography_of_units(frame, ["whole", "Town", "town"])
    with pytest.raises(InputError, match="on Windows and macOS their files would be one"):
        FileLayout().check(Domain(Schema(), geography))


@pytest.mark.parametrize("name", ["level_1.parquet", "whole.parquet", "receipt.json"])
@pytest.mark.parametrize("damage", ["remove", "cut", "flip"])
def test_a_damaged_file_is_found_and_named(name: str, damage: str, tmp_path: Path):
    folder = save(release_of(regular(children=2, depth=1), Schema()), tmp_path)
    path = folder / name
    content = path.read_bytes()
    if damage == "remove":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[:-1])
    else:
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    for read in (read_release, read_receipt, check_files):
        with pytest.raises(RunError) as caught:
            read(folder)
        assert f"{path}: found a missing or changed file, expected sha256 " in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff"])
def test_a_damaged_manifest_is_found(text: str, tmp_path: Path):
    folder = save(release_of(alone(), Schema()), tmp_path)
    (folder / "manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises(RunError, match=r"manifest\.json: found a damaged file, expected JSON"):
        read_release(folder)
    (folder / "manifest.json").write_text('{"files": {}}')
    with pytest.raises(RunError, match=r"found keys \['files'\], expected domain, files and"):
        read_release(folder)


def test_a_manifest_with_another_word_in_it_is_found(tmp_path: Path):
    folder = save(release_of(alone(), Schema()), tmp_path)
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"total"', '"tutal"').replace("whole", "whale"))
    with pytest.raises(RunError, match=r"manifest\.json: found a changed manifest, expected it as"):
        read_release(folder)


def test_a_folder_without_a_manifest_holds_no_release(tmp_path: Path):
    folder = save(release_of(alone(), Schema()), tmp_path)
    (folder / "manifest.json").unlink()
    with pytest.raises(RunError, match=r"found no manifest, expected a finished release"):
        read_release(folder)


def test_a_level_and_a_cell_of_one_name_are_refused_before_there_is_noise():
    geography = regular(children=2, depth=1, root="f")
    with pytest.raises(InputError, match="column 'f': found a geography level and a cell"):
        FileLayout().check(Domain(Schema((SEX,)), geography))
    FileLayout().check(Domain(Schema((SEX,)), regular(children=2, depth=1)))


def test_two_cells_of_one_name_are_refused_before_there_is_noise():
    schema = Schema((Attribute("x", ("a", "a_b")), Attribute("y", ("c", "b_c"))))
    with pytest.raises(InputError, match="found two cells named 'a_b_c'"):
        FileLayout().check(Domain(schema, alone()))


def test_a_level_name_too_long_for_a_file_is_refused_before_there_is_noise():
    with pytest.raises(InputError, match="expected one that fits a file name of 200 bytes"):
        FileLayout().check(Domain(Schema(), regular(children=2, depth=1, root="é" * 100)))


@pytest.mark.parametrize(
    "guarantee",
    [GUARANTEE, GUARANTEE.seeded(), Guarantee.none("because"), Guarantee.none("x").also_exact("y")],
)
def test_a_guarantee_reads_back_equal_and_exact(guarantee: Guarantee):
    assert guarantee_from_json(guarantee_to_json(guarantee)) == guarantee
    assert guarantee_to_json(guarantee)["sentences"] == list(guarantee.sentences())


def wide_release() -> CountsRelease:
    """A sparse table over more cells than a table has columns."""
    schema = Schema(
        (
            Attribute("age", tuple(str(age) for age in range(91))),
            Attribute("race", tuple("abcdefghijklmnopqrstuvwxyz")),
        )
    )
    geography = regular(children=3, depth=2)
    rng = np.random.default_rng(1)
    where = (rng.integers(0, 9, 40), rng.integers(0, schema.size, 40))
    leaf = csr_array((np.arange(1, 41), where), shape=(9, schema.size))
    leaf = csr_array(leaf.toarray() * (np.arange(9) != 4)[:, None])  # a unit without anybody
    guarantee = Guarantee.none("for a test")
    tables = {geography.leaf: leaf}
    return CountsRelease(
        domain=Domain(schema, geography),
        mechanism="Test()",
        tables=tables,
        guarantee=guarantee,
        key_kind="none",
        backend="none",
    )


def test_a_sparse_and_wide_table_is_written_cell_by_cell(tmp_path: Path):
    made = wide_release()
    receipt = {
        "mechanism": "Test()",
        "guarantee": guarantee_to_json(made.guarantee),
        "key_kind": "none",
        "noise_backend": "none",
        "notes": {},
    }
    write_release(made, tmp_path, receipt=receipt)
    frame = pl.read_parquet(tmp_path / "level_2.parquet")
    assert frame.columns == ["level_1", "level_2", "age", "race", "n"]
    assert frame.height == (made.at("level_2") != 0).sum()
    back = read_release(tmp_path).as_counts()
    assert not isinstance(back.tables["level_2"], np.ndarray)
    assert np.array_equal(back.at("level_2"), made.at("level_2"))
    assert np.array_equal(back.at("level_1"), made.at("level_1"))
    assert back.geography.units[-1].tolist() == made.geography.units[-1].tolist()


@pytest.mark.parametrize("name", ["n", "race", "units"])
def test_a_level_named_like_a_column_of_a_long_table_is_refused(name: str):
    schema = wide_release().schema
    geography = regular(children=2, depth=1, root=name)
    with pytest.raises(InputError, match=f"column '{name}': found a geography level and a column"):
        FileLayout().check(Domain(schema, geography))
