"""What may be wrong with a reading: each doubt is refused, with the option that answers it.

A reading is let pass if arithmetic shows it (a total that adds up all columns, keys that are
unique), or if only one is left. What a person has said is not asked again. Here is what tables of
all kinds share; the others are in ``doubts_wide``, ``doubts_long`` and ``doubts_rows``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import polars as pl

from headcount.errors import InputError
from headcount.init.attributes import Chosen, is_of_people, oldest_of, single_years
from headcount.init.look import FIRST, SeenColumn, SeenFile, same_for_all
from headcount.init.places import is_place
from headcount.init.words import (
    DWELLING,
    FILLERS,
    HEAD,
    MEASURED,
    NO_TIME,
    OTHER_UNITS,
    POPULATION,
    RELATION,
    THINGS,
    TIME,
)

if TYPE_CHECKING:
    from headcount.init.decide import Draft
    from headcount.init.told import Told

FEW = 12
"""Names that a message lists."""

FEW_ODD = 0.1
"""The share of numbers that are no counts among counts, at most: more of them measure something."""

MOST_YEARS = 40
"""Years in a column whose name does not say that they are some."""

_YEAR = re.compile(r"(19[5-9]|20\d)\d(\.0)?")
_WORD = re.compile(r"[^\W\d_]{3}")
_VAGUE = re.compile(r"(^| )(sector|stratum|unit|zone|area|block|land)( |$)")
"""Names of places that may as well be something else."""

_YEAR_IN_NAME = re.compile(r"(?<!\d)(1[789]\d\d|20\d\d)(?!\d)([ _-]?[QKTMqktm]?\d{1,2}(?!\d))?")
_WHEN = re.compile(
    r"(1[789]|20)\d\d([-/. ]?(([QKTMSH]\d{1,2})|\d{1,2}([-/.]\d{1,2})?))?([T ].*)?"
    r"|\d{1,2}[./-]\d{1,2}[./-]\d{4}"
)


def refuse(seen: SeenFile, *, place: str = "", found: str, expected: str) -> NoReturn:
    """Refuse a doubtful reading, with the options that answer it."""
    raise InputError(str(seen.path), place=place, found=found, expected=expected)


def listed(names: Sequence[str]) -> str:
    """Names for a message, cut when there are many."""
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(map(repr, names[:FEW])) + more


def says(text: str) -> str:
    """A name or value in small letters, words parted by blanks."""
    return re.sub(r"[\s._\-()\[\]/,:;!]+", " ", text).strip().casefold()


def as_numbers(values: pl.Series, seen: SeenFile) -> pl.Series:
    """Values as numbers, nothing where they are none."""
    return seen.form.plain(values).cast(pl.Float64, strict=False)


def used_columns(made: Draft) -> set[str]:
    """The columns of places, counts, dwellings and attributes."""
    places = made.places
    return {
        *(*places.columns, *places.others, made.count, made.key),
        *(one.column for one in made.attributes),
    }


def refuse_odd_lines(seen: SeenFile) -> None:
    """Refuse a line of labels below the names, and names that stand again further down."""
    same = [
        (seen.frame[one.name] == one.name.strip()).fill_null(False).cast(pl.Int32)
        for one in seen.columns
    ]
    again = pl.select(pl.sum_horizontal(same)).to_series() >= max(2, (len(same) + 1) // 2)
    if again.any():
        refuse(
            seen,
            place=seen.rows.where([int(again.arg_true()[0])])[0],
            found="the line of names again: several tables below each other",
            expected="one table in a file",
        )
    labels = [one.name for one in seen.columns if _label_above_numbers(one)]
    numeric = [one for one in seen.columns if one.name in labels or one.numeric] if labels else []
    if labels and 2 * len(labels) >= len(numeric):
        refuse(
            seen,
            place=seen.rows.where([0])[0],
            found=f"labels or tags above numbers, a second line of names, in {listed(labels)}",
            expected="one line of names, and counts from the line below it (take the second out)",
        )


def _label_above_numbers(column: SeenColumn) -> bool:
    """Whether the first value is a text, and those below it are numbers."""
    first, below = column.values[0], column.values[1:].drop_nulls()
    if first is None or len(below) < 2 or not re.search(r"[^\W\d_]{3}|^#", first):
        return False
    numbers = int(column.are_numbers.sum())  # the first is none
    return numbers > 0.8 * len(below)


def several_times(seen: SeenFile, *, told: Sequence[str]) -> SeenColumn | None:
    """A column of several years, dates, quarters or censuses of which nobody has said which."""
    for one in seen.columns:
        if one.name in told or len(one.real) < 2 or NO_TIME.search(one.says):
            continue
        if not TIME.search(one.says):
            few = len(one.real) <= MOST_YEARS and not POPULATION.search(one.says)
            repeated = len(one.values) >= 2 * len(one.real)
            years = all(_YEAR.fullmatch(value) for value in one.real)
            if few and repeated and years and not is_place(one):
                return one
            continue
        rest = [word for word in one.says.split() if not TIME.search(word)]
        whole = all(FILLERS.search(word) for word in rest)
        if whole or all(_WHEN.fullmatch(value) for value in one.real):
            return one
    return None


def refuse_times_beside(seen: SeenFile, numeric: Sequence[SeenColumn]) -> None:
    """Refuse columns of several years or dates, which count the same places again."""
    stems: dict[str, dict[str, str]] = {}
    for one in numeric:
        if found := _YEAR_IN_NAME.search(one.name):
            stem = one.name[: found.start()] + "\0" + one.name[found.end() :]
            stems.setdefault(stem, {})[found[0]] = one.name
    for years in stems.values():
        if len(years) > 1:
            last = max(years)
            refuse(
                seen,
                place="columns",
                found=f"several years or dates beside each other: {listed(list(years.values()))}",
                expected=f'one of them: --universe "{last}" takes that one',
            )


def is_row_number(column: SeenColumn) -> bool:
    """Whether a column numbers the rows, as they stand or in another order."""
    if not column.whole or column.number < len(column.values) or not column.are_numbers.all():
        return False
    numbers = column.form.plain(column.present).cast(pl.Float64, strict=False)
    least, most = numbers.min(), numbers.max()
    return len(numbers) > 2 and least in (0, 1) and most - least == len(numbers) - 1  # type: ignore[operator]


def is_code(column: SeenColumn, places: Sequence[SeenColumn]) -> bool:
    """Whether whole numbers are codes: zeros in front, or part of a place's code."""
    if column.present.str.contains(r"^0\d|^\+").any():
        return True
    if column.number < 2:
        return False
    for place in places:
        both = pl.DataFrame({"a": column.values, "b": place.values}).drop_nulls()
        if both.height and both.select(pl.col("b").str.ends_with(pl.col("a"))).to_series().all():
            return True
    return False


