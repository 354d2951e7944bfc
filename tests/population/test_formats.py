"""The same people from every kind of file: text in any dress, Parquet, Excel, Stata, SPSS."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyreadstat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import InputError
from headcount.geography.geography import CodeColumns, Prefixes
from headcount.population import Population, text_files
from headcount.population.columns import AttributeColumn
from headcount.population.counts import read_counts
from headcount.population.microdata import read_microdata
from headcount.population.pieces import table_digest
from headcount.population.tables import header_of, read_table
from headcount.population.text_files import Format
from headcount.schema import Attribute, Schema
from headcount.tabulate import tabulate

PEOPLE = pl.DataFrame(
    {
        "region": ["Nord", "Nord", "Süd", "Süd"],
        "ort": ["A", "B", "Ç", "Ç"],
        "geschlecht": ["weiblich", "männlich", "weiblich", "weiblich"],
    }
)
PLACE = CodeColumns(columns=("region", "ort"))
SEX = AttributeColumn(name="sex", column="geschlecht", levels=("weiblich", "männlich"))
TRUTH = [[1, 0], [0, 1], [2, 0]]

Writer = Callable[[Path], Path]


def text(folder: Path, name: str, *, delimiter: str = ",", encoding: str = "utf-8") -> Path:
    path = folder / name
    raw = PEOPLE.write_csv(separator=delimiter).encode(encoding)
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def read(path: Path, form: Format | None = None) -> Population:
    return read_microdata(path, attributes=[SEX], geography=PLACE, form=form or Format())


@pytest.mark.parametrize("name", ["people.csv", "people.CSV", "people.txt", "people.csv.gz"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_text_in_any_dress_is_the_same_people(
    tmp_path: Path, name: str, delimiter: str, encoding: str
) -> None:
    path = text(tmp_path, name, delimiter=delimiter, encoding=encoding)
    # A byte order mark says what the encoding is, whatever the config says.
    form = Format(encoding="cp1252") if encoding != "utf-8" else None
    people = read(path, form)
    assert tabulate(people).dense().tolist() == TRUTH
    assert people.geography.units[2].tolist() == ["A", "B", "Ç"]
    assert table_digest(path, form or Format()) == table_digest(text(tmp_path, "plain.csv"))


def test_another_sign_between_fields_is_given(tmp_path: Path) -> None:
    path = text(tmp_path, "people.csv", delimiter="~")
    with pytest.raises(
        InputError,
        match=r"columns 'region', 'ort', 'geschlecht': found no such columns, expected one of 'reg",
    ):
        read(path)
    assert tabulate(read(path, Format(delimiter="~"))).dense().tolist() == TRUTH


def test_excel_and_statistics_files(tmp_path: Path) -> None:
    PEOPLE.write_excel(tmp_path / "people.xlsx", worksheet="Leute")
    pyreadstat.write_dta(PEOPLE, tmp_path / "people.dta")
    pyreadstat.write_sav(PEOPLE, tmp_path / "people.sav")
    for name in ("people.xlsx", "people.dta", "people.sav"):
        assert tabulate(read(tmp_path / name)).dense().tolist() == TRUTH
        assert header_of(tmp_path / name) == PEOPLE.columns
        assert table_digest(tmp_path / name) == table_digest(text(tmp_path, "plain.csv"))
    assert tabulate(read(tmp_path / "people.xlsx", Format(sheet="Leute"))).dense().tolist() == TRUTH
    with pytest.raises(InputError, match="sheet: found 'Volk', expected one of 'Leute'"):
        read(tmp_path / "people.xlsx", Format(sheet="Volk"))


def test_numbers_of_excel_and_stata_have_no_decimals_they_do_not_need(tmp_path: Path) -> None:
    numbers = pl.DataFrame({"code": [1001, 44007, 440070101001000], "x": [1.5, 2.0, None]})
    numbers.write_excel(tmp_path / "n.xlsx")
    pyreadstat.write_dta(numbers, tmp_path / "n.dta")
    for name in ("n.xlsx", "n.dta"):
        found = read_table(tmp_path / name, ["code", "x"])
        assert found["code"].to_list() == ["1001", "44007", "440070101001000"]
        assert found["x"].to_list() == ["1.5", "2", None]
    pyreadstat.write_dta(pl.DataFrame({"code": [2.0**60]}), tmp_path / "long.dta")
    with pytest.raises(InputError, match=r"'code', row 1: found a number of more than 15 digits"):
        read_table(tmp_path / "long.dta", ["code"])


@pytest.mark.parametrize("name", ["bad.xlsx", "bad.dta", "bad.sav", "bad.csv.gz"])
def test_files_that_are_not_what_their_name_says(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match=rf"{name}: found content that cannot be"):
        read_table(tmp_path / name, ["a"])


@pytest.mark.parametrize("before", [0, text_files.SAMPLE // 4], ids=["at once", "late"])
def test_the_guess_is_made_from_what_is_not_utf8_wherever_it_is(tmp_path: Path, before: int):
    path = tmp_path / "people.csv"
    path.write_bytes(b"name\n" + before * b"Ann\n" + "Jos\u00e9\n".encode("latin-1"))
    assert 'encoding = "cp1252" under' in str(text_files.not_utf8(path))
    assert text_files.likely_encoding(path) == ("utf-8" if before else "cp1252")


def test_text_in_another_encoding_is_refused_with_a_guess(tmp_path: Path) -> None:
    path = text(tmp_path, "people.csv", encoding="cp1252")
    with pytest.raises(
        InputError,
        match=r'found bytes that are not UTF-8, expected text in UTF-8 \(encoding = "cp1252" under',
    ):
        read(path)
    with pytest.raises(InputError, match="line 3: found bytes that are not us-ascii"):
        read(text(tmp_path, "p.csv.gz", encoding="utf-8"), Format(encoding="us-ascii"))


def test_what_a_format_cannot_be() -> None:
    for wrong, message in (
        ({"delimiter": ";;"}, r"delimiter: found ';;', expected one sign"),
        ({"delimiter": '"'}, r"delimiter: found '\"', expected one sign"),
        ({"encoding": "latin-one"}, r"encoding: found 'latin-one', expected the name of an enc"),
        ({"decimal": ",", "thousands": ","}, "thousands: found ',', which is the decimal sign too"),
    ):
        with pytest.raises(InputError, match=message):
            Format(**wrong)  # type: ignore[arg-type]


def test_a_bomb_of_text_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a\n" + b"1\n" * 5_000_000))
    monkeypatch.setattr("headcount.population.text_files.memory_limit", lambda: 1 << 24)
    with pytest.raises(InputError, match=r"bomb.csv.gz: found a file of .*, expected what fits"):
        read_table(path, ["a"])


# --- lines -----------------------------------------------------------------------------------


def test_all_problems_of_a_file_are_told_with_their_lines(tmp_path: Path) -> None:
    rows = ["code,sex,age", *(f"0{i % 3},{'fmx'[i % 3]},{i}" for i in range(40))]
    rows[2] = "7,f,old"  # the code, then the age: two problems of one line
    path = tmp_path / "people.csv"
    path.write_text("\n".join(rows))
    with pytest.raises(InputError) as caught:
        read_microdata(
            path,
            attributes=[
                AttributeColumn(name="sex", levels=("f", "m")),
                AttributeColumn(name="age", bins=(0, 18, 65)),
            ],
            geography=Prefixes(column="code", prefixes=(("place", 2),)),
        )
    first, *told = str(caught.value).splitlines()
    assert first == f"{path}: 15 problems"
    assert told[0].startswith("  column 'code', line 3: found '7', expected a code of at least 2")
    assert told[1] == (
        "  column 'age', line 3: found 'old', expected a whole number, 0 or more, for the bins"
    )
    assert told[2] == "  column 'sex', line 4: found level 'x', expected one of 'f', 'm'"
    assert len(told) == 11
    assert told[-1] == "  and 5 more"


def test_lines_count_blank_ones_and_those_within_quotes(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text('\nplace,note,sex\na,"one\ntwo",f\n\nb,,m\nb,,x\n\n')
    with pytest.raises(InputError, match=r"people.csv: column 'sex', line 7: found level 'x'"):
        read_microdata(
            path,
            attributes=[AttributeColumn(name="sex", levels=("f", "m"))],
            geography=CodeColumns(columns=("place",)),
        )


@given(
    st.lists(
        st.one_of(st.just(""), st.text("ab\n\"',;", min_size=1, max_size=6)), min_size=1, max_size=8
    )
)
def test_lines_agree_with_a_plain_count(tmp_path_factory, notes: list[str]) -> None:
    """Each row's line, against the number of line breaks written before it."""
    path = tmp_path_factory.mktemp("lines") / "p.csv"
    lines, written = [], "place,note\n"
    for number, note in enumerate(notes):
        lines.append(written.count("\n") + 1)
        quoted = note.replace('"', '""')
        written += f'p{number},"{quoted}"\n'
    path.write_text(written)
    from headcount.population.tables import read_rows

    rows = read_rows(path, ["place"])
    assert rows.frame["place"].to_list() == [f"p{number}" for number in range(len(notes))]
    assert rows.where(range(len(notes))) == [f"line {line}" for line in lines]


