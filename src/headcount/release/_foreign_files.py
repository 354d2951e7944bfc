"""Readers of other people's releases: tables, tidy or wide, and the Census Bureau's records.

Codes are matched to the units and levels of a truth's domain, and records are counted. MDF_PER and
MDF_UNIT are read in the layouts that ``_mdf`` writes, those of the 2018 end-to-end test on the
census of 1940. A PPMF (Privacy-Protected Microdata File) of the 2010 demonstration data has one
line per person and a header: TABBLKST, TABBLKCOU, TABTRACTCE, TABBLK (the digits of a block's
code), and of QSEX (1 male, 2 female), QAGE (years), VOTING_AGE (1 under 18, 2 older), CENHISP (1
not Hispanic, 2 Hispanic) and CENRACE (1 to 63) those that the release had. Sources: the columns of
the files of May and September 2020 as github.com/vanriper-ipums/ppmf-tabs and ppmf-tabs-20200917
read them, those of April 2021 as github.com/christopherkenny/ppmf does. Any file with these columns
is read alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Floats, Ints
from headcount.errors import InputError, Problems, one_of
from headcount.geography import Geography
from headcount.population.formats.kinds import too_large
from headcount.population.tables import Rows
from headcount.population.text_files import Format, open_text
from headcount.release._mdf import GQTYPES, PERSON_FIELDS, UNIT_FIELDS
from headcount.release.layout import marginal
from headcount.schema import Attribute, Schema, load_schema
from headcount.tabulate.codings import find_attribute, level_atoms


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Entries:
    """The counts of one file.

    where
        level      of its units
        names      its attributes, in the order of the schema
        unit       number of the unit of each count
        cell       number of the cell, of these attributes
        value      the count; NaN where it is left blank
        whole      whether counts are written as whole numbers
        complete   whether what is not there is nobody: of records, not of tables
        row        where each count stands in the file
        words      how the file was understood
    """

    source: str
    level: str
    names: tuple[str, ...]
    unit: Ints
    cell: Ints
    value: Any
    whole: bool
    complete: bool
    row: Ints
    problems: Callable[[], Problems]
    words: str

    def added(self) -> Entries:
        """One count for each unit and cell; a sum of which a part is missing is missing too."""
        one = pl.DataFrame(
            {"unit": self.unit, "cell": self.cell, "value": self.value, "row": self.row}
        )
        both = one.group_by("unit", "cell").agg(pl.col("value").sum(), pl.col("row").min())
        both = both.sort("row", "cell")
        columns: dict[str, Any] = {name: both[name].to_numpy() for name in both.columns}
        return replace(self, **columns)


def _unit_numbers(
    frame: pl.DataFrame, level: str, geography: Geography, problems: Problems, row: Ints
) -> Ints:
    """The number of each row's unit.

    A unit is known by its code; else by the codes above it and its own, as in "county/tract"; else
    by its code with the zeros that it lost at the front.
    """
    own = frame[level].cast(pl.String).str.strip_chars()
    known = geography.units[geography.depth(level)].tolist()
    tries = [own]
    above = geography.levels[1 : geography.depth(level) + 1]
    if len(above) > 1 and set(above) <= set(frame.columns):
        path = frame.select(
            pl.concat_str([pl.col(name).cast(pl.String) for name in above], separator="/")
        )
        tries.append(path.to_series())
    lengths = {len(code) for code in known}
    if len(lengths) == 1:
        tries.append(own.str.zfill(lengths.pop()))
    numbers = pl.DataFrame({"code": known}).with_row_index("number")
    first = None
    for codes in tries:
        found = codes.to_frame("code").join(numbers, on="code", how="left", maintain_order="left")[
            "number"
        ]
        if not found.null_count():
            return found.to_numpy().astype(np.int64)
        first = found if first is None else first
    assert first is not None
    expected = f"one of the {len(known):,} units of level {level!r}"
    _note_strange(problems, row, first, f"column {level!r}", "unit", own, expected)
    return first.fill_null(0).to_numpy().astype(np.int64)


def _level_numbers(
    column: pl.Series,
    attribute: Attribute,
    values: Mapping[str, str],
    problems: Problems,
    row: Ints,
) -> Ints:
    """The number of each row's level of an attribute, after the map of its values."""
    text = column.cast(pl.String).str.strip_chars()
    numbers = {level: number for number, level in enumerate(attribute.levels)}
    numbers |= {value: numbers[level] for value, level in values.items() if level in numbers}
    found = text.replace_strict(list(numbers), list(numbers.values()), default=None)
    expected = f"one of {', '.join(map(repr, numbers))}"
    _note_strange(problems, row, found, f"column {attribute.name!r}", "level", text, expected)
    return found.fill_null(0).to_numpy().astype(np.int64)


