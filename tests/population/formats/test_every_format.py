"""The same people come out of every format, and nothing but an error out of a damaged one."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pyreadstat
import pytest
from pyarrow import ipc

from headcount.errors import InputError
from headcount.init.look import look
from headcount.population.formats import kinds
from headcount.population.formats.content import as_text
from headcount.population.formats.sheets import Sheet, open_sheets
from headcount.population.pieces import table_digest
from headcount.population.tables import header_of, read_table
from headcount.population.text_files import Format, likely_encoding
from tests.population.formats import written
from tests.population.formats.written import COUNTS, PEOPLE, WRITERS


def upper(name: str) -> bool:
    """SPSS's portable files know capital letters only."""
    return name.endswith(".por")


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_people_are_in_every_format(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path, PEOPLE)
    columns = [one.upper() if upper(name) else one for one in PEOPLE.columns]
    form = Format(sheet="people") if name == "people.rda" else Format()
    assert header_of(path, form) == columns
    assert read_table(path, columns, form=form).rows() == PEOPLE.rows()
    (sheet,) = (one for one in open_sheets(path) if one.name in ("", "people"))
    assert people_of(sheet).rows() == PEOPLE.rows()
    plain = tmp_path / "plain.csv"
    PEOPLE.write_csv(plain)
    if name != "people.parquet":  # whose texts are not told apart from none
        assert table_digest(path, form) == table_digest(plain)


def people_of(sheet: Sheet) -> pl.DataFrame:
    """The rows of a sheet, below its header where that is one of its lines."""
    if sheet.header_stated:
        return sheet.cells
    assert [str(one) for one in sheet.cells.row(0)] == PEOPLE.columns
    return sheet.cells.slice(1)


@pytest.mark.parametrize("name", WRITERS)
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    path, random = tmp_path / name, Random(name)
    WRITERS[name](path, PEOPLE)
    sound = path.read_bytes()
    refused = 0
    for _ in range(60):
        at = random.randrange(len(sound))
        some = bytearray(sound)
        if random.random() < 0.5:
            del some[at:]
        else:
            for _ in range(random.choice((1, 1, 4, 40))):
                some[random.randrange(len(some))] = random.randrange(256)
        path.write_bytes(some)
        for read in (open_sheets, look):
            found = complaint(read, path)
            assert not found or name in found
            refused += bool(found)
    assert refused


def complaint(read: Callable[[Path], object], path: Path) -> str:
    """What is said of a file, if anything."""
    try:
        read(path)
    except InputError as error:
        return str(error)
    return ""


def test_a_workbook_without_rows_and_a_text_of_nothing(tmp_path: Path) -> None:
    pl.DataFrame({"a": []}).write_excel(tmp_path / "a.xlsx")
    with pytest.raises(InputError, match="found no rows"):
        look(tmp_path / "a.xlsx")
    (tmp_path / "page.xls").write_text("<html><table><tr><td>1</td></tr></table></html>\n")
    with pytest.raises(InputError, match=r"page.xls: found a web page or other markup under the"):
        open_sheets(tmp_path / "page.xls")


# --- what formats state ----------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8", "cp850"])
def test_pc_axis_in_its_main_language(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "folk.px"
    written.px(path, encoding=encoding)
    (sheet,) = open_sheets(path)
    assert sheet.cells.columns == ["ort", "kön", "value"]
    found = {(p, s): int(n) for p, s, n in sheet.cells.rows()}
    assert found == COUNTS
    assert dict(sheet.value_labels["ort"]) == {"A": "Åmål", "B": "Växjö", "C": "Malmö"}
    assert sheet.stated.counts == ("value",)
    assert (sheet.stated.places, sheet.stated.units) == (("ort",), "personer")
    assert sheet.stated.title == "Folkmängd efter ort; och kön"
    assert look(path).column("kön").labels == {"f": "kvinnor", "m": "män"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("1 2 3 4 5", r"data: found 5 values, expected 6, the product of 3, 2"),
        ('1 2 3 4 5 6 "x"', r"data: found 7 values, expected 6"),
    ],
)
def test_a_cube_has_a_value_for_each_cell(tmp_path: Path, data: str, message: str) -> None:
    written.px(tmp_path / "folk.px", data=data)
    with pytest.raises(InputError, match=message):
        open_sheets(tmp_path / "folk.px")


def test_marks_in_a_cube_stay_what_they_are(tmp_path: Path) -> None:
    written.px(tmp_path / "folk.px", data='1 ".." "-" 4 "..." 6')
    (sheet,) = open_sheets(tmp_path / "folk.px")
    assert sheet.cells["value"].to_list() == ["1", "..", "-", "4", "...", "6"]