def test_a_blank_row_is_no_row(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("place;sex\na;f\n;\n\nb;m\n")
    people = read_microdata(path, attributes=[], geography=CodeColumns(columns=("place",)))
    assert tabulate(people).dense().tolist() == [[1], [1]]
    path.write_text("place;sex\na;f\n;m\n")
    with pytest.raises(InputError, match="'place', line 3: found a blank code"):
        read_microdata(path, attributes=[], geography=CodeColumns(columns=("place",)))


# --- numbers ---------------------------------------------------------------------------------

ONE = Schema((Attribute("sex", ("f", "m")),))


def counted(path: Path, **options) -> list[list[int]]:
    place = CodeColumns(columns=("place",))
    read = read_counts(path, schema=ONE, geography=place, **options)
    counts: list[list[int]] = tabulate(read).dense().tolist()
    return counts


def test_counts_with_signs_between_digits(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text('place;f;m\na;1.234;2,0\nb;"1.234.567";12\n')
    german = Format(decimal=",", thousands=".")
    assert counted(path, form=german) == [[1234, 2], [1_234_567, 12]]
    with pytest.raises(InputError, match=r"column 'f', line 2: found '1\.234', expected a whole"):
        counted(path, form=Format(decimal=","))
    path.write_text('place,f,m\na,"1,234",2.0\nb,1 234,"12,34"\n')
    with pytest.raises(InputError) as caught:
        counted(path, form=Format(thousands=","))
    assert "'f', line 3: found '1 234', expected a whole" in str(caught.value)
    assert "'m', line 3: found '12,34', expected a whole" in str(caught.value)
    path.write_text("place,f,m\na,1 234,2\nb,1\u00a0234\u202f567,0\n")
    assert counted(path, form=Format(thousands=" ")) == [[1234, 2], [1_234_567, 0]]


def test_counts_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text("place,f,m\na,,2\nb,-,..\n")
    with pytest.raises(
        InputError, match=r'found nothing, .* \(blank_counts = "zero" under \[population\] reads'
    ):
        counted(path)
    assert counted(path, blank_counts="zero") == [[0, 2], [0, 0]]
    path.write_text("place,f,m\na,,2\nb,x,1\n")
    with pytest.raises(InputError, match="'f', line 3: found 'x', expected a whole number"):
        counted(path, blank_counts="zero")


@pytest.mark.parametrize("sign", ["x", "(D)", "c", "..", "-", ":", "NA", "", "*", "<5", "n/a", "…"])
def test_counts_that_are_withheld(tmp_path: Path, sign: str) -> None:
    path = tmp_path / "n.csv"
    path.write_text(f"place;f;m\na;{sign};2,0\nb;3;1\n")
    form = Format(decimal=",")
    key = r'\(blank_counts = "(zero|withheld)" under \[population\] reads'
    with pytest.raises(InputError, match=rf"'f', line 2: found .* 0 or more {key}"):
        counted(path, form=form)
    assert counted(path, form=form, blank_counts="withheld") == [[0, 2], [3, 1]]


@pytest.mark.parametrize("sign", ["-5", "2.5", "many", "12a", "(12", "1;2"])
def test_what_is_no_sign_for_a_withheld_count_is_refused(tmp_path: Path, sign: str) -> None:
    path = tmp_path / "n.csv"
    path.write_text(f'place,f,m\na,"{sign}",2\nb,3,1\n')
    with pytest.raises(
        InputError, match=r"'f', line 2: found .*, expected a whole number, 0 or mor"
    ):
        counted(path, blank_counts="withheld")


def test_columns_of_one_cell_are_added_up(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text("place,f0,f1,m0\na,1,2,3\nb,0,5,0\n")
    columns = {"f0": {"sex": "f"}, "f1": {"sex": "f"}, "m0": {"sex": "m"}}
    assert counted(path, columns=columns) == [[3, 3], [5, 0]]


def test_codes_that_lost_their_zeros(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("code\n1001\n44007\n01003\n")
    place = Prefixes(column="code", prefixes=(("state", 2), ("county", 5)))
    with pytest.raises(
        InputError,
        match=r"'code', line 2: found '1001', expected a code of at least 5 characters "
        r"\(fill_zeros = true under \[population.geography\] gives lost zeros back\)",
    ):
        read_microdata(path, attributes=[], geography=place)
    filled = Prefixes(column="code", prefixes=place.prefixes, fill_zeros=True)
    people = read_microdata(path, attributes=[], geography=filled)
    assert people.geography.units[2].tolist() == ["01001", "01003", "44007"]
    path.write_text("code\n101\n44007\n")  # two zeros are no more than the state has
    with pytest.raises(InputError, match="'code', line 2: found '101', expected a code of at"):
        read_microdata(path, attributes=[], geography=filled)