def refuse_places(made: Draft, told: Told) -> None:
    """Refuse places that are not all of it: one alone, or a finer column left aside."""
    if told.places or made.kind == "wide":
        return
    seen, inside = made.look, made.look.frame
    leaf = made.geography.leaf(inside)
    unknown = [one for one in made.attributes if not is_of_people(one)]
    if leaf.n_unique() == 1 and (unknown or not made.attributes):
        refuse(
            seen,
            place=f"column {made.places.columns[-1]!r}",
            found="one place only",
            expected=f'--places "{made.places.columns[-1]}", if that is right; or the columns of '
            "places from the top down",
        )
    for name in made.places.columns:
        words = inside[name].drop_nulls().str.contains(_WORD.pattern).all()
        few = _VAGUE.search(seen.column(name).says) and inside[name].n_unique() < 5
        crossing = made.places.local_codes and name != made.places.columns[0]
        if words and (few or crossing):
            refuse(
                seen,
                place=f"column {name!r}",
                found="words that stand in every place, or few of them: a place, or a kind of "
                "place?",
                expected=f'--places "{",".join(made.places.columns)}", if it is one; or the others',
            )
    both = inside.with_columns(leaf.alias("\0leaf"))
    for one in seen.columns:
        if one.name in {*used_columns(made), *made.include} - {a.column for a in made.attributes}:
            continue
        often = inside.height >= 5 * one.number and one.number > leaf.n_unique()
        text = not one.decimal and not made.is_key(one) and not single_years(one)
        several = leaf.n_unique() > 1
        if several and often and text and same_for_all(both, one.name, "\0leaf"):
            refuse(
                seen,
                place=f"column {one.name!r}",
                found=f"values each of which lies within one {made.places.columns[-1]!r}, and more "
                "of them: smaller places?",
                expected=f'--places "{",".join((*made.places.columns, one.name))}", if they are; '
                "--attributes, if they are not",
            )


