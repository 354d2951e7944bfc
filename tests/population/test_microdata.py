"""People counted while a table is read, however large: as one by one, and as a plain count."""

import csv
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.engines import LocalEngine
from headcount.errors import InputError
from headcount.geography.geography import CodeColumns, Prefixes
from headcount.population import pieces, tables, text_files
from headcount.population.columns import AttributeColumn
from headcount.population.formats import kinds
from headcount.population.microdata import SumsByKey, count_people, read_people
from headcount.population.people_table import RowChoice, TableOfPeople
from headcount.population.pieces import RowGroups, TextRange, WholeTable, pieces_of, table_digest
from headcount.population.population import Population
from headcount.population.text_files import PLAIN, Format, last_cut
from headcount.schema import Schema, impossible
from headcount.tabulate import Tabulated, tabulate

SEX = AttributeColumn(name="sex", levels=("f", "m"))
PLACES = CodeColumns(columns=("state", "county"))


def by_hand(people: Population) -> Counter[tuple[str, str]]:
    """How many people are in each unit and cell, by their names."""
    assert people.count is not None
    names = people.schema.cell_names
    units = people.geography.units[-1]
    entries = zip(people.unit, people.cell, people.count, strict=True)
    return Counter({(str(units[u]), names[c]): int(n) for u, c, n in entries})


def grouped(path: Path, columns: Mapping[str, Any], rows: int) -> Path:
    """Write Parquet with so many rows in a group."""
    pq.write_table(pa.table(dict(columns)), path, row_group_size=rows)
    return path


def table(path: Path, **keys: Any) -> TableOfPeople:
    asked: dict[str, Any] = {"attributes": (SEX,), "geography": PLACES, **keys}
    return TableOfPeople(path=path, **asked)


@settings(max_examples=15)
@given(
    people=st.lists(
        st.tuples(st.integers(0, 6), st.sampled_from("fm"), st.sampled_from("xyz\n,")),
        min_size=1,
        max_size=15,
    ),
    rows=st.integers(1, 8),
    name=st.sampled_from(["people.parquet", "people.csv"]),
    known=st.booleans(),
)
def test_counts_are_those_of_a_plain_count_whatever_the_pieces(people, rows, name, known):
    columns = {
        "state": [f"0{place // 3}" for place, _, _ in people],
        "county": [f"0{place // 3}{place}" for place, _, _ in people],
        "sex": [sex for _, sex, _ in people],
        "note": [note for _, _, note in people],
    }
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        if name.endswith("csv"):
            pl.DataFrame(columns).write_csv(path)
        else:
            grouped(path, columns, rows)
        asked = table(path, attributes=(SEX if known else replace(SEX, levels=None),))
        counted = count_people(asked, engine=LocalEngine(2))
        read = read_people(asked)
    assert by_hand(counted) == Counter(
        (county, sex) for county, sex in zip(columns["county"], columns["sex"], strict=True)
    )
    assert Tabulated.of(counted).digest == Tabulated.of(read).digest
    order = counted.unit.astype(np.int64) * counted.schema.size + counted.cell
    assert (np.diff(order) > 0).all()


@settings(max_examples=100)
@given(text=st.text(alphabet='a",\n\r;', max_size=40))
def test_text_is_cut_between_records_as_a_reader_of_csv_sees_them(text):
    for end in range(len(text) + 1):
        cut, records = last_cut(np.frombuffer(text[:end].encode(), dtype=np.uint8), ord(","))
        if '"' in text and "\r" in text:
            continue  # a lone return ends a record for csv.reader alone
        if not cut:
            continue
        assert text[cut - 1] == "\n"
        before = list(csv.reader(io.StringIO(text[:cut], newline="")))
        if "\r" not in text:
            assert len(before) == records
            whole = list(csv.reader(io.StringIO(text[:end], newline="")))
            after = list(csv.reader(io.StringIO(text[cut:end], newline="")))
            assert before + after == whole
            assert before[-1]
            assert after[0]


def test_pieces_of_text_are_the_rows_of_the_whole_with_their_lines(tmp_path: Path):
    path = tmp_path / "people.csv"
    lines = ["", "state,county,sex", "01,011,f", "", '01,"012",m', '02,"0\n21",f', "02,022,x", ""]
    path.write_text("\r\n".join(lines), newline="")
    whole = tables.read_rows(path, ["county"])
    found = pieces_of(path, PLAIN)
    assert len(found) > 2
    assert all(isinstance(one, TextRange) for one in found)
    batches = [r for p in found for r in p.batches(["county"], set(), together=False, numbers=())]
    assert pl.concat([one.frame for one in batches]).equals(whole.frame)
    assert [at for one in batches for at in one.positions] == whole.positions.to_list()
    with pytest.raises(InputError, match=r"column 'sex', line 8: found level 'x'"):
        count_people(table(path))


