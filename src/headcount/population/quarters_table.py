"""A table of living quarters: one row per leaf unit, one column for each type of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from headcount.arrays import Ints32
from headcount.errors import InputError
from headcount.fields import FilePath
from headcount.geography import Geography
from headcount.geography.build import (
    CodeColumns,
    GeographySource,
    Prefixes,
    build_geography,
    place_rows,
)
from headcount.population.format import PLAIN, Format
from headcount.population.frames import AnyTable, table_of
from headcount.population.population import Population
from headcount.population.quarters import Quarters
from headcount.population.tables import Rows, read_rows
from headcount.population.whole_numbers import whole_numbers


@dataclass(frozen=True, kw_only=True)
class QuartersTable:
    """A table of living quarters: one row per leaf unit, one column for each type.

    where
        attribute   the attribute whose levels are the types
        columns     the column of a level, where it is not named after it
        vacant      the column of vacant housing units, if there is one
    """

    file: FilePath
    attribute: str
    columns: Mapping[str, str] = field(default_factory=dict)
    vacant: str = ""

    def join(
        self, people: Population, geography: CodeColumns | Prefixes, form: Format
    ) -> Population:
        """The people with the living quarters of their units."""
        quarters = read_quarters(
            self.file,
            population=people,
            geography=geography,
            attribute=self.attribute,
            columns=self.columns,
            vacant=self.vacant,
            form=form,
        )
        return replace(people, quarters=quarters)


def read_quarters(
    path: AnyTable | str,
    *,
    population: Population,
    geography: GeographySource,
    attribute: str,
    columns: Mapping[str, str] | None = None,
    vacant: str = "",
    form: Format = PLAIN,
) -> Quarters:
    """Read living quarters: geography columns, then one column for each type, one row per leaf.

    ``columns`` maps a level of the attribute to its column, by default the level's own name;
    ``vacant`` is the column of vacant housing units, if there is one.
    """
    name, tree = str(path), population.geography
    known = population.schema.attribute(attribute)
    chosen = {level: (columns or {}).get(level, level) for level in known.levels}
    extra = [vacant] if vacant else []
    rows = read_rows(table_of(path), [*geography.columns, *chosen.values(), *extra], form=form)
    table, where, problems = rows.frame, rows.where, rows.problems()
    own, at = build_geography(table, geography, name=name, where=where, distinct=True)
    unit = place_rows(geography.codes(table)[-1], tree, name=name, where=where)
    _refuse_other_tree(own, at, tree, unit, rows)
    occupied = np.zeros((tree.size(tree.leaf), known.size), dtype=np.int64)
    empty = np.zeros(len(occupied), dtype=np.int64)
    for k, column in enumerate(chosen.values()):
        occupied[unit, k] = whole_numbers(rows, column, problems)
    if vacant:
        empty[unit] = whole_numbers(rows, vacant, problems)
    problems.refuse()
    return Quarters(tree, attribute, occupied, empty)


def _refuse_other_tree(
    own: Geography, at: Ints32, tree: Geography, unit: Ints32, rows: Rows
) -> None:
    """Refuse quarters of units under other parents, and units of the population without a row."""
    for level in tree.levels[1:-1]:
        here = own.units[own.depth(level)][own.ancestors(level)[at]]
        there = tree.units[tree.depth(level)][tree.ancestors(level)[unit]]
        if (wrong := np.flatnonzero(here != there)).size:
            row = int(wrong[0])
            raise InputError(
                rows.name,
                place=f"{rows.where([row])[0]}, unit {str(tree.units[-1][unit[row]])!r}",
                found=f"{level} {str(here[row])!r}",
                expected=f"{str(there[row])!r}, as in the population",
            )
    if (missing := np.setdiff1d(np.arange(tree.size(tree.leaf)), unit)).size:
        raise InputError(
            rows.name,
            place=f"unit {str(tree.units[-1][missing[0]])!r}",
            found="no row",
            expected=f"one for each {tree.leaf}, with zeros where there are no living quarters",
        )