def refuse_other_units(seen: SeenFile, counts: Sequence[str], *, alone: bool = True) -> None:
    """Refuse counts of homes, shares or events, by the words of columns, values and the file.

    ``alone``: nothing adds up, so that what other columns say of heads of households counts too.
    """
    if any(POPULATION.search(one.says) for one in seen.columns):
        return
    few = [one for one in seen.columns if one.number <= 2 and not one.numeric]
    constant = [one.real[0] for one in few if len(one.real) == 1]
    words = [(f"column {name!r}", DWELLING.search(says(name))) for name in counts]
    words += [(f"column {name!r}", THINGS.search(says(name))) for name in counts if alone]
    heads = [one for one in seen.columns if alone and not RELATION.search(one.says)]
    words += [(f"column {one.name!r}", HEAD.search(one.says)) for one in heads]
    words += [(f"value {value!r}", THINGS.search(says(value))) for value in constant]
    if isinstance(seen.path, Path):
        words.append(("the name of the file", THINGS.search(says(seen.path.stem))))
    for place, found in words:
        if found:
            refuse(
                seen,
                place=place,
                found=f"{found[0].strip()!r}: counts of something else than people (households, "
                "shares, events)?",
                expected="counts of people; --kind wide or --kind long says that they are",
            )


def refuse_odd_counts(seen: SeenFile, columns: Sequence[SeenColumn]) -> None:
    """Refuse to leave aside whole numbers of which a few are none: they may count people."""
    for one in columns:
        numbers = as_numbers(one.values, seen)
        odd = ((numbers < 0) | (numbers != numbers.round())).fill_null(False)
        few = 0 < int(odd.sum()) <= max(1, FEW_ODD * len(one.present))
        if few and not OTHER_UNITS.search(one.says):
            where = seen.rows.where(odd.arg_true().to_list()[:FEW])
            refuse(
                seen,
                place=f"column {one.name!r}",
                found=f"a negative number or decimals ({', '.join(where)}) among whole numbers",
                expected="whole numbers, 0 or more, if it counts people; "
                f'--not-counts "{one.name}", if it does not',
            )


def refuse_measures(seen: SeenFile, columns: Sequence[SeenColumn]) -> None:
    """Refuse a column that says of each row what it counts, where that is not one thing."""
    for one in columns:
        if len(one.real) < 2:
            continue
        told = [value for value in one.real if OTHER_UNITS.search(says(value))]
        people = any(POPULATION.search(says(value)) for value in one.real)
        if MEASURED.search(one.says) or (told and len(told) < len(one.real) and people):
            refuse(
                seen,
                place=f"column {one.name!r}",
                found=f"several things that are counted: {listed(one.real)}",
                expected=f'rows of one of them: --only "{one.name}={one.real[0]}"',
            )


def refuse_coded_ages(made: Draft, told: Told) -> None:
    """Refuse ages that may be codes of age groups."""
    for one in made.attributes:
        said = told.ages or one.name in told.coded
        if one.bins and not said and (oldest_of(made.look.column(one.column)) or 0) < 25:
            refuse(
                made.look,
                place=f"column {one.column!r}",
                found="an age in small whole numbers only: years, or codes of age groups?",
                expected="--ages years or --ages codes",
            )


def one_variable_once(found: Sequence[Chosen], inside: pl.DataFrame) -> dict[str, str]:
    """Attributes that say what another one says, with the other: a code beside its label."""
    twins: dict[str, str] = {}
    for one in found:
        for other in found:
            if one is other or one.column in twins or other.column in twins:
                continue
            sizes = [inside[a.column].n_unique() for a in (one, other)]
            both = inside.select(one.column, other.column)
            if both.head(FIRST).n_unique() > max(sizes) or inside.height < 5 * max(sizes):
                continue
            if both.n_unique() != max(sizes):
                continue
            coded = inside[one.column].drop_nulls().str.contains(r"^[\d.]+$").all()
            finer = sizes[1] > sizes[0]
            if finer or (sizes[0] == sizes[1] and coded):
                twins[one.column] = other.column
    return twins


def refuse_other_size(made: Draft, people: int, told: Told) -> None:
    """Refuse more people than the largest column called a population has, or far fewer."""
    if told.kind is not None or told.universe or told.count or told.attributes is not None:
        return
    inside = made.look.frame
    sizes = {
        one.name: float(as_numbers(inside[one.name], made.look).sum() or 0)
        for one in made.look.columns
        if POPULATION.search(one.says)
        and one.numeric
        and one.name not in made.places.columns
        and not OTHER_UNITS.search(one.says)
    }
    if not sizes:
        return
    name = max(sizes, key=lambda one: sizes[one])
    if people > sizes[name] or 100 * people < sizes[name]:
        more = (
            "more people than" if people > sizes[name] else "less than a hundredth of the people in"
        )
        refuse(
            made.look,
            place=f"column {name!r}",
            found=f"{more} the largest column named like a population: people are counted twice, "
            "or rows are not people",
            expected='--count, --universe or --not-counts "COLUMN", which say what counts whom',
        )
