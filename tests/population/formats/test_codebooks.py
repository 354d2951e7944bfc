"""Texts that only a codebook explains, summary files, tables beside, and where a table stands."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import polars as pl
import pytest

from headcount.errors import InputError
from headcount.geography.geography import CodeColumns
from headcount.init.look import look
from headcount.population import pieces
from headcount.population.columns import AttributeColumn
from headcount.population.formats import summary
from headcount.population.formats.sheets import open_sheets
from headcount.population.microdata import count_people, read_microdata
from headcount.population.people_table import TableOfPeople
from headcount.population.pieces import TextRange, pieces_of
from headcount.population.tables import header_of, read_rows, read_table
from headcount.population.text_files import Beside, Format
from headcount.tabulate import tabulate

DDI = """<?xml version="1.0" encoding="UTF-8"?>
<codeBook xmlns="ddi:codebook:2_5"><fileDscr><fileTxt><fileStrc type="rectangular"/>
<fileType charset="ISO-8859-1">data</fileType></fileTxt></fileDscr><dataDscr>
<var name="YEAR" dcml="0"><location StartPos="1" EndPos="4" width="4"/><labl>Year</labl></var>
<var name="SEX"><location StartPos="5" EndPos="5"/><labl>Sex</labl>
<catgry><catValu>1</catValu><labl>Male</labl></catgry>
<catgry><catValu>2</catValu><labl>Female</labl></catgry></var>
<var name="TOWN"><location StartPos="6" EndPos="10"/></var>
<var name="PERWT" dcml="2" wgt="wgt"><location StartPos="11" EndPos="15"/></var>
</dataDscr></codeBook>
"""
LINES = ["20201Kö   01050", "20202Aarau00099", "20201Kö   12345"]


def extract(folder: Path, *, lines: list[str] = LINES, ddi: str = DDI) -> Path:
    (folder / "usa.xml").write_text(ddi, encoding="utf-8")
    path = folder / "usa.dat.gz"
    path.write_bytes(gzip.compress("\n".join([*lines, ""]).encode("latin-1")))
    return path


def test_fixed_width_by_a_codebook_of_ddi(tmp_path: Path) -> None:
    path = extract(tmp_path)
    (sheet,) = open_sheets(path)
    assert sheet.cells.rows() == [
        ("2020", "1", "Kö", "10.50"),
        ("2020", "2", "Aarau", "0.99"),
        ("2020", "1", "Kö", "123.45"),
    ]
    assert sheet.stated.weights == ("PERWT",)
    assert dict(sheet.column_labels) == {"YEAR": "Year", "SEX": "Sex"}
    assert (sheet.form.layout, sheet.evidence) == (tmp_path / "usa.xml", (tmp_path / "usa.xml",))
    seen = look(path)
    assert seen.column("SEX").labels == {"1": "Male", "2": "Female"}
    assert read_table(path, ["SEX"], form=seen.form)["SEX"].to_list() == ["1", "2", "1"]


@pytest.mark.parametrize(
    ("lines", "ddi", "message"),
    [
        ([*LINES, "2020"], DDI, r"line 4: found 4 characters, expected 15, as its layout says"),
        (LINES, DDI.replace("rectangular", "hierarchical"), "found a hierarchical file, with"),
        (LINES, f"<!DOCTYPE x [<!ENTITY a 'a'>]>{DDI[38:]}<codeBook/>", "declarations of entities"),
        (LINES, DDI[:300], r"usa.xml: found content that cannot be read \(.*, expected a DDI"),
        (LINES, DDI.replace('EndPos="5"', 'EndPos="five"'), r"variable 'SEX': invalid literal"),
    ],
)
def test_a_codebook_that_is_not_of_the_file(
    tmp_path: Path, lines: list[str], ddi: str, message: str
) -> None:
    path = extract(tmp_path, lines=lines, ddi=ddi)
    with pytest.raises(InputError, match=message):
        open_sheets(path, beside=[tmp_path / "usa.xml"])


def test_what_is_beside_by_chance_is_no_codebook(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("a,b\n1,2\n")
    (tmp_path / "people.xml").write_text("<settings/>")
    (tmp_path / "people.rda").write_bytes(b"RDX3\nX\n")
    assert look(path).frame.rows() == [("1", "2")]


def test_a_codebook_of_nhgis_says_what_columns_are(tmp_path: Path) -> None:
    path = tmp_path / "nhgis1_pmsa.csv"
    path.write_text("GISJOIN,STATEA,ECI001\nG1,44,7\nG2,44,8\n")
    (tmp_path / "nhgis1_pmsa_codebook.txt").write_text(
        "---\nCodebook for NHGIS data file 'nhgis1_pmsa'\n---\n\nYear:  1990\n---\n"
        "Data Dictionary\n---\n\nContext Fields \n        GISJOIN:     GIS Join Match Code\n"
        "        STATEA:      State Code\n\n    Table 1:     Persons\n"
        "    Universe:    Persons\n    NHGIS code:  ECI\n        ECI001:      Total\n"
    )
    (sheet,) = open_sheets(path)
    assert not sheet.header_stated
    assert dict(sheet.column_labels) == {
        "GISJOIN": "GIS Join Match Code",
        "STATEA": "State Code",
        "ECI001": "Persons: Total",
    }
    assert look(path).frame.rows() == [("G1", "44", "7"), ("G2", "44", "8")]


def argus(folder: Path, *, fixed: bool = False) -> Path:
    (folder / "age.hrc").write_text("A1\n@1\n@2\nA2\n@@3\n")
    (folder / "sex.cdl").write_text("1,male\n2,female\n")
    starts = ("1 1 9", "2 2 99", "4 4") if fixed else ("1", "2", "4")
    (folder / "micro.rda").write_text(
        ("" if fixed else '   <SEPARATOR> ";"\n')
        + f'Sex {starts[0]}\n  <RECODEABLE>\n  <CODELIST> "sex.cdl"\n'
        + f'Age {starts[1]}\n  <HIERARCHICAL>\n  <HIERCODELIST> "age.hrc"\n'
        + f'  <HIERLEADSTRING> "@"\nWeight {starts[2]}\n  <NUMERIC>\n  <WEIGHT>\n'
    )
    path = folder / "micro.asc"
    path.write_text("1 1 1.5\n2 3 2.0\n" if fixed else "1;1;1.5\n2;3;2.0\n")
    return path


@pytest.mark.parametrize("fixed", [True, False])
def test_microdata_of_tau_argus(tmp_path: Path, fixed: bool) -> None:
    path = argus(tmp_path, fixed=fixed)
    (sheet,) = open_sheets(path)
    assert sheet.cells.rows() == [("1", "1", "1.5"), ("2", "3", "2.0")]
    assert sheet.cells.columns == ["Sex", "Age", "Weight"]
    assert sheet.stated.weights == ("Weight",)
    assert dict(sheet.value_labels["Sex"]) == {"1": "male", "2": "female"}
    assert sheet.hierarchies["Age"] == (("A1", 0), ("1", 1), ("2", 1), ("A2", 0), ("3", 2))
    path.write_text("1;1\n" if not fixed else "1 1 1.57\n")
    with pytest.raises(InputError, match=r"line 1: found (2 fields|8 characters), expected (3|7)"):
        open_sheets(path)


# --- summary files ---------------------------------------------------------------------------

BLOCKS = [("44", "007", "000100", "1", f"100{n}", 3 + n) for n in range(3)]


def summary_files(folder: Path, *, year: int, people: int = 0) -> list[Path]:
    """A state, its county and three blocks, and the segments of their counts."""
    places = [("040", ("44", "", "", "", ""), 12), ("050", ("44", "007", "", "", ""), 12)]
    places += [("750", one[:5], one[5]) for one in BLOCKS]
    geo, counts = [], {1: list[str](), 2: list[str](), 3: list[str]()}
    for number, (level, (state, county, tract, group, block), n) in enumerate(places, 1):
        if year == 2020:
            fields = [""] * 97
            known = {2: level, 7: f"{number:07}", 12: state, 14: county, 32: tract, 33: group}
            known |= {34: block, 9: state + county + tract + block, 87: "Name", 90: str(n)}
            for at, value in known.items():
                fields[at] = value
            geo.append("|".join(fields))
        else:
            line = [" "] * 500
            for at, value in ((8, level), (18, f"{number:07}"), (27, state), (29, county)):
                line[at : at + len(value)] = value
            for at, value in (
                (54, tract),
                (60, group),
                (61, block),
                (226, "Name"),
                (318, f"{n:9}"),
            ):
                line[at : at + len(value)] = value
            geo.append("".join(line))
        sign = "|" if year == 2020 else ","
        for segment, tables in {**summary.TABLES, **summary.LATER}.items():
            values = [str(n + people)] * sum(size for _, size in tables)
            counts[segment].append(sign.join(["PLST", "RI", "000", "01", f"{number:07}", *values]))
    written = [folder / f"rigeo{year}.pl"]
    written[0].write_text("\n".join([*geo, ""]), encoding="latin-1")
    for segment in (1, 2, 3) if year == 2020 else (1, 2):
        written.append(folder / f"ri0000{segment}{year}.pl")
        written[-1].write_text("\n".join([*counts[segment], ""]))
    return written


@pytest.mark.parametrize("year", [2010, 2020])
@pytest.mark.parametrize("packed", [False, True])
def test_a_summary_file_of_redistricting(tmp_path: Path, year: int, packed: bool) -> None:
    files = summary_files(tmp_path, year=year)
    path = files[0]
    if packed:
        path = tmp_path / "ri.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for one in files:
                archive.write(one, one.name)
    blocks, counties, states = open_sheets(path)
    assert [one.name for one in (blocks, counties, states)] == ["750", "050", "040"]
    keys = ["STATE", "COUNTY", "TRACT", "BLKGRP", "BLOCK", "P0010001", "P0040001"]
    assert blocks.cells.select(keys).rows() == [(*b[:5], str(b[5]), str(b[5])) for b in BLOCKS]
    assert blocks.cells["GEOCODE"].to_list() == ["".join((*b[:3], b[4])) for b in BLOCKS]
    assert states.cells.select("STATE", "P0010001").rows() == [("44", "12")]
    assert blocks.stated.places == summary.PARTS
    assert read_table(path, ["BLOCK"]).height == 3  # the lowest level, where none is named
    assert read_table(path, ["STATE"], form=Format(sheet="040")).height == 1


def test_segments_that_do_not_belong_to_their_header(tmp_path: Path) -> None:
    geo, first, *_ = summary_files(tmp_path, year=2020, people=1)
    with pytest.raises(InputError, match=r"POP100: found other numbers of people than P0010001"):
        open_sheets(geo)
    first.write_text("PLST|RI|000|01|0000001|3\n")
    with pytest.raises(InputError, match=r"ri000012020.pl: line 1: found 6 fields, expected 149"):
        open_sheets(geo)
    for one in tmp_path.glob("ri0*"):
        one.unlink()
    with pytest.raises(InputError, match="found a geographic header without segments"):
        open_sheets(geo)


# --- where the table stands ------------------------------------------------------------------

TITLED = (
    "A table of people\n\nPlace;Men;;Women;\n;0-17;18+;0-17;18+\nplace;n;n;n;n\n"
    'A;1;2;3;4\n;5;6;7;8\n"B\nand C";9;10;11;12\nSource: us; all of us\n'
)
WHERE = Format(
    lines_above=2, heading_lines=2, lines_after_heading=1, lines_below=1, fill_down=("Place",)
)
NAMES = ["Place", "Men 0-17", "Men 18+", "Women 0-17", "Women 18+"]
ROWS = [("A", *"1234"), ("A", *"5678"), ("B\nand C", "9", "10", "11", "12")]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_titles_headings_labels_and_notes_of_a_text(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(TITLED.encode()) if name.endswith("gz") else TITLED.encode())
    assert header_of(path, WHERE) == NAMES
    rows = read_rows(path, NAMES, form=WHERE)
    assert rows.frame.rows() == ROWS
    assert rows.where([0, 2]) == ["line 6", "line 8"]
    (sheet,) = open_sheets(path)
    assert sheet.cells.row(3) == (None, "0-17", "18+", "0-17", "18+")
    assert sheet.cells.height == 10  # as many as there are lines
    with pytest.raises(InputError, match="format: found no rows below line 9, expected a heading"):
        header_of(path, Format(lines_above=8, lines_below=4))


def test_the_same_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    body = "".join(f"{n % 7},{n % 3}\n" for n in range(5000))
    path.write_text(f"title\nplace,sex\nlabel,label\n{body}note, note, note, note\n")
    form = Format(lines_above=1, lines_after_heading=1, lines_below=1)
    whole = read_rows(path, ["place", "sex"], form=form)
    assert whole.frame.height == 5000
    monkeypatch.setattr(pieces, "TEXT", 1000)
    parts = pieces_of(path, form)
    assert len(parts) > 10
    assert all(isinstance(one, TextRange) for one in parts)
    found = [
        rows
        for one in parts
        for rows in one.batches(["place", "sex"], set(), together=False, numbers=[])
    ]
    assert pl.concat([one.frame for one in found]).equals(whole.frame)
    assert pl.concat([one.positions for one in found]).to_list() == list(range(5000))
    assert found[3].where([0]) == [f"line {4 + found[3].position(0)}"]


def test_names_that_stand_twice_get_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,a,,b\n1,2,3,4\n")
    with pytest.raises(InputError, match="'a': found the column twice"):
        read_table(path, ["a"])
    form = Format(number_names=True)
    assert header_of(path, form) == ["a", "a 2", "column 3", "b"]
    assert read_table(path, ["a 2", "column 3"], form=form).rows() == [("2", "3")]
    assert header_of(path, Format(heading_lines=0)) == [f"column {n}" for n in range(1, 5)]
    with pytest.raises(InputError, match="lines_above: found -1, expected a number of lines"):
        Format(lines_above=-1)


# --- tables beside ---------------------------------------------------------------------------


def beside(folder: Path) -> tuple[Path, Format]:
    (folder / "people.csv").write_text("zone,sex\n1,f\n2,m\n1,m\n3,f\n")
    (folder / "zones.csv").write_text("code;region\n1;N\n2;N\n3;S\n4;S\n", encoding="utf-16")
    one = Beside(file=folder / "zones.csv", key="zone", other_key="code")
    return folder / "people.csv", Format(beside=(one,))


def test_a_table_beside_says_where_people_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, form = beside(tmp_path)
    assert header_of(path, form) == ["zone", "sex", "region"]
    assert read_table(path, ["region", "sex"], form=form).rows() == [
        *(("N", "f"), ("N", "m"), ("N", "m"), ("S", "f"))
    ]
    place = CodeColumns(columns=("region", "zone"))
    sex = AttributeColumn(name="sex", levels=("f", "m"))
    truth = [[1, 1], [0, 1], [1, 0]]
    people = read_microdata(path, attributes=[sex], geography=place, form=form)
    assert tabulate(people).dense().tolist() == truth
    monkeypatch.setattr(pieces, "TEXT", 8)
    assert len(pieces_of(path, form)) > 1
    table = TableOfPeople(path=path, attributes=(sex,), geography=place, form=form)
    assert tabulate(count_people(table)).dense().tolist() == truth


def test_a_key_that_finds_nothing_or_two_is_refused(tmp_path: Path) -> None:
    path, form = beside(tmp_path)
    path.write_text("zone,sex\n1,f\n9,m\n")
    with pytest.raises(InputError, match=r"people.csv: column 'zone', line 3: found '9', expect"):
        read_table(path, ["region"], form=form)
    (tmp_path / "zones.csv").write_text("code,region\n1,N\n9,N\n9,S\n")
    with pytest.raises(InputError, match=r"zones.csv: column 'code', line 4: found '9' again"):
        read_table(path, ["region"], form=form)
    (tmp_path / "zones.csv").write_text("code,sex\n1,N\n9,N\n")
    again = Beside(file=tmp_path / "zones.csv", key="zone", other_key="code", columns=("sex",))
    with pytest.raises(InputError, match=r"column 'sex': found a column that .*people.csv has"):
        header_of(path, Format(beside=(again,)))
