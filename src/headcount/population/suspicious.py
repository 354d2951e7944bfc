"""Detects what a file may hold that is not what it seems: missing values, totals, counts of people.

Each of these can be meant as it stands, so each has a key with which the config says so; without it
the run stops. Nothing is guessed and nothing is mended in silence. A first line that may be a row
of somebody's values is refused too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from headcount.arrays import Ints, Ints32
from headcount.errors import InputError, Problems
from headcount.geography import Geography
from headcount.geography.geography import GeographySource
from headcount.population.adding_up import (
    equal_families,
    families_within,
    parts_of_names,
    runs_that_add_up,
)
from headcount.population.formats.kinds import kind_of, too_large
from headcount.population.formats.whole import read_whole
from headcount.population.tables import Rows, header_of, refuse_no_file
from headcount.population.text_files import PLAIN, Format, open_text

if TYPE_CHECKING:
    from headcount.population.columns import AttributeColumn

Totals = Literal["refuse", "drop", "keep"]
"""What to do with rows that look like totals."""

TOTAL_ROWS = "rows of totals"
"""Why such rows are left out."""

NO_VALUE = {
    *("", "na", "n/a", "n.a.", "#n/a", "<na>", "nan", "null", "nil", "missing"),
    *(".", "..", "...", "-", "--", "?", "#", "*"),
}
"""Levels that stand for nothing, in any case; not "none" or "unknown", which people mean."""

TOTAL_WORDS = (
    *("total", "totals", "subtotal", "sub-total", "grand total", "all", "sum", "overall"),
    *("ensemble", "gesamt", "insgesamt", "summe", "totaal", "totale", "suma", "celkem", "ogółem"),
)
"""Codes of rows that add up others, in any case."""

_ALL_OF = re.compile(
    r"(all|both|total|alle|beide|tous|toutes|todos|todas|ambos|ambas)( (the|les|los|las))? "
    r"(ages?|age groups?|sex(es)?|genders?|persons?|people|races?|groups?|population|categories"
    r"|levels|geschlechter|altersgruppen|personen|âges|personnes|edades|sexos|personas|idades"
    r"|pessoas)"
)

COUNT_WORDS = (
    *("n", "count", "counts", "freq", "frequency", "people", "persons", "pop", "population"),
    *("number", "weight", "perwt"),
)
"""Names of columns that say for how many people a row stands, in any case."""

COUNT_COLUMNS = tuple(
    spelt for word in COUNT_WORDS for spelt in dict.fromkeys((word, word.title(), word.upper()))
)

FEWEST_OTHERS = 3
"""A row that equals the sum of fewer others than this may well do so by chance."""


def says_total(level: str) -> bool:
    """Whether the name of a level says that it adds up others: "Total", "Both sexes"."""
    text = level.strip().casefold()
    return text in TOTAL_WORDS or _ALL_OF.fullmatch(text) is not None


def looks_missing(levels: Sequence[str]) -> tuple[str, ...]:
    """The levels that look like missing values.

    Words and signs for nothing; negative numbers; and 99, 999, ... where all levels are whole
    numbers and it is more than twice the next largest, as no age after 98 is.
    """
    numbers = sorted(int(level) for level in levels if re.fullmatch(r"\d{1,18}", level))
    only_numbers = len(numbers) == sum(not _says_nothing(level) for level in levels)
    far = only_numbers and len(numbers) > 1 and numbers[-1] > 2 * numbers[-2]
    nines = far and re.fullmatch(r"9{2,}", str(numbers[-1])) is not None
    return tuple(
        level
        for level in levels
        if _says_nothing(level) or (nines and level.isdecimal() and int(level) == numbers[-1])
    )


def _says_nothing(level: str) -> bool:
    text = level.strip().casefold()
    return text in NO_VALUE or re.fullmatch(r"-\d+(\.\d+)?", text) is not None


def refuse_missing_levels(levels: Sequence[str], column: AttributeColumn, rows: Rows) -> None:
    """Refuse levels read from the data that look like missing values, unless said to be real."""
    found = [level for level in looks_missing(levels) if level not in column.real_levels]
    if found:
        listed = ", ".join(f'"{level}"' for level in found)
        raise InputError(
            rows.name,
            place=f"column {column.column!r}, {_first(found, column, rows)}",
            found=f"what looks like a missing value, as a level: {listed}",
            expected='levels that people have (missing = "drop" or "level" of the attribute, with '
            f"missing_values = [{listed}], says what to do with such rows; real_levels = "
            f"[{listed}], or a list of all levels, says that they are real)",
        )


def refuse_total_levels(levels: Sequence[str], column: AttributeColumn, rows: Rows) -> None:
    """Refuse levels read from a table of counts that look like totals of the others."""
    found = [level for level in levels if says_total(level) and level not in column.real_levels]
    if found and len(levels) > len(found):
        listed = ", ".join(f'"{level}"' for level in found)
        raise InputError(
            rows.name,
            place=f"column {column.column!r}, {_first(found, column, rows)}",
            found=f"the name of a total, as a level: {listed}",
            expected=f"levels that people have ({column.column} = [{listed}] under "
            f"[population.exclude] leaves such rows out; real_levels = [{listed}] of the "
            "attribute, or a list of all its levels, says that they are real)",
        )


def _first(levels: Sequence[str], column: AttributeColumn, rows: Rows) -> str:
    values = rows.frame[column.column].cast(pl.String)
    return rows.where([int(values.is_in(list(levels)).arg_true()[0])])[0]


def without_totals(
    rows: Rows, source: GeographySource, totals: Totals, *, may_drop: bool = True
) -> Rows:
    """The rows without those whose code is blank or a word for a total."""
    problems = rows.problems()
    kept = note_totals(rows, source, totals, problems, may_drop=may_drop)
    if totals == "refuse":
        problems.refuse()
    return kept


def note_totals(
    rows: Rows,
    source: GeographySource,
    totals: Totals,
    problems: Problems,
    *,
    may_drop: bool = True,
) -> Rows:
    """The same, and each of these noted."""
    if totals == "keep":
        return rows
    wrong = pl.Series(np.zeros(rows.frame.height, dtype=bool))
    for column in source.columns:
        values = rows.frame[column].cast(pl.String)
        each = values.unique()
        odd = each.filter(blank_or_total(each))
        if odd.is_empty():
            continue
        code = values.fill_null("").str.strip_chars()
        named = blank_or_total(code) & (code != "")
        problems.add(
            (named & ~wrong).arg_true(),
            place=f"column {column!r}",
            found=lambda row, values=values: f"{values[row]!r}, the name of a total",  # type: ignore[misc]
            expected=_with_codes(may_drop=may_drop, may_keep=True),
        )
        problems.add(
            ((code == "") & ~wrong).arg_true(),
            place=f"column {column!r}",
            found=lambda row: "a blank code, as rows of totals have",
            expected=_with_codes(may_drop=may_drop, may_keep=False),
        )
        wrong |= named | (code == "")
    return rows.only(~wrong, without=TOTAL_ROWS)


def blank_or_total(codes: pl.Series) -> pl.Series:
    """Which codes are words for a total, or nothing."""
    word = codes.fill_null("").str.strip_chars().str.to_lowercase()
    named = word.is_in(list(TOTAL_WORDS)) | word.str.contains(r"^(sub)?total\b|\b(sub)?total$")
    return named | (word == "")


def _with_codes(*, may_drop: bool, may_keep: bool) -> str:
    keys = []
    if may_drop:
        keys.append('totals = "drop" leaves such rows out')
    if may_keep:
        keys.append('totals = "keep" says that it is a unit like others')
    told = f" ({', '.join(keys)}, under [population])" if keys else ""
    return f"rows of units, each with its code{told}"


def sums_of_others(counts: Ints, unit: Ints32, geography: Geography) -> Ints:
    """Rows that equal, in every column, the sum of all other rows under the same parent.

    At least three of the others are not empty. A row that stands for a larger unit is found too,
    where it is the only row of its unit: a county with one tract and the people of all others.
    """
    found = np.zeros(len(counts), dtype=bool)
    people = counts.sum(axis=1)
    leaf = geography.leaf
    for above, level in pairwise(geography.levels):
        parent = geography.ancestors(above, of=leaf)[unit]
        own = geography.ancestors(level, of=leaf)[unit]
        units = geography.size(above)
        alone = np.bincount(own, minlength=geography.size(level))[own] == 1
        others = np.bincount(parent[people > 0], minlength=units)[parent] - 1
        # By people first: few rows pass, and only their parents are added up by column.
        sums = np.zeros(units, dtype=np.int64)
        np.add.at(sums, parent, people)
        likely = (
            alone & (people > 0) & (others >= FEWEST_OTHERS) & (sums[parent] - people == people)
        )
        if not likely.any():
            continue
        near = np.flatnonzero(np.isin(parent, parent[likely]))
        at, here = np.unique(parent[near], return_inverse=True)
        by_column = np.zeros((len(at), counts.shape[1]), dtype=np.int64)
        np.add.at(by_column, here, counts[near])
        same = (by_column[here] - counts[near] == counts[near]).all(axis=1)
        found[near[same & likely[near]]] = True
    return np.flatnonzero(found)


def refuse_sums(sums: Ints, leaf: pl.Series, rows: Rows) -> None:
    """Refuse a row that equals the sum of others.

    It cannot be left out instead: whether it is a sum hangs on everybody in it and in the others,
    so that one person more or less would change the counts by all of its people.
    """
    problems = rows.problems()
    problems.add(
        sums.tolist(),
        found=lambda row: (
            f"unit {leaf[row]!r}, the sum of all others under the same parent, in every column"
        ),
        expected="rows of units only (take it out of the file, or leave it out by its code under "
        '[population.exclude], if it is a total; sums = "keep" under [population] says that such '
        "a row is a unit like others)",
    )
    problems.refuse()


def refuse_columns_that_overlap(
    counts: Ints, levels_of: Mapping[str, Sequence[str]], name: str, *, unsaid: bool
) -> None:
    """Refuse columns that count the same people, and families that may, of which nobody has said.

    ``levels_of`` has the levels of each column's cell.
    """
    columns = list(levels_of)
    several = (
        "overlap = 2 under [population] says that a person may be counted twice, and the guarantee "
        "then says that for such a person the loss is twice the stated one"
    )
    for total, parts in runs_that_add_up(counts):
        raise InputError(
            name,
            place=f"column {columns[total]!r}",
            found=f"the sum of {_listed(columns, parts)} in every row: people who are counted "
            "twice",
            expected=f"columns of which everybody is in one (take it out of the cells; {several})",
        )
    if not unsaid:
        return
    keyings = {tuple(map(tuple, levels_of.values())), *parts_of_names(columns)}
    for part, whole in filter(None, (families_within(counts, one) for one in sorted(keyings))):
        raise InputError(
            name,
            place=f"columns {_listed(columns, part.columns)}",
            found=f"at most {_listed(columns, whole.columns)} in every row: part of the same "
            "people, who are then counted twice?",
            expected=f"columns of which everybody is in one (take one family out; {several}; "
            "overlap = 1 says that they are different people)",
        )
    if times := len(equal_families(counts)):
        raise InputError(
            name,
            place="columns",
            found=f"{times} families with the same sum in every row: the same people, counted "
            f"{times} times?",
            expected=f"columns of which everybody is in one (leave families out; {several}; "
            "overlap = 1 says that they are different people)",
        )


def _listed(columns: Sequence[str], some: Sequence[int]) -> str:
    return ", ".join(repr(columns[one]) for one in some[:12])


def counts_of_people(
    rows: Rows, used: Sequence[str], not_counts: Sequence[str]
) -> dict[str, tuple[bool, bool]]:
    """Columns with the name of a count: whether all are whole numbers, and whether all are 1."""
    found, table = {}, rows.frame
    for column in table.columns:
        if column in used or column in not_counts or column not in COUNT_COLUMNS:
            continue
        if not (table[column].dtype.is_numeric() or table[column].dtype == pl.String):
            continue
        text = (
            table[column].cast(pl.String).drop_nulls().str.strip_chars().str.replace(r"\.0*$", "")
        )
        found[column] = (text.str.contains(r"^\d+$").all(), (text == "1").all())
    return found


def refuse_counts_of_people(name: str, found: Mapping[str, tuple[bool, bool]]) -> None:
    """Refuse a column that says how many people a row stands for, where a row is one person."""
    for column, (whole, ones) in found.items():
        if whole and not ones:
            raise InputError(
                name,
                place=f"column {column!r}",
                found="whole numbers, as if a row stood for several people",
                expected=f'one row per person (count = "{column}" under [population] says that '
                f'each row stands for that many people; not_counts = ["{column}"] that the column '
                "counts something else)",
            )


SAMPLE = 1000
"""Rows below the first that are looked at."""

CODE = 3
"""Letters and digits of a code at most."""


def refuse_values_as_names(path: Path, form: Format = PLAIN) -> None:
    """Refuse a first line that may be a person's.

    It may be one if a name has no letter in it, as ages and dates have none; or stands below in its
    own column; or if no name can be told from what stands below it. Files other than text and
    sheets keep names apart from rows.
    """
    refuse_no_file(path)
    kind = kind_of(path)
    if kind == "text":
        text = open_text(path, form, too_large(str(path)), whole=False)
        odd = _value_among(text.header, text.rows_below(SAMPLE))
    elif kind == "excel":
        sheet = read_whole(path, form)
        odd = _value_among(sheet.header, sheet.frame.head(SAMPLE).rows())
    else:
        odd = _without_letters(header_of(path, form))
    if odd is not None:
        raise InputError(
            str(path),
            place="the first line",
            found=f"{odd!r}, which may be a value and no name",
            expected="a name for each column",
        )


def _without_letters(names: Iterable[str]) -> str | None:
    return next((one for one in names if one and not any(map(str.isalpha, one))), None)


def _value_among(names: Sequence[str], below: Sequence[Sequence[str | None]]) -> str | None:
    """The first name that may be a value."""
    own = [name.strip() for name in names]
    if (odd := _without_letters(own)) is not None:
        return odd
    told_apart = False
    for name, values in zip(own, zip_longest(*below), strict=False):  # a row may break off
        found = {value.strip() for value in values if value} - {""}
        if name and name in found:
            return name
        told_apart = told_apart or (bool(name) and _is_unlike(name, found))
    return None if told_apart else next(filter(None, own), None)


def _is_unlike(name: str, values: set[str]) -> bool:
    """Whether a word can hardly be one of these values: they are numbers, or shorter codes."""
    numbers = not any(any(map(str.isalpha, value)) for value in values)
    codes = len(name) > CODE >= max(map(len, values), default=0)
    return bool(values) and (numbers or codes)
