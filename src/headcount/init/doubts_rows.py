"""Doubts about rows that are taken for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from headcount.init.attributes import NUMBERED, is_of_people, single_years
from headcount.init.counts import table_of
from headcount.init.doubts import as_numbers, is_row_number, listed, refuse, says, used_columns
from headcount.init.look import FIRST, SeenColumn, SeenFile
from headcount.init.places import total_rows
from headcount.init.sums import sums_of_columns
from headcount.init.words import (
    DWELLING,
    HEAD,
    OTHER_UNITS,
    PERSON_ID,
    PERSONAL,
    POPULATION,
    RELATION,
    WEIGHT,
)
from headcount.schema.schema import looks_like_size

if TYPE_CHECKING:
    from headcount.init.decide import Draft
    from headcount.init.told import Told

MANY = 30
"""Rows that do not all stand in a file equally often by chance."""

ADULT = 15
"""Years of age of the youngest head of a household."""

MOST_EDITIONS = 12
"""Editions of the same people in one file that are looked for."""

EXPECTED = 10
"""Pairs of equal people that are expected, before it tells something that there is none."""

FULL, FEWEST_CELLS = 0.5, 4
"""The share of all combinations that the rows of a cross table have at least, and how many."""

MOST_CELLS, FEW_ROWS = 100_000, 1000
"""Cells of a table whose counts are all small, and rows that are looked at first."""


def refuse_rows(made: Draft, every: SeenFile, told: Told) -> None:
    """Refuse rows that may be something else than people, or people that may be left out."""
    _refuse_people_without_place(made, every)
    if told.kind is not None or told.attributes is not None:
        return
    seen = made.look
    _refuse_line_of_names(made, seen)
    others = [one for one in seen.columns if one.name not in used_columns(made)]
    for one in seen.columns:
        if one.name in made.places.columns or not one.numeric or one.number < 2:
            continue
        if WEIGHT.search(one.says) or (one in others and _looks_like_weight(one)):
            refuse(
                seen,
                place=f"column {one.name!r}",
                found="what may be weights: then this is a sample, and counts are of respondents, "
                "not of the people they stand for",
                expected="--kind people, to protect the respondents; no method here protects "
                "weighted counts",
            )
    _refuse_tables(made, every)
    known = [one for one in made.attributes if is_of_people(one)]
    if not known:
        refuse(
            seen,
            place="rows",
            found="no column that says something of a person, such as sex or age: are rows people?",
            expected="--kind people, if each row is one person; --count COLUMN, if it stands for "
            "several",
        )


def _looks_like_weight(column: SeenColumn) -> bool:
    """Decimals above 1 whose mean is far from 1, with no name that says what they measure."""
    named = (OTHER_UNITS, _AMOUNT, POPULATION)
    if not column.decimal or any(one.search(column.says) for one in named):
        return False
    numbers = column.form.plain(column.present).cast(pl.Float64, strict=False).drop_nulls()
    return bool(len(numbers)) and float(numbers.min()) > 0 and float(numbers.mean()) > 2  # type: ignore[arg-type]


def _refuse_line_of_names(made: Draft, seen: SeenFile) -> None:
    """Refuse a first row of which no value stands in any other: it may say what columns are."""
    names = [*made.places.columns, *(one.column for one in made.attributes)]
    frame = seen.frame.select(names)
    if frame.height <= MANY or len(names) < 3 or frame.row(0).count(None):
        return
    if not any((frame[name] == frame[name][0]).sum() > 1 for name in names):
        refuse(
            seen,
            place=seen.rows.where([0])[0],
            found=f"nothing in {listed(names)} that stands in another row too: a second line of "
            "names, or a person?",
            expected="one line of names; --kind people says that it is a person",
        )


_AMOUNT = re.compile(
    r"income|inc\b|wage|salar|earn|einkommen|lohn|gehalt|verdienst|revenu|ingreso|renta|rent|miete"
    r"|price|value|bmi|height|score|debt|asset|money|tax|hour|poverty|lön|lønn|inntekt|stipend|pay"
)


def _refuse_people_without_place(made: Draft, every: SeenFile) -> None:
    """Refuse rows of people without a place, which are no rows of totals."""
    frame = every.frame
    gone = total_rows(frame, made.places.columns)
    columns = [one.column for one in made.attributes] + [made.key] * bool(made.key)
    if not gone.any() or not columns:
        return
    filled = frame.select(pl.sum_horizontal(pl.col(columns).is_not_null())).to_series()
    unsaid = frame[made.places.columns[-1]].fill_null("") == ""  # no word for a total either
    wrong = gone & (2 * filled > len(columns)) & ((filled > 1) | unsaid)
    if made.key:  # who lives in a dwelling is somebody
        wrong |= gone & frame[made.key].is_not_null()
    if wrong.any():
        column = made.places.columns[-1]
        refuse(
            every,
            place=f"column {column!r}, {every.rows.where([int(wrong.arg_true()[0])])[0]}",
            found=f"no place, and a person's values beside it, in {int(wrong.sum())} rows",
            expected=f'a place for everybody; --leave-out "{column}=" leaves them out',
        )


def _refuse_tables(made: Draft, every: SeenFile) -> None:
    """Refuse rows that are places, dwellings or cells of a table, not people."""
    seen, places, inside = made.look, made.places, made.look.frame
    leaf = made.geography.leaf(inside)
    if leaf.n_unique() == inside.height > 2:
        refuse(
            seen,
            place="rows",
            found="every place in one row, and no column that counts people: rows are places",
            expected="--kind wide or --count COLUMN, if columns count people; --kind people, if "
            "each row is one person",
        )
    named = [
        one.name
        for one in seen.columns
        if POPULATION.search(one.says)
        and one.numeric
        and one.number > 1
        and not PERSON_ID.search(one.says)
        and one.name not in places.columns
    ]
    if named:
        refuse(
            seen,
            place=f"column {named[0]!r}",
            found="the name of a number of people, and numbers: rows are not people, or places",
            expected=f'--count "{named[0]}", if a row stands for that many people; --kind people, '
            "if each row is one person; --not-counts for a column of something else",
        )
    for one in seen.columns:
        person = PERSON_ID.search(one.says) and not NUMBERED.search(one.says)
        if person and 1 < one.number < len(one.present):
            refuse(
                seen,
                place=f"column {one.name!r}",
                found="the id of a person in several rows: the same people at several dates?",
                expected="each person in one row; --kind people, if it is no person's id",
            )
    if made.kind != "dwellings" and (found := _household_of(made)):
        column, why = found
        refuse(
            seen,
            place=f"column {column!r}",
            found=f"{why}: rows are households, not people",
            expected="the table of persons; or --count COLUMN, if one says how many people live in "
            "each; --kind people, to protect households as if they were people",
        )
    few = [one.name for one in seen.columns if 1 < one.number <= MOST_EDITIONS]
    own = [one.column for one in made.attributes]
    used = inside.select(list(dict.fromkeys((*places.columns, *own))))
    for aside in ("", *few):
        if any(_stand_again(rows.drop(aside, strict=False)) for rows in (inside, used)):
            apart = f", apart from {aside!r}" if aside else ""
            refuse(
                seen,
                place="rows",
                found=f"every row several times{apart}: the same people more than once, or at "
                "several dates",
                expected="each person in one row; --kind people, if they are different people",
            )
    blank = inside.select(pl.all_horizontal(pl.col(own).is_null())).to_series() if own else None
    if len(own) > 1 and blank is not None and blank.any():
        refuse(
            seen,
            place=seen.rows.where([int(blank.arg_true()[0])])[0],
            found="a row with nothing beside its place: a note, or a person of whom nothing is "
            "known?",
            expected="rows of people; --kind people, if it is one",
        )
    _refuse_cross_table(made, every)


def _household_of(made: Draft) -> tuple[str, str] | None:
    """A column that shows that rows are households, and why: their key, their head, their size."""
    seen, inside = made.look, made.look.frame
    leaf = made.geography.leaf(inside)
    ages = [one.numbers[0] for one in seen.columns if single_years(one) and one.whole]
    adults = inside.height >= MANY and min(ages, default=0) >= ADULT
    for one in seen.columns:
        related = RELATION.search(one.says)
        if made.is_key(one) and one.number == inside.height > 1:
            return one.name, "another dwelling in every row"
        if HEAD.search(one.says) and not related:
            return one.name, "the name of the head of a household"
        if (related or NUMBERED.search(one.says)) and one.number == 1 and not one.has_gaps:
            return one.name, "the same in every row, as of heads of households"
        if looks_like_size(one.name) and one.whole and not _are_housemates(leaf, one):
            return one.name, "sizes of households that are not those of people who live together"
        homes = [one.says] if DWELLING.search(one.says) else [says(value) for value in one.real]
        if adults and one.number > 1 and homes and all(map(DWELLING.search, homes)):
            return one.name, "what homes have, beside ages of adults only"
    return None


def _are_housemates(leaf: pl.Series, size: SeenColumn) -> bool:
    """Whether of every size there are in each place as many rows as make up whole households."""
    sizes = size.form.plain(size.values).cast(pl.Float64, strict=False).cast(pl.Int64)
    rows = pl.DataFrame({"leaf": leaf, "size": sizes}).drop_nulls().filter(pl.col("size") > 0)
    times = rows.group_by("leaf", "size").len()
    return bool((times["len"] % times["size"] == 0).all())


def _stand_again(rows: pl.DataFrame) -> bool:
    """Whether every row stands there twice, or every row three times, and so on."""
    if not rows.width:
        return False
    known = rows.hash_rows()
    first = known.head(FIRST).unique()
    if known.is_in(first.implode()).sum() < 2 * len(first):
        return False  # one of the first rows stands there once
    times = rows.group_by(rows.columns).len()["len"]
    return len(times) >= MANY and int(np.gcd.reduce(times.to_numpy())) > 1


def _refuse_cross_table(made: Draft, every: SeenFile) -> None:
    """Refuse rows that part a table: numbers that add up, or each combination once beside some.

    ``every`` has the rows of totals too.
    """
    seen, inside = made.look, made.look.frame
    free = [one for one in seen.columns if one.name not in {*made.places.others, *made.include}]
    numbers = [
        one
        for one in free
        if one.name not in made.places.columns
        and one.numeric
        and one.number > 1
        and not single_years(one)
        and not is_row_number(one)
        and not (one.number == inside.height and one.whole and _ID_LIKE.search(one.says))
        and not _AMOUNT.search(one.says)
        and not PERSONAL.search(one.says)
    ]
    for one in numbers:
        values = as_numbers(every.frame[one.name], every).drop_nulls().sort(descending=True)
        if (
            len(values) > FEWEST_CELLS
            and values[FEWEST_CELLS - 1]
            and 2 * values[0] == values.sum()
        ):
            refuse(
                seen,
                place=f"column {one.name!r}",
                found="numbers of which one is the sum of all others: rows are cells of a table",
                expected=f'--count "{one.name}", if a row stands for that many people; --kind '
                "people, if each row is one person",
            )
    _refuse_sums(seen, [one for one in numbers if not one.decimal])
    large = [one for one in numbers if one.decimal or one.number > 12 or not one.whole]
    small = [one for one in numbers if one not in large and inside.height <= MOST_CELLS]
    for counts in (large, *([*large, one] for one in small), numbers):
        groups = [
            one.name
            for one in free
            if one not in counts
            and 1 < one.number < inside.height
            and not PERSONAL.search(one.says)
        ]
        if counts and groups and (often := _are_cells(inside.select(groups))):
            refuse(
                seen,
                place="rows",
                found=f"each combination of {listed(groups)} {often}, beside numbers in "
                f"{listed([one.name for one in counts])}: cells of a table",
                expected=f'--count "{counts[-1].name}", if a row stands for that many people; '
                "--kind people, if each row is one person",
            )


def _refuse_sums(seen: SeenFile, numbers: Sequence[SeenColumn]) -> None:
    """Refuse numbers of which one adds up others, row by row: no person is counted in parts."""
    if len(numbers) < 3:
        return
    for one in sums_of_columns(table_of(seen, numbers, most=FIRST)):
        total, *parts = (numbers[k].name for k in (one.total, *one.parts))
        refuse(
            seen,
            place=f"column {total!r}",
            found=f"the sum of {listed(parts)} in every row, or nearly: rows are cells of a table",
            expected=f'--count "{total}", if a row stands for that many people; --kind people, if '
            "each row is one person",
        )


def _are_cells(parts: pl.DataFrame) -> str:
    """How often each combination of columns stands there, if people would not stand so."""
    size = prod(parts[name].n_unique() for name in parts.columns)
    if FULL * size <= parts.height:
        times = parts.group_by(parts.columns).len()["len"]
        if times.n_unique() == 1 and len(times) >= max(FULL * size, FEWEST_CELLS):
            return "once" if times[0] == 1 else "equally often"
    first = parts.head(FEW_ROWS)  # of people some are alike soon
    alone = first.n_unique() == first.height and parts.n_unique() == parts.height
    return "once" if alone and _pairs_expected(parts) >= EXPECTED else ""


def _pairs_expected(parts: pl.DataFrame) -> float:
    """How many pairs of rows would be equal, were these people and their columns independent.

    Of columns that tell all rows apart as few as can be are looked at.
    """
    key = list(parts.columns)
    for name in parts.columns:
        rest = [one for one in key if one != name]
        if rest and parts.select(rest).n_unique() == parts.height:
            key = rest
    alike = [float(((parts[one].value_counts()["count"] / parts.height) ** 2).sum()) for one in key]
    return prod(alike) * parts.height**2 / 2


_ID_LIKE = re.compile(r"(^| )(id|nr|no|number|serial\w*|key|pin|lfd|index|\w*id)( |$)")
