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
from headcount.domain import CountsOf
from headcount.errors import InputError, Problems, one_of
from headcount.geography import Geography
from headcount.population.formats.kinds import too_large
from headcount.population.tables import Rows
from headcount.population.text_files import TextFile, open_text
from headcount.release._mdf import GQTYPES, PERSON_FIELDS, UNIT_FIELDS
from headcount.release.layout import Elsewhere, ForeignFiles, marginal
from headcount.schema import Attribute, Schema, load_schema
from headcount.tabulate.codings import find_attribute, level_atoms, years


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


def unit_numbers(
    frame: pl.DataFrame,
    level: str,
    geography: Geography,
    problems: Problems,
    row: Ints,
    elsewhere: Elsewhere = "refuse",
) -> Ints:
    """The number of each row's unit; -1 of one that is not there, if such are to be left aside.

    A unit is known by its code; else by the codes above it and its own, as in "county/tract"; else
    by its code with the zeros that it lost at the front.
    """
    own = plain_codes(frame[level])
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
    best = None
    for codes in tries:
        found = codes.to_frame("code").join(numbers, on="code", how="left", maintain_order="left")[
            "number"
        ]
        best = found if best is None or found.null_count() < best.null_count() else best
    assert best is not None
    if refused := elsewhere == "refuse" or best.null_count() == len(best):
        some = ' ([release] elsewhere = "leave" leaves other places aside)'
        expected = (
            f"one of the {len(known):,} units of level {level!r}, such as {known[0]!r}"
            f"{'' if best.null_count() == len(best) else some}"
        )
        _note_strange(problems, row, best, f"column {level!r}", "unit", own, expected)
    return best.cast(pl.Int64).fill_null(0 if refused else -1).to_numpy().astype(np.int64)


def plain_codes(column: pl.Series) -> pl.Series:
    """Codes as text, whole numbers that were taken for fractions as they were: 1000.0 is 1000."""
    return column.cast(pl.String).str.strip_chars().str.replace(r"^(\d+)\.0+$", "${1}")


def _level_numbers(
    column: pl.Series,
    attribute: Attribute,
    values: Mapping[str, str],
    problems: Problems,
    row: Ints,
) -> Ints:
    """The number of each row's level of an attribute, after the map of its values."""
    text = plain_codes(column)
    numbers = {level: number for number, level in enumerate(attribute.levels)}
    numbers |= _numbers_of(attribute, values)
    found = text.replace_strict(list(numbers), list(numbers.values()), default=None)
    expected = (
        f"one of {', '.join(map(repr, numbers))} ([release] values says what others stand for)"
    )
    _note_strange(problems, row, found, f"column {attribute.name!r}", "level", text, expected)
    return found.fill_null(0).to_numpy().astype(np.int64)


def _numbers_of(attribute: Attribute, values: Mapping[str, str]) -> dict[str, int]:
    """The number of the level that each value stands for, as ``[release] values`` says."""
    return {value: attribute.index(level) for value, level in values.items()}


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


_PERSON, _UNIT = "MPD1940", "MUD1940"
_PLACE = {
    "state": ("TABBLKST",),
    "county": ("TABBLKCOU",),
    "tract": ("TABTRACTCE", "TABTRACT"),
    "block": ("TABBLK",),
}
"""Columns of a PPMF as its editions spell them."""
_WIDTHS = (2, 3, 6, 4)
_QUARTERS = (
    *("household", "correctional", "juvenile", "nursing", "other_institutional"),
    *("college", "military", "other_noninstitutional"),
)
TRAITS: dict[str, tuple[str, dict[str, frozenset[Any]]]] = {
    "QSEX": ("sex", {"1": frozenset({"male"}), "2": frozenset({"female"})}),
    "QAGE": ("age", {str(age): frozenset({age}) for age in range(116)}),
    "VOTING_AGE": ("age", {"1": years("0-17") or frozenset(), "2": frozenset(range(18, 116))}),
    "CENHISP": ("hispanic", {"1": frozenset({"not_hispanic"}), "2": frozenset({"hispanic"})}),
    "CENRACE": ("race", {str(race): frozenset({race}) for race in range(1, 64)}),
    "GQTYPE_PL": ("hhgq", {str(n): frozenset({one}) for n, one in enumerate(_QUARTERS)}),
    "HH_STATUS": ("h1", {"1": frozenset({"occupied"}), "2": frozenset({"vacant"})}),
}
"""Columns of a PPMF: what each says, and for whom its values stand."""
MEANINGS = {
    "QSEX": "1 (male) and 2 (female)",
    "QAGE": "0 to 115 (years)",
    "VOTING_AGE": "1 (under 18) and 2 (18 and over)",
    "CENHISP": "1 (not Hispanic) and 2 (Hispanic)",
    "CENRACE": "1 to 63 (1 White, 2 Black, 3 American Indian, 4 Asian, 5 Pacific Islander, 6 some "
    "other race, then combinations)",
    "GQTYPE_PL": "0 (household) to 7 (kinds of group quarters)",
    "HH_STATUS": "1 (occupied) and 2 (vacant)",
}
_OF_UNITS = ("HH_STATUS", "VACS", "TEN", "HHSIZE", "FINAL_POP")
"""Columns that files of units alone have."""


