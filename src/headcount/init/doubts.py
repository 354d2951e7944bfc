"""What may be wrong with a reading: each doubt is refused, with the option that answers it.

A reading is let pass if arithmetic shows it (a total that adds up all columns, keys that are
unique), or if only one is left. What a person has said is not asked again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.init.attributes import Chosen, is_of_people, single_years
from headcount.init.look import SeenColumn, SeenFile, same_for_all
from headcount.init.places import blank_or_total, total_rows
from headcount.init.sums import (
    SURE,
    counted_again,
    digits,
    levels_below_each_other,
    nearly_sums,
    runs_that_add_up,
)
from headcount.init.wide import WideCells, calls_itself_total, is_partition, numbers_of
from headcount.init.words import (
    FILLERS,
    MEASURED,
    NO_TIME,
    OTHER_UNITS,
    PERSONAL,
    POPULATION,
    TIME,
    WEIGHT,
)

from headcount.population.whole_numbers import NO_COUNT

if TYPE_CHECKING:
    from headcount.init.decide import Draft, Told

FEW = 12
"""Names that a message lists."""

FULL = 0.5
"""The share of all combinations that the rows of a cross table have at least."""

_YEAR_IN_NAME = re.compile(r"(?<!\d)(1[789]\d\d|20\d\d)(?!\d)([ _-]?[QKTMqktm]?\d{1,2}(?!\d))?")
_WHEN = re.compile(
    r"(1[789]|20)\d\d([-/. ]?(([QKTMSH]\d{1,2})|\d{1,2}([-/.]\d{1,2})?))?([T ].*)?"
    r"|\d{1,2}[./-]\d{1,2}[./-]\d{4}"
)


def refuse(seen: SeenFile, *, place: str = "", found: str, expected: str) -> NoReturn:
    """Refuse a doubtful reading."""
    raise InputError(str(seen.path), place=place, found=found, expected=expected)


def listed(names: Sequence[str]) -> str:
    """Names for a message, cut when there are many."""
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(map(repr, names[:FEW])) + more


# --- lines ------------------------------------------------------------------------------------


def refuse_odd_lines(seen: SeenFile) -> None:
    """Refuse a line of labels below the names, and names that stand again further down."""
    names = [one.name.strip() for one in seen.columns]
    again = pl.select(
        pl.all_horizontal(
            seen.frame[one.name].eq_missing(pl.lit(name))
            for one, name in zip(seen.columns, names, strict=True)
        )
    ).to_series()
    if again.any() and len(names) > 1:
        refuse(
            seen,
            place=seen.rows.where([int(again.arg_true()[0])])[0],
            found="the line of names again: several tables below each other",
            expected="one table in a file",
        )
    labels = [one.name for one in seen.columns if _label_above_numbers(one)]
    numeric = [one for one in seen.columns if one.name in labels or one.whole or one.decimal]
    if labels and 2 * len(labels) >= len(numeric):
        refuse(
            seen,
            place=seen.rows.where([0])[0],
            found=f"labels or tags in the second line, above numbers: a second header, in {listed(labels)}",
            expected="one line of names, and counts from the line below it (take the second out)",
        )


def _label_above_numbers(column: SeenColumn) -> bool:
    """Whether the first value is a text, and those below it are numbers."""
    first, below = column.values[0], column.values[1:].drop_nulls()
    if first is None or len(below) < 2 or not re.search(r"[^\W\d_]{3}|^#", first):
        return False
    numbers = int(column.are_numbers.sum())  # the first is none
    return numbers > 0.8 * len(below)


# --- times ------------------------------------------------------------------------------------


def several_times(seen: SeenFile, *, told: Sequence[str]) -> SeenColumn | None:
    """A column of several years, dates, quarters or censuses of which nobody has said which."""
    for one in seen.columns:
        if one.name in told or len(one.real) < 2 or NO_TIME.search(one.says):
            continue
        if not TIME.search(one.says):
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


# --- columns of counts ------------------------------------------------------------------------


def refuse_withheld(seen: SeenFile, names: Sequence[str], *, said: str) -> None:
    """Refuse signs in the place of counts, unless they are ``said`` to be 0."""
    for name in names:
        column = seen.column(name)
        odd = column.present.filter(~column.are_numbers)
        if len(odd) and not (said and set(odd.to_list()) <= set(NO_COUNT)):
            _refuse_no_counts(seen, name, column.values.is_in(odd.unique().to_list()), repr(odd[0]))


def refuse_blanks(seen: SeenFile, names: Sequence[str], *, said: str) -> None:
    """Refuse counts that are not there, unless they are ``said`` to be 0."""
    for name in names:
        gaps = seen.column(name).values.is_null()
        if gaps.any() and not said:
            _refuse_no_counts(seen, name, gaps, "nothing")


def _refuse_no_counts(seen: SeenFile, name: str, wrong: pl.Series, what: str) -> NoReturn:
    refuse(
        seen,
        place=f"column {name!r}, {seen.rows.where([int(wrong.arg_true()[0])])[0]}",
        found=f"{what} in place of a count: withheld, or missing",
        expected="whole numbers, as they were before anything was withheld (--blank-counts zero "
        f"says that nothing, {', '.join(map(repr, filter(None, NO_COUNT)))} stand for nobody here; "
        'blank_counts = "zero" under [population] does too)',
    )


def is_row_number(column: SeenColumn) -> bool:
    """Whether a column numbers the rows, as they stand or in another order."""
    if not column.whole or column.number < len(column.values) or column.number > 10**6:
        return False
    numbers = sorted(int(float(one)) for one in column.form.plain(column.present))
    return (
        len(numbers) > 2 and numbers[0] in (0, 1) and numbers[-1] - numbers[0] == len(numbers) - 1
    )


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


def refuse_families(
    seen: SeenFile, cells: WideCells, told: Told, numeric: Sequence[SeenColumn]
) -> bool:
    """Refuse columns of counts of which no total or form shows that they count each person once.

    Whether a total shows it, in every row and with nothing missing, is the answer. ``numeric`` are
    all columns of numbers.
    """
    names = list(cells.levels_of)
    counts = numbers_of(seen.frame, names, seen.form)
    whole = counts.sum(axis=1)
    sound = [name for name in cells.totals if not seen.column(name).has_gaps]
    totals = numbers_of(seen.frame, sound, seen.form) if sound else counts[:, :0]
    if digits(whole) >= SURE and bool((totals == whole[:, None]).all(axis=0).any()):
        return True
    _refuse_total_that_differs(seen, names, counts)
    if cells.totals:
        refuse(
            seen,
            place="columns",
            found=f"totals {listed(cells.totals)}, none of which adds up all other columns: they "
            "count the same people twice (overlap), or not people alone",
            expected=f'the columns of one universe: --universe "{cells.totals[0]}" takes those '
            'whose names begin so, --not-counts "A,B" leaves columns out',
        )
    if (times := counted_again(counts)) > 1:
        refuse(
            seen,
            place="columns",
            found=f"{times} families of columns with the same sum in every row: the same people, "
            f"counted {times} times (overlap)",
            expected='one of them: --not-counts "A,B" leaves columns out',
        )
    if told.kind == "wide":
        return False
    if len(names) == 1:
        _refuse_beside_one(seen, names[0], numeric, told)
        return False
    _refuse_parts(seen, cells, names, counts)
    if not any(is_partition(name, levels) for name, levels in cells.attributes):
        refuse(
            seen,
            place="columns",
            found=f"counts in {listed(names)}, and no total that they add up to: a person may "
            "stand in several of them (overlap)",
            expected='--kind wide, if everybody is in one of them only; --universe "A" or '
            '--not-counts "A,B", if some are parts of others or count something else',
        )
    return False


def _refuse_beside_one(
    seen: SeenFile, name: str, numeric: Sequence[SeenColumn], told: Told
) -> None:
    """Refuse one column of counts beside numbers of which no name says what they are."""
    others = [
        one.name
        for one in numeric
        if one.name != name and one.number > 1 and not OTHER_UNITS.search(one.says)
    ]
    if others and not told.universe:
        refuse(
            seen,
            place="columns",
            found=f"one column of whole numbers, {name!r}, beside other numbers in {listed(others)}: "
            "does it count people?",
            expected=f'--universe "{name}", if it does',
        )


def _refuse_total_that_differs(seen: SeenFile, names: Sequence[str], counts: Ints) -> None:
    """Refuse a column that is called a total, or is nearly one, and does not add up."""
    called = [k for k, name in enumerate(names) if calls_itself_total(name) and len(names) > 2]
    near = next(nearly_sums(counts, among=called), None) if called else None
    near = near or (next(nearly_sums(counts), None) if len(names) > 2 else None)
    total = near.total if near is not None else next(iter(called), None)
    if total is None:
        return
    if near is None:
        found = "the name of a total, and no columns that it adds up"
    else:
        parts = listed([names[k] for k in near.parts])
        rows = seen.rows.where(near.wrong[:FEW].tolist())
        found = (
            f"nearly the sum of {parts}, a total that does not add up in {len(near.wrong)} of "
            f"{len(counts)} rows: {', '.join(rows)} (by {near.off:+} in the first)"
            if len(near.wrong)
            else f"the sum of {parts}, and other columns beside them"
        )
    refuse(
        seen,
        place=f"column {names[total]!r}",
        found=found,
        expected=f'columns that add up; --not-counts "{names[total]}" leaves it out, if the others '
        "are right",
    )


def _refuse_parts(seen: SeenFile, cells: WideCells, names: Sequence[str], counts: Ints) -> None:
    """Refuse families of columns of which one is at most the other, row by row."""
    for at, (name, levels) in enumerate(cells.attributes):
        if is_partition(name, levels) or len(cells.attributes) == 1:
            continue
        by_rest: dict[tuple[str, ...], dict[str, int]] = {}
        for k, column in enumerate(names):
            own = cells.levels_of[column]
            by_rest.setdefault((*own[:at], *own[at + 1 :]), {})[own[at]] = k
        for one in levels:
            for other in levels:
                pairs = [(here[one], here[other]) for here in by_rest.values()]
                if one != other and all((counts[:, a] <= counts[:, b]).all() for a, b in pairs):
                    columns = [[names[pair[side]] for pair in pairs] for side in (0, 1)]
                    refuse(
                        seen,
                        place="columns",
                        found=f"two families, {listed(columns[0])} at most {listed(columns[1])} in "
                        "every row: a part of the same people, who would be counted twice (overlap)",
                        expected=f'--universe "{other}" or --universe "{one}" takes one of them; '
                        "--kind wide says that they are different people",
                    )


# --- rows -------------------------------------------------------------------------------------


def refuse_totals_that_differ(
    seen: SeenFile,
    *,
    places: Sequence[str],
    totals: Mapping[str, Sequence[str]],
    counts: Sequence[str],
) -> None:
    """Refuse rows left out as totals that do not add up those that stay.

    Rows are left out by the code of a place, or by the levels of an attribute in ``totals``.
    """
    frame = seen.frame
    left_out = total_rows(frame, places)
    keys = [*places, *totals]
    marks = {}
    for name in places:
        marks[name] = left_out & blank_or_total(frame[name])
    for name, values in totals.items():
        marks[name] = frame[name].is_in(list(values)).fill_null(False)
    gone = pl.select(pl.any_horizontal(marks.values())).to_series() if marks else None
    if gone is None or not gone.any() or gone.all():
        return
    numbers = frame.select(keys).with_columns(
        pl.Series(f"\0{k}", _maybe(frame[name], seen)) for k, name in enumerate(counts)
    )
    values = [f"\0{k}" for k in range(len(counts))]
    patterns = pl.DataFrame({f"{k}": mark for k, mark in enumerate(marks.values())})
    wrong, checked = [], 0
    for pattern in patterns.filter(gone).unique().iter_rows():
        here = pl.select(
            pl.all_horizontal(patterns[f"{k}"] == marked for k, marked in enumerate(pattern))
        ).to_series()
        fixed = [key for key, marked in zip(keys, pattern, strict=True) if not marked]
        parts = numbers.filter(~gone)
        rows = numbers.with_row_index("\0row").filter(here)
        said = rows.filter(pl.any_horizontal(pl.col(values).is_not_null()))
        sums = (
            parts.group_by(fixed).agg(pl.col(values).sum())
            if fixed
            else parts.select(pl.col(values).sum())
        )
        both = (
            said.join(sums, on=fixed, how="left", suffix="\0sum", nulls_equal=True)
            if fixed
            else said.join(sums, how="cross", suffix="\0sum")
        )
        differs = pl.any_horizontal(
            (pl.col(one) != pl.col(f"{one}\0sum").fill_null(0)).fill_null(False) for one in values
        )
        checked += said.height
        wrong += both.filter(differs)["\0row"].to_list()
    if wrong:
        refuse(
            seen,
            place=seen.rows.where([min(wrong)])[0],
            found=f"a row of totals that does not add up the others ({checked - len(wrong)} of "
            f"{checked} such rows agree)",
            expected="totals that agree, or a file without them: a place may be missing, or stand "
            f'twice. --leave-out "{keys[0]}=..." leaves rows out by a value, unseen',
        )


def _maybe(values: pl.Series, seen: SeenFile) -> pl.Series:
    return seen.form.plain(values).cast(pl.Float64, strict=False)


def refuse_levels_in_one_column(
    seen: SeenFile, codes: Sequence[str], counts: Ints, *, column: str
) -> None:
    """Refuse places of several levels below each other: a country, its districts, their towns.

    ``counts`` has a row for each place, in the order of the file.
    """
    people = counts.sum(axis=1)
    sums = runs_that_add_up(counts.T)
    levels = levels_below_each_other(people)
    if not sums and levels == 1:
        inside = _prefix_sums(codes, people)
        if not inside:
            return
        first, parts = inside
    elif sums:
        first, parts = codes[sums[0][0]], [codes[k] for k in sums[0][1]]
    else:
        first, parts = codes[int(people.argmax())], [f"all others {levels - 1} times over"]
    refuse(
        seen,
        place=f"column {column!r}",
        found=f"{first!r}, the total of {listed(parts)}: several levels of place in one column",
        expected=f'rows of the lowest level only: --leave-out "{column}={first}" leaves rows out, '
        'or --only "COLUMN=VALUE" takes those of one level',
    )


def _prefix_sums(codes: Sequence[str], people: Ints) -> tuple[str, list[str]] | None:
    """A code and those that go on from it, where these have nearly all of its people."""
    by_length: dict[int, list[int]] = {}
    for k, code in enumerate(codes):
        by_length.setdefault(len(code), []).append(k)
    lengths = sorted(by_length)
    for short, long in pairwise(lengths):
        below: dict[str, list[int]] = {}
        for k in by_length[long]:
            below.setdefault(codes[k][:short], []).append(k)
        agree = [
            k
            for k in by_length[short]
            if len(own := below.get(codes[k], [])) >= 2
            and people[k] > 100
            and abs(int(people[own].sum()) - int(people[k])) <= 0.01 * people[k]
        ]
        if agree and 2 * len(agree) >= sum(codes[k] in below for k in by_length[short]):
            return codes[agree[0]], [codes[k] for k in below[codes[agree[0]]]]
    return None


# --- a long table -----------------------------------------------------------------------------


def refuse_long(made: Draft, every: SeenFile, told: Told) -> None:
    """Refuse a table of place, group and number whose rows are no parts of one population.

    ``every`` has the rows of totals too.
    """
    totals = {one.column: one.totals for one in made.attributes if one.totals}
    refuse_withheld(made.look, [made.count], said=told.blank_counts)
    refuse_blanks(made.look, [made.count], said=told.blank_counts)
    refuse_totals_that_differ(
        every, places=made.places.columns, totals=_groups(made, totals), counts=[made.count]
    )
    kept = made.look.frame
    for column, values in totals.items():
        kept = kept.filter(~kept[column].is_in(list(values)).fill_null(False))
    if told.kind is None:
        _refuse_other_numbers(made, told)
        _refuse_measures(made)
        _refuse_unknown(made, told)
    _refuse_repeats(made, kept, told)
    _refuse_hidden_totals(made, kept)


def _groups(made: Draft, totals: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """The columns of groups, each with its levels that are totals."""
    return {one.column: totals.get(one.column, ()) for one in made.attributes}


def refuse_levels_of_wide(made: Draft) -> None:
    """Refuse rows of a wide table that add up others, but for those that are left out."""
    assert made.cells is not None
    frame, column = made.look.frame, made.places.columns[-1]
    kept = frame.filter(~frame[column].is_in(made.exclude.get(column, [])))
    counts = numbers_of(kept, list(made.cells.levels_of), made.look.form)
    refuse_levels_in_one_column(made.look, kept[column].to_list(), counts, column=column)


def _refuse_other_numbers(made: Draft, told: Told) -> None:
    """Refuse a second column that may count people too."""
    used = _used(made)
    others = [
        one.name
        for one in made.look.columns
        if one.name not in used
        and one.numeric
        and one.number > 1
        and not OTHER_UNITS.search(one.says)
        and not one.decimal
        and not is_row_number(one)
        and not single_years(one)
        and one.name not in made.include
    ]
    if others and not told.count:
        refuse(
            made.look,
            place="columns",
            found=f"whole numbers in {listed([made.count, *others])}: which of them counts the "
            "people, and are the others parts of them (overlap)?",
            expected=f'--count "{made.count}" takes that one',
        )


def _refuse_measures(made: Draft) -> None:
    """Refuse a column that says of each row what it counts, where that is not one thing."""
    for one in made.look.columns:
        if one.name in (*made.places.columns, *made.include) or len(one.real) < 2:
            continue
        told = [value for value in one.real if OTHER_UNITS.search(says(value))]
        if MEASURED.search(one.says) or (
            told and len(told) < len(one.real) and _counts_something(one)
        ):
            refuse(
                made.look,
                place=f"column {one.name!r}",
                found=f"several things that are counted: {listed(one.real)}",
                expected=f'rows of one of them: --only "{one.name}={one.real[0]}"',
            )


def _counts_something(column: SeenColumn) -> bool:
    return any(POPULATION.search(says(value)) for value in column.real)


def says(text: str) -> str:
    """A name or value in small letters, words parted by blanks."""
    return re.sub(r"[\s._\-()\[\]/,:]+", " ", text).strip().casefold()


def _refuse_unknown(made: Draft, told: Told) -> None:
    """Refuse groups of which neither the name nor a total shows that they part people."""
    if told.attributes is not None:
        return
    unknown = [one.column for one in made.attributes if not one.totals and not is_of_people(one)]
    if unknown:
        refuse(
            made.look,
            place=f"column {unknown[0]!r}",
            found="levels without a total that adds them up: groups of people, or the same people "
            "at several dates or places?",
            expected=f'--attributes "{",".join(one.column for one in made.attributes)}", if they '
            f'part people; --only "{unknown[0]}=..." takes the rows of one level',
        )


def _refuse_repeats(made: Draft, kept: pl.DataFrame, told: Told) -> None:
    """Refuse rows of the same place and group: something else tells them apart."""
    keys = [*made.places.columns, *(one.column for one in made.attributes)]
    repeated = kept.select(keys).is_duplicated()
    if not repeated.any() or told.attributes is not None:
        return
    some = kept.filter(repeated)
    apart = [
        one.name
        for one in made.look.columns
        if one.name not in (*keys, made.count) and some[one.name].n_unique() > 1
    ]
    refuse(
        made.look,
        place="rows",
        found=f"the same place and group ({listed(keys)}) in {int(repeated.sum())} of {kept.height} "
        + (
            f"rows, which differ in {listed(apart)}: other dates, totals or parts?"
            if apart
            else "rows, which are the same twice"
        ),
        expected=(
            f'--only "{apart[0]}=..." to take one of its values, or --attributes to use it'
            if apart
            else "each place and group once"
        ),
    )


def _refuse_hidden_totals(made: Draft, kept: pl.DataFrame) -> None:
    """Refuse levels and places that add up others, whatever they are called."""
    seen = made.look
    value = _maybe(kept[made.count], seen).fill_null(0).cast(pl.Int64).alias("\0n")
    path = made.places.columns
    keys = [(path[-1], [*path]), *((one.column, [one.column]) for one in made.attributes)]
    everything = [name for _, names in keys for name in names]
    table = kept.select(everything).with_columns(value)
    for column, names in keys:
        rest = [name for name in everything if name not in names]
        size = table.select(names).n_unique() * (table.select(rest).n_unique() if rest else 1)
        if size > 20_000_000:
            continue
        matrix, labels = _crossed(table, names, rest)
        if column == path[-1]:
            refuse_levels_in_one_column(seen, labels, matrix, column=column)
        elif len(labels) > 2:
            for order in (np.arange(len(labels)), np.argsort(-matrix.sum(axis=1), kind="stable")):
                if sums := runs_that_add_up(matrix[order].T):
                    level = labels[int(order[sums[0][0]])]
                    parts = [labels[int(order[k])] for k in sums[0][1]]
                    refuse(
                        seen,
                        place=f"column {column!r}",
                        found=f"{level!r}, the total of {listed(parts)} everywhere",
                        expected=f'levels that part people: --leave-out "{column}={level}"',
                    )


def _crossed(
    table: pl.DataFrame, names: Sequence[str], rest: Sequence[str]
) -> tuple[Ints, list[str]]:
    """Counts by the levels of some columns (rows) and of the rest (columns)."""
    own = table.select(names).unique(maintain_order=True).with_row_index("\0a")
    other = table.select(rest).unique(maintain_order=True).with_row_index("\0b") if rest else None
    placed = table.join(own, on=list(names), nulls_equal=True)
    if other is not None:
        placed = placed.join(other, on=list(rest), nulls_equal=True)
    matrix = np.zeros((own.height, other.height if other is not None else 1), dtype=np.int64)
    second = placed["\0b"].to_numpy() if other is not None else np.zeros(placed.height, dtype=int)
    np.add.at(matrix, (placed["\0a"].to_numpy(), second), placed["\0n"].to_numpy())
    return matrix, [str(one) for one in own[names[-1]].to_list()]


def _used(made: Draft) -> set[str]:
    places = made.places
    return {
        *(*places.columns, *places.others, made.count, made.key),
        *(one.column for one in made.attributes),
    }


# --- rows that are people ---------------------------------------------------------------------


def refuse_rows(made: Draft, every: SeenFile, told: Told) -> None:
    """Refuse rows that may be something else than people, or people that may be left out."""
    _refuse_people_without_place(made, every)
    if told.kind is not None or told.attributes is not None:
        return
    seen = made.look
    others = [one for one in seen.columns if one.name not in _used(made)]
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
    _refuse_tables(made)
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
    if not column.decimal or OTHER_UNITS.search(column.says) or _AMOUNT.search(column.says):
        return False
    numbers = column.form.plain(column.present).cast(pl.Float64, strict=False).drop_nulls()
    return bool(len(numbers)) and float(numbers.min()) > 0 and float(numbers.mean()) > 2  # type: ignore[arg-type]


_AMOUNT = re.compile(
    r"income|inc\b|wage|salar|earn|einkommen|lohn|gehalt|verdienst|revenu|ingreso|renta|rent|miete"
    r"|price|value|bmi|height|score|debt|asset|money|tax|hour|poverty|lön|lønn|inntekt|stipend|pay"
)


def _refuse_people_without_place(made: Draft, every: SeenFile) -> None:
    """Refuse rows of people without a place, which are no rows of totals."""
    frame = every.frame
    gone = total_rows(frame, made.places.columns)
    columns = [one.column for one in made.attributes]
    if not gone.any() or not columns:
        return
    filled = frame.select(pl.sum_horizontal(pl.col(columns).is_not_null())).to_series()
    wrong = gone & (2 * filled > len(columns)) & (filled > 1)
    if wrong.any():
        column = made.places.columns[-1]
        refuse(
            every,
            place=f"column {column!r}, {every.rows.where([int(wrong.arg_true()[0])])[0]}",
            found=f"no place, or a total, and a person's values beside it, in {int(wrong.sum())} rows",
            expected=f'a place for everybody; --leave-out "{column}=" leaves them out',
        )


def _refuse_tables(made: Draft) -> None:
    """Refuse rows that are places, dwellings or cells of a table, not people."""
    seen, places, inside = made.look, made.places, made.look.frame
    leaf = made.geography.codes(inside)[-1]
    if leaf.n_unique() == inside.height > 1:
        refuse(
            seen,
            place="rows",
            found="every place in one row: rows are places, not people, and no column counts people",
            expected="--kind wide or --count COLUMN, if columns count people; --kind people, if "
            "each row is one person",
        )
    named = [
        one.name
        for one in seen.columns
        if POPULATION.search(one.says)
        and one.numeric
        and one.number > 1
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
    homes = [
        one.name for one in seen.columns if made.is_key(one) and one.number == inside.height > 1
    ]
    if homes and made.kind != "dwellings":
        refuse(
            seen,
            place=f"column {homes[0]!r}",
            found="another dwelling in every row: rows are households, not people",
            expected="the table of persons; or --count COLUMN, if one says how many people live in "
            "each; --kind people, to protect households as if they were people",
        )
    if (every := _times_over(inside)) > 1:
        refuse(
            seen,
            place="rows",
            found=f"every row {every} times: the same people more than once",
            expected="each person in one row; --kind people, if they are different people",
        )
    _refuse_cross_table(made)


def _times_over(inside: pl.DataFrame) -> int:
    """How often every row stands in the file, if all stand there equally often."""
    times = inside.group_by(inside.columns).len()["len"]
    return int(times[0]) if times.n_unique() == 1 and inside.height > 3 else 1


def _refuse_cross_table(made: Draft) -> None:
    """Refuse rows that part a table: each combination once, beside a column of numbers."""
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
    ]
    large = [one for one in numbers if one.decimal or one.number > 12 or not one.whole]
    groups = [
        one.name
        for one in free
        if one not in large and 1 < one.number < inside.height and not PERSONAL.search(one.says)
    ]
    if not large or not groups:
        return
    parts = inside.select(groups)
    once = parts.n_unique() == parts.height
    sizes = [parts[name].n_unique() for name in groups]
    times = parts.group_by(groups).len()["len"]
    crossed = times.n_unique() == 1 and len(times) >= max(FULL * prod(sizes), 6)
    if once or crossed:
        refuse(
            seen,
            place="rows",
            found=f"each combination of {listed(groups)} {'once' if once else 'equally often'}, "
            f"beside numbers in {listed([one.name for one in large])}: cells of a table, not people",
            expected=f'--count "{large[0].name}", if a row stands for that many people; --kind '
            "people, if each row is one person",
        )


_ID_LIKE = re.compile(r"(^| )(id|nr|no|number|serial\w*|key|pin|lfd|index|\w*id)( |$)")


# --- places and attributes --------------------------------------------------------------------


def refuse_places(made: Draft, told: Told) -> None:
    """Refuse places that are not all of it: one alone, or a finer column left aside."""
    if told.places or made.kind == "wide":
        return
    seen, inside = made.look, made.look.frame
    leaf = made.geography.codes(inside)[-1]
    if leaf.n_unique() == 1:
        refuse(
            seen,
            place=f"column {made.places.columns[-1]!r}",
            found="one place only",
            expected=f'--places "{made.places.columns[-1]}", if that is right; or the columns of '
            "places from the top down",
        )
    both = inside.with_columns(leaf.alias("\0leaf"))
    for one in seen.columns:
        if one.name in {*_used(made), *made.include} - {a.column for a in made.attributes}:
            continue
        often = inside.height >= 5 * one.number and one.number > leaf.n_unique()
        text = not one.decimal and not made.is_key(one) and not single_years(one)
        if often and text and same_for_all(both, one.name, "\0leaf"):
            refuse(
                seen,
                place=f"column {one.name!r}",
                found=f"values each of which lies within one {made.places.columns[-1]!r}, and more "
                "of them: smaller places?",
                expected=f'--places "{",".join((*made.places.columns, one.name))}", if they are; '
                "--attributes, if they are not",
            )


def refuse_coded_ages(made: Draft, told: Told) -> None:
    """Refuse ages that may be codes of age groups."""
    for one in made.attributes:
        column = made.look.column(one.column)
        if one.bins and not told.ages and not (column.numbers and column.numbers[-1] >= 25):
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
            pairs = inside.select(one.column, other.column).n_unique()
            if pairs != max(sizes) or inside.height < 5 * pairs:
                continue
            coded = inside[one.column].drop_nulls().str.contains(r"^[\d.]+$").all()
            finer = sizes[1] > sizes[0]
            if finer or (sizes[0] == sizes[1] and coded):
                twins[one.column] = other.column
    return twins


# --- the number of people ---------------------------------------------------------------------


def refuse_other_size(made: Draft, people: int, told: Told) -> None:
    """Refuse more people than the largest column called a population has, or far fewer."""
    if told.kind is not None or told.universe:
        return
    inside = made.look.frame
    sizes = {
        one.name: float(_maybe(inside[one.name], made.look).sum() or 0)
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
