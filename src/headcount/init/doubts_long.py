"""Doubts about a table with a row for each place and group, and a number of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.init.attributes import is_of_people
from headcount.init.doubts import (
    as_numbers,
    is_row_number,
    listed,
    refuse,
    refuse_measures,
    refuse_other_units,
)
from headcount.init.doubts_levels import refuse_levels_in_one_column, refuse_sum_of_levels
from headcount.init.doubts_wide import (
    refuse_blanks,
    refuse_totals_that_differ,
    refuse_withheld,
)
from headcount.init.look import SeenColumn, SeenFile
from headcount.init.words import OTHER_UNITS

if TYPE_CHECKING:
    from headcount.init.decide import Draft
    from headcount.init.told import Told


LARGEST_CODE = 99
FEW_LEVELS = 12
"""Levels that codes of groups may have; more different numbers may be counts."""


def may_count(column: SeenColumn) -> bool:
    """Whether a column may count something: whole numbers, too many or too large for codes."""
    many = column.number > FEW_LEVELS or not column.whole or column.numbers[-1] >= LARGEST_CODE
    others = column.decimal or OTHER_UNITS.search(column.says) or is_row_number(column)
    return column.numeric and column.number > 1 and many and not others


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
        gone = (*made.places.columns, *made.include)
        refuse_measures(made.look, [one for one in made.look.columns if one.name not in gone])
        refuse_other_units(made.look, [])
        _refuse_unknown(made, told)
    _refuse_repeats(made, kept, told)
    if told.kind is None:
        _refuse_hidden_totals(made, kept, told)


def _groups(made: Draft, totals: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """The columns of groups, each with its levels that are totals."""
    return {one.column: totals.get(one.column, ()) for one in made.attributes}


def _refuse_other_numbers(made: Draft, told: Told) -> None:
    """Refuse a second column that may count people too."""
    places = made.places
    gone = {*places.columns, *places.others, made.count, *made.include}
    gone |= {one.column for one in made.attributes}
    others = [one.name for one in made.look.columns if one.name not in gone and may_count(one)]
    if others and not told.count:
        refuse(
            made.look,
            place="columns",
            found=f"whole numbers in {listed([made.count, *others])}: which of them counts the "
            "people, and are the others parts of them (overlap)?",
            expected=f'--count "{made.count}" takes that one',
        )


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
    said = ",".join(one.column for one in made.attributes)
    differ = "are the same twice"
    way = f'each place and group once; --attributes "{said}", if such rows are to be added up'
    if apart:
        differ = f"differ in {listed(apart)}: other dates, totals or parts?"
        way = f'--only "{apart[0]}=..." to take one of its values, or --attributes to use it'
    refuse(
        made.look,
        place="rows",
        found=f"rows of the same place and group ({listed(keys)}), which {differ}",
        expected=way,
    )


def _refuse_hidden_totals(made: Draft, kept: pl.DataFrame, told: Told) -> None:
    """Refuse levels and places that add up others, whatever they are called."""
    seen = made.look
    value = as_numbers(kept[made.count], seen).fill_null(0).cast(pl.Int64).alias("\0n")
    path = made.places.columns
    keys = [(path[-1], [*path])] if path else []
    keys += [(one.column, [one.column]) for one in made.attributes]
    everything = [name for _, names in keys for name in names]
    table = kept.select(*everything, value)
    for column, names in keys:
        rest = [name for name in everything if name not in names]
        size = table.select(names).n_unique() * (table.select(rest).n_unique() if rest else 1)
        if size > 20_000_000:
            continue
        matrix, labels = _crossed(table, names, rest)
        if names == [*path]:
            sure = told.kind is not None
            refuse_levels_in_one_column(seen, labels, matrix, column=column, sure=sure)
        else:
            refuse_sum_of_levels(seen, column, labels, matrix)


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