@pytest.mark.parametrize("start", ["\ufeff\n", "\ufeff\r\n\r\n", "\n", "\ufeff"])
@pytest.mark.parametrize("size", [3, 5, 16])
def test_a_mark_and_blank_lines_at_the_top_are_no_piece(start, size, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(pieces, "TEXT", size)
    path = tmp_path / "people.csv"
    path.write_bytes(f"{start}state,county,sex\n1,11,f\n1,12,x\n1,11,f\n".encode())
    wrong = 3 + start.count("\n")
    for way in (read_people, count_people):
        with pytest.raises(InputError, match=f"column 'sex', line {wrong}: found level 'x'"):
            way(table(path))
    path.write_bytes(path.read_bytes().replace(b",x", b",m"))
    assert by_hand(count_people(table(path))) == {("11", "f"): 2, ("12", "m"): 1}


@pytest.mark.parametrize("text", [16, 1 << 20])
def test_a_row_with_more_fields_is_refused_whichever_columns_are_read(tmp_path, monkeypatch, text):
    monkeypatch.setattr(pieces, "TEXT", text)
    path = tmp_path / "people.csv"
    path.write_text("state,county,sex,note\n1,11,f,x\n1,1,11,f,x\n1,12,m,\n")
    for way in (read_people, count_people):
        with pytest.raises(InputError, match=r"line 3: found 5 fields, expected 4 at most"):
            way(table(path, attributes=(replace(SEX, levels=None),)))


def test_small_files_and_texts_that_must_be_decoded_are_one_piece(tmp_path: Path, monkeypatch):
    path = tmp_path / "people.csv"
    path.write_bytes("state,county,sex\n01,011,f\n01,01ä,m\n".encode("latin-1"))
    form = Format(encoding="latin-1")
    assert pieces_of(path, form) == [WholeTable(path, form)]
    assert by_hand(count_people(table(path, form=form))) == {("011", "f"): 1, ("01ä", "m"): 1}
    monkeypatch.setattr(pieces, "TEXT", 1 << 20)
    assert pieces_of(path, PLAIN) == [WholeTable(path, PLAIN)]


def test_row_groups_are_joined_up_to_a_number_of_rows(tmp_path: Path):
    path = grouped(tmp_path / "p.parquet", {"state": ["1"] * 7}, 1)
    found = pieces_of(path, PLAIN)
    assert [(one.groups, one.first) for one in found if isinstance(one, RowGroups)] == [
        (range(2), 0),
        (range(2, 4), 2),
        (range(4, 6), 4),
        (range(6, 7), 6),
    ]


def test_all_problems_of_all_pieces_are_told_with_their_rows(tmp_path: Path):
    sexes = ["f", "x", "m", "f", "x", "x", None]
    columns = {"state": ["01"] * 7, "county": ["011"] * 7, "sex": sexes}
    path = grouped(tmp_path / "p.parquet", columns, 2)
    with pytest.raises(InputError) as counting:
        count_people(table(path), engine=LocalEngine(2))
    told = str(counting.value).splitlines()
    assert told[0].endswith("4 problems")
    assert [line.split(": found")[0].strip() for line in told[1:]] == [
        f"column 'sex', row {row}" for row in (2, 5, 6, 7)
    ]
    with pytest.raises(InputError) as reading:
        read_people(table(path))
    assert str(reading.value) == str(counting.value)


@pytest.mark.parametrize("levels", [("f", "m"), None])
def test_someone_in_a_structural_zero_is_named_by_row(tmp_path: Path, levels):
    columns = {"state": ["1"] * 5, "county": ["11"] * 5, "sex": ["f", "f", "m", "f", "m"]}
    path = grouped(tmp_path / "p.parquet", columns, 2)
    asked = table(
        path,
        attributes=(replace(SEX, levels=levels),),
        structural_zeros=(impossible({"sex": ("m",)}),),
    )
    with pytest.raises(InputError, match=r"row 3: found someone in cell 'm', a structural zero"):
        count_people(asked)


def test_codes_that_go_on_in_one_piece_only_are_refused(tmp_path: Path):
    columns = {"code": ["011", "012", "012", "0134"], "sex": ["f"] * 4}
    path = grouped(tmp_path / "p.parquet", columns, 2)
    prefixes = Prefixes(column="code", prefixes=(("state", 2), ("county", 3)), longer="cut")
    with pytest.raises(InputError, match=r"row 4: found codes of different lengths"):
        count_people(table(path, geography=prefixes))


def test_columns_of_counts_are_judged_by_all_pieces(tmp_path: Path):
    columns = {"state": ["1"] * 4, "county": ["11"] * 4, "sex": ["f"] * 4, "n": [1, 1, 1, 2]}
    path = grouped(tmp_path / "p.parquet", columns, 2)
    with pytest.raises(InputError, match="column 'n': found whole numbers, as if a row stood"):
        count_people(table(path))
    grouped(path, columns | {"n": ["1", "2", "3", "some"]}, 2)
    assert by_hand(count_people(table(path))) == {("11", "f"): 4}


def test_missing_levels_are_judged_by_all_pieces(tmp_path: Path):
    columns = {"state": ["1"] * 4, "county": ["11"] * 4, "sex": ["1", "2", "9", "999"]}
    path = grouped(tmp_path / "p.parquet", columns, 2)
    with pytest.raises(InputError, match=r"column 'sex', row 4: found what looks like a missing"):
        count_people(table(path, attributes=(replace(SEX, levels=None),)))


def test_rows_are_left_out_and_told_over_all_pieces(tmp_path: Path):
    columns = {
        "state": ["1", "total", "1", "1", "1"],
        "county": ["11", None, "11", "11", "12"],
        "sex": ["f", None, None, "f", "m"],
        "year": [1, 1, 1, 2, 1],
    }
    path = grouped(tmp_path / "p.parquet", columns, 2)
    asked = table(
        path,
        attributes=(replace(SEX, missing="drop"),),
        totals="drop",
        choice=RowChoice(include=(("year", ("1",)),)),
    )
    counted = count_people(asked)
    assert by_hand(counted) == {("11", "f"): 1, ("12", "m"): 1}
    assert counted.reading == read_people(asked).reading
    assert counted.reading.left_out == (
        ("rows outside include (year)", 1),
        ("rows of totals", 1),
        ("rows without 'sex'", 1),
    )
    with pytest.raises(InputError, match="include and exclude: found no row that they choose"):
        count_people(replace(asked, choice=RowChoice(include=(("year", ("7",)),))))


def test_units_of_a_list_in_any_order_and_units_beyond_it(tmp_path: Path):
    columns = {"state": ["2", "1", "2"], "county": ["21", "12", "21"], "sex": ["f", "m", "f"]}
    path = grouped(tmp_path / "p.parquet", columns, 1)
    units = tmp_path / "units.csv"
    units.write_text("state,county\n2,21\n1,12\n1,11\n")
    counted = count_people(table(path, units=units))
    assert counted.geography.units[-1].tolist() == ["11", "12", "21"]
    assert counted.domain.read_off == ()
    assert by_hand(counted) == {("12", "m"): 1, ("21", "f"): 2}
    units.write_text("state,county\n2,21\n1,11\n")
    with pytest.raises(InputError, match=r"row 2: found unit '12', expected one of the 2 units"):
        count_people(table(path, units=units))
    units.write_text("state,county\n2,21\n2,12\n")
    with pytest.raises(InputError, match=r"row 2: found unit '12' under other parents"):
        count_people(table(path, units=units))


def test_a_unit_with_two_parents_in_two_pieces_is_refused(tmp_path: Path):
    columns = {"state": ["1", "1", "2"], "county": ["11", "11", "11"], "sex": ["f"] * 3}
    path = grouped(tmp_path / "p.parquet", columns, 2)
    with pytest.raises(InputError, match="unit '11': found two parents, '1' and '2'"):
        count_people(table(path))


def test_a_level_of_one_unit_and_nobody_at_all(tmp_path: Path):
    columns = {"state": ["1"] * 3, "county": ["11"] * 3, "sex": ["f", "m", "f"], "n": [0, 0, 0]}
    path = grouped(tmp_path / "p.parquet", columns, 1)
    counted = count_people(table(path, count="n"))
    assert by_hand(counted) == {}
    assert tabulate(counted).dense().tolist() == [[0, 0]]
    assert Tabulated.of(counted).digest == Tabulated.of(read_people(table(path, count="n"))).digest


def test_more_people_than_64_bits_hold_are_refused_before_they_are_added(tmp_path: Path):
    columns = {"state": ["1"] * 3, "county": ["11"] * 3, "sex": ["f"] * 3, "n": [1 << 61] * 3}
    path = grouped(tmp_path / "p.parquet", columns, 3)
    with pytest.raises(InputError, match=r"count: found too many people, expected at most 2\^62"):
        count_people(table(path, count="n"))


def test_a_truncated_file_and_a_damaged_row_group_are_refused(tmp_path: Path):
    many = {"state": ["1"] * 60, "county": [f"1{n}" for n in range(60)], "sex": ["f"] * 60}
    path = grouped(tmp_path / "p.parquet", many, 20)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"p.parquet: found content that cannot be read"):
        count_people(table(path))
    middle = len(content) // 2
    path.write_bytes(content[: middle - 200] + b"\xff" * 400 + content[middle + 200 :])
    with pytest.raises(InputError, match=r"p.parquet: found content that cannot be read"):
        count_people(table(path))


