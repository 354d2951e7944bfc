"""Doubts about columns of counts, and about rows that add up others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.init.doubts import (
    FEW,
    as_numbers,
    is_row_number,
    listed,
    refuse,
    refuse_other_units,
)
from headcount.init.doubts_levels import (
    MOST_TOLD,
    refuse_levels_in_one_column,
    refuse_levels_told,
)
from headcount.init.look import SeenColumn, SeenFile
from headcount.init.places import total_rows
from headcount.init.wide import WideCells, calls_itself_total, numbers_of
from headcount.init.words import OTHER_UNITS, POPULATION
from headcount.population.adding_up import (
    SURE,
    NearSum,
    digits,
    equal_families,
    families_within,
    is_partition,
    nearly_sums,
)
from headcount.population.columns import MARKS
from headcount.population.suspicious import blank_or_total

if TYPE_CHECKING:
    from headcount.init.decide import Draft
    from headcount.init.told import Blank, Told


def refuse_withheld(seen: SeenFile, names: Sequence[str], *, said: Blank) -> None:
    """Refuse signs in the place of counts, unless it is ``said`` what they are."""
    for name in names:
        column = seen.column(name)
        odd = column.present.filter(~column.are_numbers)
        if len(odd) and not (said and odd.str.contains(MARKS[said]).all()):
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
        found=f"{what} in place of a count",
        expected="whole numbers: what is withheld or missing is not 0. --blank-counts zero says "
        "that nothing, '.', '..', '-' and 'NA' are nobody; --blank-counts withheld, that whoever "
        "is in such counts ('x', '(D)', 'c', ':', '*', '<5') is not to be counted; a config says "
        "it with blank_counts under [population]",
    )


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
    if told.kind is None and not told.universe:
        refuse_other_units(seen, names)
    sound = [name for name in cells.totals if not seen.column(name).has_gaps]
    totals = numbers_of(seen.frame, sound, seen.form) if sound else counts[:, :0]
    if digits(whole) >= SURE and bool((totals == whole[:, None]).all(axis=0).any()):
        return True
    near = _nearly_total(names, counts)
    if near is not None and len(near.wrong):
        _refuse_total_that_differs(seen, names, near, rows=len(counts))
    found = [*cells.totals, *([] if near is None else [names[near.total]])]
    if found:
        refuse(
            seen,
            place="columns",
            found=f"totals {listed(found)}, none of which adds up all other columns: they count "
            "the same people twice (overlap), or not people alone",
            expected=f'the columns of one universe: --universe "{found[0]}" takes those with that '
            'in their names, --not-counts "A,B" leaves columns out',
        )
    if times := len(equal_families(counts)):
        refuse(
            seen,
            place="columns",
            found=f"{times} families of columns with the same sum in every row: the same people, "
            f"counted {times} times (overlap)",
            expected='one of them: --not-counts "A,B" leaves columns out',
        )
    if told.kind == "wide" or (told.universe and len(names) > 1):
        return False
    if len(names) == 1:
        _refuse_beside_one(seen, names[0], numeric, told)
        return False
    _refuse_parts(seen, cells, names, counts)
    if not all(is_partition(levels) for _, levels in cells.attributes):
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
    vague = calls_itself_total(name) or not POPULATION.search(seen.column(name).says)
    others = [
        one.name
        for one in numeric
        if one.name != name
        and one.number > 1
        and not is_row_number(one)
        and ((vague and one.whole) or not OTHER_UNITS.search(one.says))
    ]
    if others and not told.universe:
        refuse(
            seen,
            place="columns",
            found=f"one column of whole numbers, {name!r}, beside {listed(others)}: does it count "
            "people?",
            expected=f'--universe "{name}", if it does',
        )


def _nearly_total(names: Sequence[str], counts: Ints) -> NearSum | None:
    """A column that is called a total, or else any, that nearly or wholly adds up others."""
    if len(names) < 3:
        return None
    called = [k for k, name in enumerate(names) if calls_itself_total(name)]
    near = next(nearly_sums(counts, among=called), None) if called else None
    near = near or next(nearly_sums(counts), None)
    if near is None and called:
        return NearSum(called[0], (), np.arange(len(counts)), 0)
    return near


def _refuse_total_that_differs(
    seen: SeenFile, names: Sequence[str], near: NearSum, *, rows: int
) -> NoReturn:
    found = "the name of a total, and no columns that it adds up"
    if near.parts:
        where = ", ".join(seen.rows.where(near.wrong[:FEW].tolist()))
        found = (
            f"nearly the sum of {listed([names[k] for k in near.parts])}, a total that does not "
            f"add up in {len(near.wrong)} of {rows} rows: {where} (by {near.off:+} in the first)"
        )
    refuse(
        seen,
        place=f"column {names[near.total]!r}",
        found=found,
        expected=f'columns that add up; --not-counts "{names[near.total]}" leaves it out, if the '
        "others are right",
    )


def _refuse_parts(seen: SeenFile, cells: WideCells, names: Sequence[str], counts: Ints) -> None:
    """Refuse families of columns of which one is at most the other, row by row."""
    if found := families_within(counts, [cells.levels_of[name] for name in names]):
        part, whole = found
        refuse(
            seen,
            place="columns",
            found=f"two families, {listed([names[k] for k in part.columns])} at most "
            f"{listed([names[k] for k in whole.columns])} in every row: part of the same people, "
            "who are then counted twice (overlap)",
            expected=f'--universe "{whole.name}" or --universe "{part.name}" takes one of them; '
            "--kind wide says that they are different people",
        )


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
    numbers = frame.select(
        *keys,
        *(pl.Series(f"\0{k}", as_numbers(frame[name], seen)) for k, name in enumerate(counts)),
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


def refuse_levels_of_wide(made: Draft, told: Told) -> None:
    """Refuse rows of a wide table that add up others, but for those that are left out."""
    assert made.cells is not None
    frame, column = made.look.frame, made.places.columns[-1]
    kept = frame.filter(~frame[column].is_in(made.exclude.get(column, [])))
    counts = numbers_of(kept, list(made.cells.levels_of), made.look.form)
    for one in made.look.columns:
        if one.name not in made.places.columns and not one.numeric and 1 < one.number <= MOST_TOLD:
            values = kept[one.name].fill_null("")
            labels = values.unique(maintain_order=True).to_list()
            rows = [counts[(values == value).to_numpy()].sum(axis=0) for value in labels]
            refuse_levels_told(made.look, one.name, labels, np.array(rows))
    codes, sure = kept[column].to_list(), told.kind is not None
    refuse_levels_in_one_column(made.look, codes, counts, column=column, sure=sure)