def _note_strange(
    problems: Problems,
    row: Ints,
    number: pl.Series,
    place: str,
    what: str,
    written: pl.Series,
    expected: str,
) -> None:
    """Note the rows without a number, each with what is written there."""
    bad = number.is_null().arg_true().to_numpy()
    at = dict(zip(row[bad].tolist(), bad.tolist(), strict=True))
    problems.add(
        row[bad],
        place=place,
        found=lambda one: f"{what} {written[at[one]]!r}".lstrip(),
        expected=expected,
    )


PERSON, UNIT = "MPD1940", "MUD1940"
PLACE = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")
WIDTHS = (2, 3, 6, 4)
TRAITS = ("QSEX", "QAGE", "VOTING_AGE", "CENHISP", "CENRACE")


def is_mdf(path: Path) -> bool:
    """Whether a file has lines of the MDF of 1940."""
    if not path.is_file() or path.suffix.lower() not in (".txt", ".csv", ""):
        return False
    _, first = _begin(path)
    return first in (PERSON, UNIT)


def _begin(path: Path) -> tuple[int, str]:
    """How many lines of comments a file begins with, and the first field after them."""
    with path.open("rb") as file:
        for number, line in enumerate(file):
            if not line.startswith(b"#"):
                return number, line.split(b"|", 1)[0].decode("ascii", errors="replace")
    return 0, ""


def read_mdf(paths: Sequence[Path], schema: Schema, geography: Geography) -> Entries:
    """People counted by place and attributes; without MDF_UNIT not by the type of quarters."""
    wanted = load_schema("e2e-2018")
    if schema.attributes != wanted.attributes:
        raise InputError(
            str(paths[0]),
            found=f"an MDF of 1940, and a truth by {list(schema.names)}",
            expected="a truth with the attributes and levels of schema 'e2e-2018'",
        )
    people = [path for path in paths if _begin(path)[1] == PERSON]
    units = [path for path in paths if _begin(path)[1] == UNIT]
    if len(people) != 1 or len(units) > 1:
        raise InputError(
            str(paths[0]),
            found=f"{len(people)} files of people and {len(units)} of units",
            expected="one file of people (MPD1940), and one of units (MUD1940) or none",
        )
    (path,) = people
    names = wanted.names if units else wanted.names[1:]
    traits = ["STATE", "COUNTY", "ENUMDIST", "RTYPE", "QAGE", "CENHISP", "CENRACE"]
    lines = _scan(path, PERSON_FIELDS)
    if units:
        kinds = _scan(units[0], UNIT_FIELDS).select("EUID", "GQTYPE")
        lines = lines.join(kinds, on="EUID", how="left")
        traits.append("GQTYPE")
    counted = _alike(path, lines, traits)
    problems = Problems(str(path), lambda rows: [f"line {row + 1}" for row in rows])
    row = counted["row"].to_numpy().astype(np.int64)
    codes = counted.select(pl.concat_str("STATE", "COUNTY", "ENUMDIST").alias(geography.leaf))
    unit = _unit_numbers(codes, geography.leaf, geography, problems, row)
    fields = {
        "voting_age": ("QAGE", {"17": 0, "18": 1}),
        "hispanic": ("CENHISP", {"1": 0, "2": 1}),
        "race": ("CENRACE", {str(race + 1): race for race in range(6)}),
    }
    cell = np.zeros(len(row), dtype=np.int64)
    for name in names:
        if name == wanted.names[0]:
            known = {str(gqtype): number for number, gqtype in enumerate(GQTYPES)}
            number = _coded(counted["GQTYPE"], known, problems, row)
        else:
            number = _coded(counted[fields[name][0]], fields[name][1], problems, row)
        cell = cell * schema.attribute(name).size + number
    problems.refuse()
    words = "people of the MDF of 1940" + ("" if units else ", without MDF_UNIT: no quarters")
    return _entries(path, counted, geography.leaf, names, unit, cell, row, problems, words)