def test_a_text_without_an_end_of_a_record_is_no_table(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(pieces, "LONGEST_RECORD", 64)
    path = tmp_path / "p.csv"
    path.write_text('state,county,sex\n1,11,"f\n' + "1,11,f\n" * 50)
    with pytest.raises(InputError, match=r"no end of a record .* quotation mark that none closes"):
        count_people(table(path))


@pytest.mark.parametrize("name", ["p.parquet", "p.csv"])
def test_what_does_not_fit_into_memory_is_counted_and_not_read(tmp_path, monkeypatch, name):
    columns = {"state": ["1"] * 9, "county": ["11"] * 9, "sex": ["f"] * 9}
    path = tmp_path / name
    if name.endswith("csv"):
        pl.DataFrame(columns).write_csv(path)
    else:
        grouped(path, columns, 2)
    for module in (kinds, text_files):
        monkeypatch.setattr(module, "memory_limit", lambda: 90)
    assert by_hand(count_people(table(path))) == {("11", "f"): 9}
    with pytest.raises(InputError, match="for these headcount protect counts Parquet"):
        read_people(table(path))


@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=6)),
)
def test_sums_by_key_are_those_of_a_counter(batches):
    sums, plain = SumsByKey(), Counter[int]()
    for batch in batches:
        sums.add(*(np.array([one[n] for one in batch], dtype=np.int64) for n in (0, 1)))
        for key, many in batch:
            plain[key] += many
    key, many = sums.result()
    assert dict(zip(key.tolist(), many.tolist(), strict=True)) == dict(+plain)
    assert key.tolist() == sorted(key.tolist())