def test_pc_axis_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "folk.px"
    for said, message in (
        ('CHARSET="ANSI";\nwhat is this', r"line 2: found text that is no KEYWORD=value; of"),
        ('CHARSET="ANSI";\nSTUB="a";\nDATA=\n1;', r"VALUES\('a'\): found none, expected the"),
        ('CHARSET="A";KEYS("a")=VALUES;STUB="a";DATA=1;', "KEYS: found a cube without its empty"),
    ):
        path.write_text(said)
        with pytest.raises(InputError, match=message):
            open_sheets(path)


def test_json_stat_of_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "folk.json"
    written.json_stat(path)
    (sheet,) = open_sheets(path)
    assert sheet.cells.columns == ["ort", "sex", "value", "status"]
    found = {(p, s): n and int(n) for p, s, n, _ in sheet.cells.rows()}
    assert found == {**COUNTS, ("B", "m"): None}
    assert sheet.cells["status"].to_list() == [None, None, None, "c", None, None]
    assert (sheet.stated.places, sheet.stated.flags) == (("ort",), ("status",))
    written.json_stat(path, version=1)
    (sheet,) = open_sheets(path)
    assert {(p, s): int(n) for p, s, n in sheet.cells.rows()} == COUNTS
    for said, message in (
        ("[1, 2]", "found JSON without a data set"),
        ("{", r"folk.json: found content that cannot be read \(Expecting"),
        ("[" * 100_000, r"cannot be read \("),
        ('{"dimension": {}, "value": []}', "KeyError: 'size'|cannot be read"),
    ):
        path.write_text(said)
        with pytest.raises(InputError, match=message):
            open_sheets(path)


def test_labels_of_columns_and_of_codes(tmp_path: Path) -> None:
    frame = pl.DataFrame({"sex": [1.0, 2.0], "age": [4.0, 5.0]})
    about: dict[str, Any] = {
        "column_labels": {"sex": "Sex of person"},
        "variable_value_labels": {"sex": {1: "f"}},
    }
    pyreadstat.write_sav(frame, tmp_path / "a.sav", **about)
    pyreadstat.write_dta(frame, tmp_path / "a.dta", **about)
    for name in ("a.sav", "a.dta"):
        (sheet,) = open_sheets(tmp_path / name)
        assert sheet.column_labels["sex"] == "Sex of person"
        assert dict(sheet.value_labels["sex"]) == {"1": "f"}
        assert sheet.cells.rows() == [("1", "4"), ("2", "5")]


def test_not_a_number_is_no_value() -> None:
    values = pl.Series("x", [float("nan"), 3.0, None, 2.5])
    assert as_text(values, "x").to_list() == [None, "3", None, "2.5"]


def test_merged_cells_are_told_and_a_heading_of_two_rows_is_joined(tmp_path: Path) -> None:
    import xlsxwriter

    path = tmp_path / "two.xlsx"
    with xlsxwriter.Workbook(path) as book:
        book.add_worksheet("Notes").write("A1", "Read this")
        sheet = book.add_worksheet("Table")
        sheet.write("A1", "A table of people")
        sheet.merge_range("B3:C3", "Men")
        sheet.merge_range("D3:E3", "Women")
        sheet.merge_range("A3:A4", "Place")
        for column, name in enumerate(("0-17", "18+", "0-17", "18+"), 1):
            sheet.write(3, column, name)
        for row, values in enumerate((("A", 1, 2, 3, 4), ("B", 5, 6, 7, 8)), 4):
            sheet.write_row(row, 0, values)
        sheet.write("A7", "Source: us")
    notes, table = open_sheets(path)
    assert (notes.name, table.name) == ("Notes", "Table")
    assert table.merged == ((2, 0, 3, 0), (2, 1, 2, 2), (2, 3, 2, 4))
    assert table.cells.row(0) == ("A table of people", None, None, None, None)
    form = Format(sheet="Table", lines_above=2, heading_lines=2, lines_below=1)
    names = ["Place", "Men 0-17", "Men 18+", "Women 0-17", "Women 18+"]
    assert header_of(path, form) == names
    assert read_table(path, names, form=form).rows() == [
        ("A", "1", "2", "3", "4"),
        ("B", "5", "6", "7", "8"),
    ]
    with pytest.raises(InputError, match=r"place: found|format: found no rows below row 9"):
        read_table(path, names, form=Format(sheet="Table", lines_above=8))


# --- zips ------------------------------------------------------------------------------------