def is_ppmf(header: Sequence[str]) -> bool:
    """Whether a file has the columns of a PPMF of people."""
    return {*PLACE} <= {name.upper() for name in header} and bool(
        {*TRAITS} & {name.upper() for name in header}
    )


def read_ppmf(
    path: Path, header: Sequence[str], schema: Schema, geography: Geography, form: Format
) -> Entries:
    """People counted by block and the attributes that both the file and the truth have."""
    upper = {name.upper(): name for name in header}
    lines = (
        open_text(path, form, too_large(str(path)))
        .scan()
        .rename({name: name.upper() for name in header})
    )
    found = {}
    for role, columns in (
        ("sex", ("QSEX",)),
        ("age", ("QAGE", "VOTING_AGE")),
        ("race", ("CENRACE",)),
        ("hispanic", ("CENHISP",)),
    ):
        attribute = find_attribute(schema, role)
        column = next((one for one in columns if one in upper), None)
        if attribute is not None and column is not None:
            found[attribute.name] = (column, _levels(schema, attribute, role, column, str(path)))
    names = tuple(name for name in schema.names if name in found)
    used = [*PLACE, *(found[name][0] for name in names)]
    counted = _alike(path, lines.with_row_index("row"), used)
    text = open_text(path, form, too_large(str(path)))
    problems = Problems(str(path), lambda rows: text.lines(rows))
    row = counted["row"].to_numpy().astype(np.int64)
    parts = [
        pl.col(name).cast(pl.String).str.strip_chars().str.zfill(width)
        for name, width in zip(PLACE, WIDTHS, strict=True)
    ]
    codes = counted.select(pl.concat_str(parts).alias(geography.leaf))
    unit = _unit_numbers(codes, geography.leaf, geography, problems, row)
    cell = np.zeros(len(row), dtype=np.int64)
    for name in names:
        column, known = found[name]
        plain = counted[column].cast(pl.String).str.strip_chars().str.strip_chars_start("0")
        plain = plain.replace("", "0")
        number = _coded(plain, known, problems, row)
        cell = cell * schema.attribute(name).size + number
    problems.refuse()
    words = f"people of a PPMF by {', '.join(names) or 'no attribute'}"
    return _entries(path, counted, geography.leaf, names, unit, cell, row, problems, words)


def _levels(
    schema: Schema, attribute: Attribute, role: str, column: str, source: str
) -> dict[str, int]:
    """The number of the level of each value of a column."""
    atoms = level_atoms(schema, attribute, role)
    if isinstance(atoms, str):
        raise InputError(
            source,
            place=f"column {column!r}",
            found=f"a truth whose {atoms}",
            expected="such levels",
        )
    known: dict[str, dict[str, object]] = {
        "QSEX": {"1": "male", "2": "female"},
        "CENHISP": {"1": "not_hispanic", "2": "hispanic"},
        "QAGE": {str(age): age for age in range(116)},
        "CENRACE": {str(race): race for race in range(1, 64)},
        "VOTING_AGE": {"1": 17, "2": 18},
    }
    numbers = {
        value: number
        for value, atom in known[column].items()
        for number, held in enumerate(atoms)
        if atom in held
    }
    words = [str(word) for word in known[column].values()]
    if column in ("QSEX", "CENHISP") and len(numbers) < len(words):
        raise InputError(
            source,
            place=f"column {column!r}",
            found=f"a truth by {', '.join(map(repr, attribute.levels))} of {attribute.name!r}",
            expected=f"levels called {' and '.join(map(repr, words))}",
        )
    if column == "VOTING_AGE" and len(attribute.levels) != 2:
        raise InputError(
            source,
            place=f"column {column!r}",
            found=f"two ages, and a truth by {len(attribute.levels)} levels of {attribute.name!r}",
            expected="a truth by two: under 18, and 18 and over",
        )
    return numbers