def test_schema_of_levels_read_in_pieces_is_that_of_all(tmp_path: Path):
    columns = {"state": ["1"] * 4, "county": ["11"] * 4, "sex": ["10", "9", "1", "2"]}
    path = grouped(tmp_path / "p.parquet", columns, 1)
    counted = count_people(table(path, attributes=(replace(SEX, levels=None),)))
    assert isinstance(counted.schema, Schema)
    assert counted.schema.attributes[0].levels == ("1", "2", "9", "10")
    assert counted.domain.read_off == ("which units exist", "which levels of 'sex' exist")


@pytest.mark.parametrize("name", ["p.parquet", "p.csv"])
def test_the_digest_of_a_source_does_not_depend_on_its_pieces(tmp_path: Path, monkeypatch, name):
    columns = {"a": ["1", None, "x,\n", "1"], "b": ["0.5", "-0.0", "", "7"]}
    path = tmp_path / name
    if name.endswith("csv"):
        pl.DataFrame(columns).write_csv(path)
    else:
        grouped(path, columns | {"c": [0.5, -0.0, None, 7.0], "d": [[1]] * 4}, 1)
    assert len(pieces_of(path, PLAIN)) > 1
    digest = table_digest(path)
    for size in ("ROWS", "TEXT"):
        monkeypatch.setattr(pieces, size, 1 << 20)
    assert pieces_of(path, PLAIN) == [WholeTable(path, PLAIN)]
    assert table_digest(path) == digest


def test_places_of_many_pieces_are_each_kept_once(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("headcount.population.people_table.MANY_PLACES", 2)
    county = [f"1{n % 7}" for n in range(20)]
    path = grouped(tmp_path / "p.parquet", {"state": ["1"] * 20, "county": county}, 2)
    counted = count_people(table(path, attributes=()))
    assert counted.geography.units[-1].tolist() == [f"1{n}" for n in range(7)]
    assert by_hand(counted) == Counter((one, "total") for one in county)