def is_mdf(path: Path) -> bool:
    """Whether a file has lines of the MDF of 1940."""
    if not path.is_file() or path.suffix.lower() not in (".txt", ".csv", ""):
        return False
    _, first = _begin(path)
    return first in (_PERSON, _UNIT)


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
    people = [path for path in paths if _begin(path)[1] == _PERSON]
    units = [path for path in paths if _begin(path)[1] == _UNIT]
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
    counted = alike(path, lines, traits)
    problems = Problems(str(path), lambda rows: [f"line {row + 1}" for row in rows])
    row = counted["row"].to_numpy().astype(np.int64)
    codes = counted.select(pl.concat_str("STATE", "COUNTY", "ENUMDIST").alias(geography.leaf))
    unit = unit_numbers(codes, geography.leaf, geography, problems, row)
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


def place_columns(header: Sequence[str]) -> tuple[str, ...]:
    """The columns of state, county, tract and block, if a file has them as those of the Bureau."""
    upper = {name.upper(): name for name in header}
    found = [next((upper[one] for one in _PLACE[part] if one in upper), "") for part in _PLACE]
    return tuple(found) if all(found) else ()


def is_ppmf(header: Sequence[str]) -> bool:
    """Whether a file has the columns of a PPMF, of people or of housing units."""
    upper = {name.upper() for name in header}
    return bool(place_columns(header)) and bool({*TRAITS, *_OF_UNITS} & upper)


def read_ppmf(
    path: Path,
    header: Sequence[str],
    schema: Schema,
    geography: Geography,
    how: ForeignFiles,
    counted_of: CountsOf = CountsOf.PEOPLE,
) -> Entries:
    """People, or housing units, by place and the attributes that both file and truth have."""
    text = ppmf_text(path, how, header, counted_of)
    columns = _trait_columns(header, schema, how)
    names = tuple(name for name in schema.names if name in columns)
    known = {name: known_values(schema, name, columns[name], how, str(path)) for name in names}
    counted = alike(path, text, [*place_columns(header), *(columns[name] for name in names)])
    counted = counted.with_columns(block_codes(counted, header, geography, str(path)))
    problems = Problems(str(path), lambda rows: _text_of(path, how).lines(rows))
    row = counted["row"].to_numpy().astype(np.int64)
    unit = unit_numbers(counted, geography.leaf, geography, problems, row, how.elsewhere)
    counted, row, unit, away = _here(counted, row, unit, "n")
    cell = np.zeros(len(row), dtype=np.int64)
    for name in names:
        number = _coded(plain_numbers(counted[columns[name]]), known[name], problems, row)
        cell = cell * schema.attribute(name).size + number
    problems.refuse()
    words = f"{counted_of} of a PPMF by {', '.join(names) or 'no attribute'}{away}"
    return _entries(path, counted, geography.leaf, names, unit, cell, row, problems, words)


def _text_of(path: Path, how: ForeignFiles) -> TextFile:
    """The text of a PPMF."""
    return open_text(path, how.format, too_large(str(path)))