def _scan(path: Path, fields: Sequence[str]) -> pl.LazyFrame:
    """The lines of a file between bars, all text, with their number in the file."""
    comments, _ = _begin(path)
    lines = pl.scan_csv(
        path,
        separator="|",
        has_header=False,
        skip_rows=comments,
        new_columns=list(fields),
        infer_schema=False,
        quote_char=None,
        glob=False,
    )
    return lines.with_row_index("row", offset=comments)


def _alike(path: Path, lines: pl.LazyFrame, columns: Sequence[str]) -> pl.DataFrame:
    """How many lines are alike in some columns, and the first of them."""
    # All columns are parsed: only then does polars refuse lines with more fields.
    blank = pl.all_horizontal(pl.all().is_null()).alias("\0blank")
    counted = (
        lines.with_columns(blank)
        .group_by(columns)
        .agg(pl.col("row").min(), pl.len().alias("n"), pl.col("\0blank").any())
    )
    try:
        return counted.collect(engine="streaming").drop("\0blank").sort("row")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(
            str(path),
            found=f"what cannot be read: {str(error).splitlines()[0]}",
            expected="lines of UTF-8 with as many fields as the first",
        ) from None


def _coded(column: pl.Series, known: dict[str, int], problems: Problems, row: Ints) -> Ints:
    found = column.replace_strict(list(known), list(known.values()), default=None)
    expected = f"one of {', '.join(list(known)[:12])}{' ...' if len(known) > 12 else ''}"
    _note_strange(problems, row, found, f"field {column.name}", "", column, expected)
    return found.fill_null(0).to_numpy().astype(np.int64)


def _entries(
    path: Path,
    counted: pl.DataFrame,
    level: str,
    names: tuple[str, ...],
    unit: Ints,
    cell: Ints,
    row: Ints,
    problems: Problems,
    words: str,
) -> Entries:
    return Entries(
        source=str(path),
        level=level,
        names=names,
        unit=unit,
        cell=cell,
        value=counted["n"].to_numpy().astype(np.float64),
        whole=True,
        complete=True,
        row=row,
        problems=lambda: problems,
        words=words,
    ).added()


COUNT_NAMES = ("n", "count", "value", "people")
"""What a column of counts is called, unless a config says otherwise."""

ValueMaps = Mapping[str, Mapping[str, str]]


def read_counts(
    rows: Rows, schema: Schema, geography: Geography, count: str, values: ValueMaps
) -> Entries:
    """The counts of a table: a column for each cell, a row for each count, or one for each person.

    Attributes that the table does not have are added up.
    """
    header = rows.frame.columns
    level = _level(rows, geography)
    names = tuple(name for name in schema.names if name in header)
    counts = count or next(
        (name for name in COUNT_NAMES if name in header and name not in schema.names), ""
    )
    if count and count not in header:
        raise InputError(
            rows.name, place="release.count", found=f"no column {count!r}", expected=one_of(header)
        )
    wide = () if names else _cells(schema, header)
    if not names and wide is not None and not counts:
        return _wide(rows, schema, geography, level, wide)
    if not counts and not names:
        raise InputError(
            rows.name,
            found=f"columns {one_of(header).removeprefix('one of ')}",
            expected=f"a column of counts (one of {', '.join(COUNT_NAMES)}, or [release] count), "
            f"attributes ({', '.join(schema.names) or 'none'}), or cells such as "
            f"{schema.cell_names[0]!r}; [release] columns says what a column is",
        )
    return _tidy(rows, schema, geography, level, names, counts, values)


def _level(rows: Rows, geography: Geography) -> str:
    """The lowest level that has a column."""
    found = [level for level in geography.levels if level in rows.frame.columns]
    if not found:
        raise InputError(
            rows.name,
            found=f"columns {one_of(rows.frame.columns).removeprefix('one of ')}",
            expected=f"a column with codes of units, named {one_of(geography.levels)} "
            "([release] columns says what a column is)",
        )
    return found[-1]


def _cells(schema: Schema, header: list[str]) -> tuple[str, ...] | None:
    """The attributes whose cells the columns are: the most; None if the columns are no cells."""
    for size in range(len(schema.names), -1, -1):
        for names in combinations(schema.names, size):
            part = marginal(schema, names)
            cells = [name for name, ok in zip(part.cell_names, part.possible, strict=True) if ok]
            if set(cells) <= set(header):
                return names
    return schema.names if set(schema.cell_names) & set(header) else None


