"""Records of the Census Bureau's protected microdata, counted: MDF of 1940, and PPMF.

MDF_PER and MDF_UNIT are read in the layouts that ``_mdf`` writes, those of the 2018 end-to-end test
on the census of 1940. A PPMF (Privacy-Protected Microdata File) of the 2010 demonstration data has
one line per person and a header: TABBLKST, TABBLKCOU, TABTRACTCE, TABBLK (the digits of a block's
code), and of QSEX (1 male, 2 female), QAGE (years), VOTING_AGE (1 under 18, 2 older), CENHISP (1
not Hispanic, 2 Hispanic) and CENRACE (1 to 63) those that the release had. Sources: the columns of
the files of May and September 2020 as github.com/vanriper-ipums/ppmf-tabs and ppmf-tabs-20200917
read them, those of April 2021 as github.com/christopherkenny/ppmf does. Any file with these columns
is read alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.errors import InputError, Problems
from headcount.geography import Geography
from headcount.population.format import Format
from headcount.population.tables import too_large
from headcount.population.text_files import open_text
from headcount.release._matching import Entries, note_strange, unit_numbers
from headcount.release._mdf import GQTYPES, PERSON_FIELDS, UNIT_FIELDS
from headcount.schema import Attribute, Schema, load_schema
from headcount.tabulate.published.codings import find_attribute, level_atoms

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
            found[attribute.name] = (column, _levels(attribute, role, column, str(path)))
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
    unit = unit_numbers(codes, geography.leaf, geography, problems, row)
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


def _levels(attribute: Attribute, role: str, column: str, source: str) -> dict[str, int]:
    """The number of the level of each value of a column."""
    atoms = level_atoms(attribute, role)
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
    note_strange(problems, row, found, f"field {column.name}", "", column, expected)
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