def ppmf_text(
    path: Path, how: ForeignFiles, header: Sequence[str], counted: CountsOf = CountsOf.PEOPLE
) -> pl.LazyFrame:
    """The lines of a PPMF with their number; of one of units those of housing units alone."""
    upper = {name.upper(): name for name in header}
    of_people, wanted = not {*_OF_UNITS} & {*upper}, counted is CountsOf.PEOPLE
    if of_people != wanted:
        raise InputError(
            str(path),
            found=f"a PPMF of {'people' if of_people else 'housing units'}, and a truth of "
            f"{counted}",
            expected=f"a file or a truth of the other kind: {_ASK_UNITS}",
        )
    lines = _text_of(path, how).scan().with_row_index("row")
    if of_people or "RTYPE" not in upper:
        return lines
    kind = pl.col(upper["RTYPE"]).cast(pl.String).str.strip_chars().str.strip_chars_start("0")
    return lines.filter(kind.str.replace(r"\.0+$", "") != _FACILITY)


_ASK_UNITS = 'a truth of housing units has kind = "h1-2020"'
_FACILITY = "4"
"""The record type of group quarters in a file of units: they are no housing units."""


def _trait_columns(header: Sequence[str], schema: Schema, how: ForeignFiles) -> dict[str, str]:
    """The column of each attribute of a truth, by [release] columns or by what it plays."""
    upper = {name.upper(): name for name in header}
    said, found = dict(how.columns), dict[str, str]()
    for column in TRAITS:
        attribute, given = trait_attribute(schema, column), upper.get(column)
        if attribute is not None and given is not None and given not in said:
            found.setdefault(attribute.name, given)
    return found | {name: column for column, name in said.items() if name in schema.names}


def trait_attribute(schema: Schema, column: str) -> Attribute | None:
    """The attribute of a truth that a column of a PPMF is about: by its role, or by its name."""
    plain = column.replace("_", "").lower()
    named = (one for one in schema.attributes if one.name.replace("_", "").lower() == plain)
    return find_attribute(schema, TRAITS[column][0]) or next(named, None)


def block_codes(
    lines: pl.DataFrame, header: Sequence[str], geography: Geography, source: str
) -> pl.Series:
    """The code of each line's place, of the lowest level of a truth: a block, or what it is in."""
    codes = geography.units[-1].tolist()
    lengths = {len(code) for code in codes}
    digits = all(code.isascii() and code.isdigit() for code in codes)
    whole = next((one for one in _CUTS if lengths <= {one - 1, one}), 0) if digits else 0
    if not whole:
        raise InputError(
            source,
            found=f"a PPMF, and a truth whose {geography.leaf} is called {codes[0]!r}",
            expected="codes of blocks (15 digits: state, county, tract, block), or of block "
            "groups (12), tracts (11), counties (5) or states (2)",
        )
    columns = zip(place_columns(header), _WIDTHS, strict=True)
    parts = [plain_codes(lines[name]).str.zfill(width).alias(name) for name, width in columns]
    code = pl.select(pl.concat_str(parts)).to_series().str.slice(0, whole)
    if whole not in lengths:  # all codes of the truth lost their zero
        code = code.str.strip_prefix("0")
    return code.alias(geography.leaf)


_CUTS = (2, 5, 11, 12, 15)


def plain_numbers(column: pl.Series) -> pl.Series:
    """Codes without zeros at the front: 07 is 7, and 00 is 0."""
    return plain_codes(column).str.strip_chars_start("0").replace("", "0")