def _wide(
    rows: Rows, schema: Schema, geography: Geography, level: str, names: tuple[str, ...]
) -> Entries:
    part, frame = marginal(schema, names), rows.frame
    cells = [number for number, name in enumerate(part.cell_names) if name in frame.columns]
    row = np.arange(frame.height)
    problems = rows.problems()
    unit = _unit_numbers(frame, level, geography, problems, row)
    columns = [_numbers(frame[part.cell_names[number]], rows, problems, row) for number in cells]
    problems.refuse()
    return Entries(
        source=rows.name,
        level=level,
        names=names,
        unit=np.repeat(unit, len(cells)),
        cell=np.tile(np.array(cells, dtype=np.int64), frame.height),
        value=np.column_stack([values for values, _ in columns]).ravel(),
        whole=all(whole for _, whole in columns),
        complete=False,
        row=np.repeat(row, len(cells)),
        problems=rows.problems,
        words=f"a wide table of each {level}, {len(cells):,} cells",
    )


def _tidy(
    rows: Rows,
    schema: Schema,
    geography: Geography,
    level: str,
    names: tuple[str, ...],
    count: str,
    values: ValueMaps,
) -> Entries:
    frame, row, problems = rows.frame, np.arange(rows.frame.height), rows.problems()
    people = not count
    keys = [*(level for level in geography.levels if level in frame.columns), *names]
    if people:  # people who are alike are counted, not listed
        frame, row = _counted(frame, keys)
        count = "n"
    else:
        problems.add(
            (~frame.select(pl.struct(keys).is_first_distinct()).to_series()).arg_true(),
            found=lambda at: "the unit and levels of an earlier row",
            expected="each once",
        )
    unit = _unit_numbers(frame, level, geography, problems, row)
    part = marginal(schema, names)
    cell = np.zeros(len(row), dtype=np.int64)
    for attribute in part.attributes:
        mapped = values.get(attribute.name, {})
        number = _level_numbers(frame[attribute.name], attribute, mapped, problems, row)
        cell = cell * attribute.size + number
    value, whole = _numbers(frame[count], rows, problems, row)
    problems.refuse()
    by = f"by {', '.join(names)}" if names else "in all"
    return Entries(
        source=rows.name,
        level=level,
        names=names,
        unit=unit,
        cell=cell,
        value=value,
        whole=whole,
        complete=people,
        row=row,
        problems=rows.problems,
        words=f"a row for each {'person' if people else 'count'} of each {level}, {by}",
    ).added()


def _counted(frame: pl.DataFrame, columns: list[str]) -> tuple[pl.DataFrame, Ints]:
    """How many rows are alike, and the first of them."""
    alike = (
        frame.select(columns)
        .with_row_index("\0row")
        .group_by(columns, maintain_order=True)
        .agg(pl.col("\0row").first(), pl.len().alias("n"))
    )
    return alike.drop("\0row"), alike["\0row"].to_numpy().astype(np.int64)


def _numbers(column: pl.Series, rows: Rows, problems: Problems, row: Ints) -> tuple[Floats, bool]:
    """Counts, NaN where there is none, and whether they are written as whole numbers."""
    if column.dtype.is_numeric():
        numbers, text = column, column.cast(pl.String)
    else:
        text = column.cast(pl.String).str.strip_chars()
        numbers = rows.form.plain(text).cast(pl.Float64, strict=False)
    exact = numbers.cast(pl.Float64)
    blank = text.is_null() | (text == "")
    wrong = ~blank & (exact.is_null() | exact.is_infinite().fill_null(False))
    bad = wrong.arg_true().to_numpy()
    place = dict(zip(row[bad].tolist(), bad.tolist(), strict=True))
    problems.add(
        row[bad],
        place=f"column {column.name!r}",
        found=lambda at: repr(text[place[at]]),
        expected="a number, or nothing where a count is missing",
    )
    whole = column.dtype.is_integer() or not bool(text.str.contains(r"[.eE]").any())
    return exact.fill_null(np.nan).to_numpy(), whole