def test_a_zip_of_several_files_is_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    for name in ("people.xlsx", "people.sav", "people.rds", "people.parquet"):
        WRITERS[name](tmp_path / name, PEOPLE)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in sorted(tmp_path.glob("people.*")):
            archive.write(one, f"in/{one.name}")
    names = [one.name for one in open_sheets(path)]
    assert names == ["in/people.parquet", "in/people.rds", "in/people.sav", "in/people.xlsx"]
    for name in names:
        assert read_table(path, PEOPLE.columns, form=Format(sheet=name)).rows() == PEOPLE.rows()
    with pytest.raises(InputError, match=r"all.zip: sheets: found several: 'in/people.parquet'"):
        look(path)
    with pytest.raises(InputError, match=r"sheet: found 'no', expected one of 'in/peop"):
        read_table(path, PEOPLE.columns, form=Format(sheet="no"))


def test_a_zip_of_nothing_and_of_zips(tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.pdf", b"%PDF")
    with pytest.raises(InputError, match=r"all.zip: found no table, expected a zip with tables"):
        open_sheets(path)
    path.write_bytes(b"PK\3\4 and nothing more")
    with pytest.raises(InputError, match=r"all.zip: found content that cannot be read \("):
        open_sheets(path)


# --- what would not fit into memory ----------------------------------------------------------


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("kinds", "office", "whole"):
        monkeypatch.setattr(f"headcount.population.formats.{module}.memory_limit", lambda: 1 << 24)


def test_bombs_are_refused_before_they_are_unpacked(tmp_path: Path, little: None) -> None:
    bomb = b"a,b\n" + b"1,2\n" * 6_000_000
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("people.csv", bomb)
    with zipfile.ZipFile(tmp_path / "bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", bomb)
    (tmp_path / "bomb.rds").write_bytes(gzip.compress(b"X\n\0\0\0\3" + bomb))
    for name in ("bomb.zip", "bomb.xlsx", "bomb.rds"):
        with pytest.raises(
            kinds.TooLargeError, match=rf"{name}.*: found a file of .*, expected wh"
        ):
            open_sheets(tmp_path / name)


def test_two_cells_far_apart_are_refused(tmp_path: Path, little: None) -> None:
    import xlsxwriter

    path = tmp_path / "far.xlsx"
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet()
        sheet.write("A1", "a")
        sheet.write("XFD1048576", "z")
    with pytest.raises(
        kinds.TooLargeError, match="found a sheet as far as row 1,048,576 and column 16,384"
    ):
        open_sheets(path)


def test_a_vector_of_r_that_claims_to_be_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.rds"
    for claim in (
        b"\0\0\0\x13\x7f\xff\xff\xff",
        b"\0\0\0\x10\x7f\xff\xff\xff",
        b"\0\0\0\x0e\x80\0\0\1",
    ):
        path.write_bytes(written.R_HEAD + claim)
        with pytest.raises(InputError, match=r"a.rds: byte \d+ of the unpacked content: found"):
            open_sheets(path)


def test_packed_batches_of_arrow_are_counted(tmp_path: Path, little: None) -> None:
    path = tmp_path / "a.arrow"
    table = pa.table({"a": pa.nulls(1_500_000, pa.int64()).fill_null(0)})
    options = ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as file, ipc.new_file(file, table.schema, options=options) as w:
        w.write_table(table, max_chunksize=100_000)
    assert path.stat().st_size < 100_000
    with pytest.raises(kinds.TooLargeError, match="found a file of"):
        open_sheets(path)


# --- encodings -------------------------------------------------------------------------------

PLACES = {
    "cp1252": "Åmål Växjö Malmö Örebro Châlons Évreux Alençon Besançon Münster Köln Göttingen",
    "cp1250": "Łódź Kraków Gdańsk Poznań Wrocław Świdnica Żywiec Zielona Góra Białystok Ośno",
    "cp1251": "Москва Санкт-Петербург Новосибирск Екатеринбург Казань Нижний Новгород Омск Самара",
    "shift_jis": "札幌市 仙台市 さいたま市 千葉市 横浜市 川崎市 名古屋市 京都市 大阪市 神戸市",
    "cp949": "서울특별시 부산광역시 대구광역시 인천광역시 광주광역시 대전광역시 울산광역시 경기도",
    "gb18030": "北京市 天津市 河北省 山西省 内蒙古自治区 辽宁省 吉林省 黑龙江省 上海市 江苏省",
}


@pytest.mark.parametrize("encoding", [*PLACES, "utf-16-le", "utf-16-be"])
def test_encodings_by_evidence(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "places.csv"
    places = PLACES.get(encoding, PLACES["cp1252"]).split()
    content = "place,people\n" + "".join(f"{one},{7 * n}\n" for n, one in enumerate(places))
    path.write_bytes(content.encode(encoding))
    found = look(path)
    assert found.frame["place"].to_list() == places, likely_encoding(path)