def known_values(
    schema: Schema, name: str, column: str, how: ForeignFiles, source: str
) -> dict[str, int]:
    """The number of the level that each value of a column of a PPMF stands for."""
    attribute = schema.attribute(name)
    if said := how.values.get(name):
        return _numbers_of(
            attribute, {value.lstrip("0") or "0": one for value, one in said.items()}
        )
    if column.upper() not in TRAITS:
        return {level: number for number, level in enumerate(attribute.levels)}
    role, meant = TRAITS[column.upper()]
    whole = role == "race" and attribute.size == len(meant)  # listed in the order of the codes
    atoms = tuple(meant.values()) if whole else level_atoms(schema, attribute, role)
    why = atoms if isinstance(atoms, str) else ""
    held = () if isinstance(atoms, str) else atoms
    numbers = {
        value: number
        for value, means in meant.items()
        for number, level in enumerate(held)
        if means <= level
    }
    if len(meant) < 3 and len(numbers) < len(meant):  # each stands for half of the people
        why = why or f"{name} has the levels {', '.join(map(repr, attribute.levels))}"
    if why or not numbers:
        shown = ", ".join(f'"{value}" = ...' for value in [*meant][:2])
        raise InputError(
            source,
            place=f"column {column!r}",
            found=f"a truth whose {why or f'{name} has other levels'}",
            expected=f"[release] values = {{ {name} = {{ {shown} }} }}, which says for each of "
            f"{MEANINGS[column.upper()]} the level of {name!r} (headcount evaluate proposes it), "
            f'or columns = {{ {column} = "" }} to add it up',
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


def alike(path: Path, lines: pl.LazyFrame, columns: Sequence[str]) -> pl.DataFrame:
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


def _here(
    frame: pl.DataFrame, row: Ints, unit: Ints, count: str = ""
) -> tuple[pl.DataFrame, Ints, Ints, str]:
    """The rows of places that are there, and how many are left aside."""
    there = unit >= 0
    if there.all():
        return frame, row, unit, ""
    gone = frame.filter(pl.Series(~there))
    number = int(gone[count].sum()) if count else gone.height
    away = f"; {number:,} of other places are left aside"
    return frame.filter(pl.Series(there)), row[there], unit[there], away


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


def read_counts(
    rows: Rows,
    schema: Schema,
    geography: Geography,
    how: ForeignFiles,
    *,
    added_up: bool = False,
) -> Entries:
    """The counts of a table: a column for each cell, a row for each count, or one for each person.

    Attributes that the table does not have are added up; with ``added_up`` also those that it has
    in columns that are not read.
    """
    header, count = rows.frame.columns, how.count
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
        return _wide(rows, schema, geography, level, wide, how)
    if not counts and not names and not added_up:
        raise InputError(
            rows.name,
            found=f"columns {one_of(header).removeprefix('one of ')}",
            expected=f"a column of counts (one of {', '.join(COUNT_NAMES)}, or [release] count), "
            f"attributes ({', '.join(schema.names) or 'none'}), or cells such as "
            f"{schema.cell_names[0]!r}; [release] columns says what a column is",
        )
    return _tidy(rows, schema, geography, level, names, counts, how, added_up)


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
    rows: Rows,
    schema: Schema,
    geography: Geography,
    level: str,
    names: tuple[str, ...],
    how: ForeignFiles,
) -> Entries:
    part, frame = marginal(schema, names), rows.frame
    cells = [number for number, name in enumerate(part.cell_names) if name in frame.columns]
    row = np.arange(frame.height)
    problems = rows.problems()
    unit = unit_numbers(frame, level, geography, problems, row, how.elsewhere)
    frame, row, unit, away = _here(frame, row, unit)
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
        words=f"a wide table of each {level}, {len(cells):,} cells{away}",
    )


def _tidy(
    rows: Rows,
    schema: Schema,
    geography: Geography,
    level: str,
    names: tuple[str, ...],
    count: str,
    how: ForeignFiles,
    added_up: bool,
) -> Entries:
    frame, row, problems = rows.frame, np.arange(rows.frame.height), rows.problems()
    people = not count
    keys = [*(level for level in geography.levels if level in frame.columns), *names]
    if people:  # people who are alike are counted, not listed
        frame, row = _counted(frame, keys)
        count = "n"
    elif not added_up:
        problems.add(
            (~frame.select(pl.struct(keys).is_first_distinct()).to_series()).arg_true(),
            found=lambda at: "the unit and levels of an earlier row",
            expected="each once",
        )
    unit = unit_numbers(frame, level, geography, problems, row, how.elsewhere)
    frame, row, unit, away = _here(frame, row, unit, "n" if people else "")
    part = marginal(schema, names)
    cell = np.zeros(len(row), dtype=np.int64)
    for attribute in part.attributes:
        mapped = how.values.get(attribute.name, {})
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
        words=f"a row for each {'person' if people else 'count'} of each {level}, {by}{away}",
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
