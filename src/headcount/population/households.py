"""``kind = "households"``: people in dwellings, from a table of persons and one of dwellings.

They can be written as tables that are read back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Codes, Ints, Ints32
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError, Problems
from headcount.fields import FilePath
from headcount.geography import Areas, Geography
from headcount.geography.geography import (
    GeographyLike,
    GeographySource,
    geography_source,
    place_rows,
)
from headcount.population._base import FromTables, GeographyTable, InDwellings, refuse_twice
from headcount.population.columns import (
    AttributeColumn,
    KeyColumn,
    coded,
    whole_numbers,
    without_missing,
)
from headcount.population.people_table import (
    EVERY_ROW,
    RowChoice,
    cut_codes,
    left_out_by,
    place_table,
)
from headcount.population.population import HOUSEHOLD, VACANT, Households, Population, ReadSummary
from headcount.population.suspicious import Totals, without_totals
from headcount.population.tables import AnyTable, Rows, header_of, read_rows, table_of
from headcount.population.text_files import PLAIN, Format
from headcount.processes import Progress, silent
from headcount.schema import Attribute, Follows

KINDS = ("household", "vacant")
"""Kinds of dwelling in a file that has no facilities."""
MOST_LEVELS, MOST_KINDS = np.iinfo(np.int16).max, np.iinfo(np.int8).max
"""Levels of an attribute are numbered in 16 bits, kinds of dwelling in 8."""
_DWELLING = "\0dwelling"  # a name that no column of a file has


@dataclass(frozen=True, kw_only=True)
class HouseholdTables(InDwellings, FromTables):
    """A table of persons, and one of dwellings.

    where
        persons              one row per person
        dwellings            one row per dwelling; without it its columns are read from the persons
        key                  the column of the dwelling's key, in both files
        geography            columns of places, of the dwellings
        attribute            columns of attributes of persons
        dwelling_attribute   columns of attributes of dwellings
        kind_column          the kind of each dwelling
        kinds                its values: household, vacant, then facilities
        size_column          number of people in each dwelling, to be checked
        areas                columns of areas that cut across the tree
        totals               what to do with rows that look like totals
    """

    kind = "households"
    persons: FilePath
    dwellings: FilePath | None = None
    key: str
    geography: GeographyTable
    attribute: tuple[AttributeColumn, ...] = ()
    dwelling_attribute: tuple[AttributeColumn, ...] = ()
    kind_column: str = ""
    kinds: tuple[str, ...] = KINDS
    size_column: str = ""
    areas: tuple[str, ...] = ()
    totals: Literal["refuse", "keep"] = "refuse"

    def __post_init__(self) -> None:
        InDwellings.__post_init__(self)
        FromTables.__post_init__(self)
        refuse_twice(self.known_attributes(), "attribute")
        refuse_twice(self.kinds, "kind")
        refuse_twice(self.areas, "area")
        if len(self.kinds) < 2:
            raise ConfigError(
                "population",
                place="kinds",
                found=str(list(self.kinds)),
                expected="two or more: household, vacant, then facilities",
            )
        own = (*self.attribute, *self.dwelling_attribute)
        if self.keys is not None:
            self.keys.refuse_shared(self.key, *self.geography.columns, *(one.column for one in own))
        for one in self.attribute:
            one.refuse_follows(Follows.PERSON, Follows.MEMBERS)
        for one in self.dwelling_attribute:
            one.refuse_follows(Follows.DWELLING, Follows.SIZE, Follows.MEMBERS)
        for one in own:
            one.refuse_size(size_column=self.size_column)

    @property
    def data_file(self) -> Path:
        """The table of persons."""
        return self.persons

    def known_attributes(self) -> tuple[str, ...]:
        """Names that may be chosen, beside the kind of dwelling."""
        return tuple(a.name for a in (*self.attribute, *self.dwelling_attribute))

    def domain(self) -> Domain:
        """The cells that the attributes make up, and the places of the list of units."""
        columns = {"attribute": self.attribute, "dwelling_attribute": self.dwelling_attribute}
        for key, those in columns.items():
            for one in those:
                if one.known_levels is None:
                    raise ConfigError(
                        "population",
                        place=f"{key} {one.name!r}",
                        found="no levels",
                        expected="levels = [...]: without a list they are known from the people "
                        "alone",
                    )
        return self.chosen(self._without_people(self.places(self.geography, self.totals))).domain

    def _without_people(self, places: Geography) -> Households:
        """The attributes and places as they are read, with nobody in them."""
        own = (*self.attribute, *self.dwelling_attribute)
        levels = (said for one in own for said in one.read_off)
        persons, dwellings = (
            tuple(one.attribute(one.known_levels or ()) for one in those)
            for those in (self.attribute, self.dwelling_attribute)
        )
        none = np.empty(0, dtype=np.int32)
        return Households(
            str(self.persons),
            places,
            persons,
            dwellings,
            self.kinds,
            block=none,
            kind=none.astype(np.int8),
            first=np.zeros(1, dtype=np.int64),
            persons={one.name: none for one in persons},
            dwellings={one.name: none for one in dwellings},
            public=self.public,
            read_off=(*self.places_read_off(self.geography), *levels),
            left_out=left_out_by(self.choice, own),
        )

    def read(self, progress: Progress = silent) -> Population:
        """Read the people in their dwellings."""
        households = read_households(
            self.persons,
            self.dwellings,
            key=self.key,
            geography=self.geography,
            attributes=self.attribute,
            dwelling_attributes=self.dwelling_attribute,
            kind=self.kind_column,
            kinds=self.kinds,
            size=self.size_column,
            areas=self.areas,
            units=self.units,
            units_from_data=self.units_from_data,
            public=self.public,
            totals=self.totals,
            keys=self.keys,
            choice=self.choice,
            form=self.format,
        )
        return self.chosen(households)


def read_households(
    persons: AnyTable | str,
    dwellings: AnyTable | str | None = None,
    *,
    key: str,
    geography: GeographyLike,
    attributes: Sequence[AttributeColumn],
    dwelling_attributes: Sequence[AttributeColumn] = (),
    kind: str = "",
    kinds: tuple[str, ...] = KINDS,
    size: str = "",
    areas: Sequence[str] = (),
    units: AnyTable | str | None = None,
    units_from_data: bool = False,
    public: bool = False,
    totals: Totals = "refuse",
    keys: KeyColumn | None = None,
    choice: RowChoice = EVERY_ROW,
    form: Format = PLAIN,
) -> Households:
    """Read people in dwellings.

    where
        persons               one row per person: the key of their dwelling, their attributes
        dwellings             one row per dwelling: its key, geography, attributes. Without it
                              those columns are read from the persons, and must be the same for all
                              who share a key
        key                   column that holds the key, in both files
        kind, kinds           column of the kind of dwelling, and its values: household first,
                              vacant second, then types of group quarters. Without the column a
                              dwelling is a household, or vacant if nobody lives there
        size                  column with the number of people, to be checked
        areas                 columns of off-spine areas such as places, empty for none; from
                              ``units`` if it has them
        units                 the public list of leaf units, as for ``read_microdata``
        totals                ``"keep"``: codes that look like rows of totals are those of units
        keys                  the column of persons with ids or record keys that go with them
        choice, form          which rows are read, and how files are written

    Persons may carry geography columns beside a dwelling table; they must then agree with it.
    Whoever lives in a dwelling that is left out is left out too, and so is a dwelling all of whose
    people are. Sizes are checked before rows without a value are left out.
    """
    geography = geography_source(geography)
    listed = _listed(areas, units, geography, form)
    shared = [*geography.columns, *(a.column for a in dwelling_attributes)]
    shared += [column for column in (kind, size) if column]
    shared += [area for area in areas if area not in listed]
    own = [key, *(a.column for a in attributes), *([keys.column] if keys else [])]
    second = None if dwellings is None else table_of(dwellings)
    people, homes = _chosen(table_of(persons), second, own, shared, geography, choice, form)
    without_totals(homes, geography, totals, may_drop=False)
    pick, dwelling = _join(people, homes, key)
    for column in dict.fromkeys(shared):
        if column in people.frame.columns:
            _refuse_spread(column, people, homes, pick[dwelling], key, geography)
    if size:
        _check_size(homes, size, pick, np.bincount(dwelling, minlength=len(pick)), key)
    people, homes = _with_values(people, homes, attributes, dwelling_attributes, key)
    pick, dwelling = _join(people, homes, key)
    living = np.bincount(dwelling, minlength=len(pick))
    problems, of_homes = people.problems(), homes.problems()
    codes = _kinds(homes, kind, kinds, pick, living, key)
    own_columns = [_open_if_size(column, size) for column in attributes]
    of_persons, person_codes, more = _attributes(people, own_columns, problems)
    of_dwellings, dwelling_codes, most = _attributes(homes, dwelling_attributes, of_homes)
    problems.refuse()
    of_homes.refuse()
    tree, unit, read_off = place_table(
        homes, geography, units, totals=totals, from_data=units_from_data
    )
    order = np.argsort(dwelling, kind="stable")
    return Households(
        people.name,
        tree,
        of_persons,
        of_dwellings,
        kinds,
        unit[pick],
        codes,
        np.concatenate([[0], np.cumsum(living)]),
        {name: values[order] for name, values in person_codes.items()},
        {name: values[pick] for name, values in dwelling_codes.items()},
        tuple(_areas(area, listed.get(area, homes), geography, tree) for area in areas),
        public=public,
        read_off=(*read_off, *more, *most),
        reading=ReadSummary(
            rows=tuple({one.name: one.frame.height for one in (homes, people)}.items()),
            left_out=people.left_out if homes is people else (*people.left_out, *homes.left_out),
            remarks=cut_codes(homes.frame, geography),
        ),
        left_out=left_out_by(choice, (*attributes, *dwelling_attributes)),
        record_keys=None if keys is None else keys.read(people).of(order),
    )


def _chosen(
    persons: AnyTable,
    dwellings: AnyTable | None,
    own: Sequence[str],
    shared: Sequence[str],
    geography: GeographySource,
    choice: RowChoice,
    form: Format,
) -> tuple[Rows, Rows]:
    """The rows of persons and of dwellings that are chosen; one and the same without dwellings."""
    if dwellings is None:
        rows = choice.of(read_rows(persons, [*own, *shared, *choice.columns], form=form))
        return rows, rows
    both = header_of(dwellings, form.of_others) if choice.columns else []
    of_homes = choice.within(both)
    here = header_of(persons, form) if choice.columns else []
    of_people = choice.within([c for c in choice.columns if c in here or c not in both])
    people = read_rows(
        persons,
        [*own, *geography.columns, *of_people.columns],
        optional=set(geography.columns) - {*own, *of_people.columns},
        form=form,
    )
    homes = read_rows(dwellings, [own[0], *shared, *of_homes.columns], form=form.of_others)
    return _agreeing(people, of_people.of(people), homes, of_homes.of(homes), own[0])


def _with_values(
    people: Rows,
    homes: Rows,
    attributes: Sequence[AttributeColumn],
    dwelling_attributes: Sequence[AttributeColumn],
    key: str,
) -> tuple[Rows, Rows]:
    """Persons and dwellings without those that lack a value and are then to be left out."""
    if homes is people:
        rows = without_missing(people, (*attributes, *dwelling_attributes))
        return rows, rows
    left = without_missing(people, attributes), without_missing(homes, dwelling_attributes)
    return _agreeing(people, left[0], homes, left[1], key)


def _agreeing(
    all_people: Rows, people: Rows, all_homes: Rows, homes: Rows, key: str
) -> tuple[Rows, Rows]:
    """Without people whose dwelling is left out, and dwellings whose people all are."""

    def keys(rows: Rows) -> pl.Series:
        return rows.frame[key].cast(pl.String)

    if homes is not all_homes:
        gone = keys(all_homes).filter(~keys(all_homes).is_in(keys(homes).implode()))
        people = people.only(
            ~keys(people).is_in(gone.implode()).fill_null(False),
            without="people of dwellings left out",
        )
    if people is not all_people:
        gone = keys(all_people).filter(~keys(all_people).is_in(keys(people).implode()))
        homes = homes.only(
            ~keys(homes).is_in(gone.implode()).fill_null(False),
            without="dwellings of people left out",
        )
    return people, homes


def _join(people: Rows, homes: Rows, key: str) -> tuple[Ints, Ints]:
    """The row of the table where each dwelling stands, and for each person the dwelling.

    If the table is that of the persons, a dwelling stands where its first person does.
    """
    known, wanted = homes.frame[key].cast(pl.String), people.frame[key].cast(pl.String)
    place = f"column {key!r}"
    for rows, values in ((people, wanted), (homes, known)):
        problems = rows.problems()
        problems.add(
            values.is_null().arg_true(),
            place=place,
            found=lambda row: "nothing",
            expected="the key of a dwelling",
        )
        problems.refuse()
    once = known.is_first_distinct()
    if homes is not people:
        problems = homes.problems()
        problems.add(
            (~once).arg_true(),
            place=place,
            found=lambda row: f"key {known[row]!r} a second time",
            expected="one row for each dwelling",
        )
        problems.refuse()
    numbered = known.filter(once).to_frame(key).with_row_index(_DWELLING)
    found = wanted.to_frame(key).join(numbered, on=key, how="left", maintain_order="left")
    problems = people.problems()
    problems.add(
        found[_DWELLING].is_null().arg_true(),
        place=place,
        found=lambda row: f"key {wanted[row]!r}",
        expected=f"a key of {homes.name}",
    )
    problems.refuse()
    at = once.arg_true().to_numpy().astype(np.int64)
    return at, found[_DWELLING].to_numpy().astype(np.int64)


def _refuse_spread(
    column: str,
    people: Rows,
    homes: Rows,
    row_of: Ints,
    key: str,
    geography: GeographySource,
) -> None:
    """A dwelling stands in one unit and has one value of each of its columns."""
    here = people.frame[column].cast(pl.String)
    there = homes.frame[column].cast(pl.String).gather(row_of)
    problems, placed = people.problems(), column in geography.columns
    problems.add(
        here.ne_missing(there).arg_true(),
        place=f"column {column!r}",
        found=lambda row: (
            f"{here[row]!r} where dwelling {people.frame[key][row]!r} has {there[row]!r}"
        ),
        expected="a household in one unit" if placed else "one value for each dwelling",
    )
    problems.refuse()


def _kinds(
    homes: Rows, column: str, kinds: tuple[str, ...], pick: Ints, living: Ints, key: str
) -> NDArray[np.int8]:
    if not len(KINDS) <= len(kinds) <= MOST_KINDS:
        raise InputError(
            homes.name,
            place="kinds",
            found=f"{len(kinds)}: {list(kinds)}",
            expected=f"household, vacant, facilities; at most {MOST_KINDS}",
        )
    if not column:
        return np.where(living > 0, HOUSEHOLD, VACANT).astype(np.int8)
    problems = homes.problems()
    _, numbers, _ = coded(
        homes, AttributeColumn(name="kind", column=column, levels=kinds), problems
    )
    problems.refuse()
    codes = numbers.astype(np.int8)[pick]
    for bad, found, expected in (
        ((codes == VACANT) & (living > 0), "people in a vacant dwelling", "nobody there"),
        ((codes == HOUSEHOLD) & (living == 0), "an occupied dwelling without people", "someone"),
    ):
        problems.add(
            np.sort(pick[bad]).tolist(),
            place=f"column {column!r}",
            found=lambda row, found=found: f"{found} ({key} {homes.frame[key][row]!r})",  # type: ignore[misc]
            expected=expected,
        )
    problems.refuse()
    return codes


def _check_size(homes: Rows, column: str, pick: Ints, living: Ints, key: str) -> None:
    problems = homes.problems()
    sizes = whole_numbers(homes, column, problems)[pick]
    problems.refuse()
    # Which number was found, and which expected, would be counts of the truth.
    problems.add(
        np.sort(pick[sizes != living]).tolist(),
        place=f"column {column!r}",
        found=lambda row: (
            f"a size of {key} {homes.frame[key][row]!r} other than its number of persons"
        ),
        expected="the number of persons with that key",
    )
    problems.refuse()


def _open_if_size(column: AttributeColumn, size: str) -> AttributeColumn:
    """A column of persons that is the number of people: not the person's own unless said to be."""
    if size and column.column == size and column.follows is None:
        return replace(column, follows=Follows.UNSTATED)
    return column


def _attributes(
    rows: Rows, columns: Sequence[AttributeColumn], problems: Problems
) -> tuple[tuple[Attribute, ...], dict[str, NDArray[np.int16]], tuple[str, ...]]:
    """Attributes, their codes, and which levels were read from the data."""
    known: list[Attribute] = []
    codes: dict[str, NDArray[np.int16]] = {}
    read_off: tuple[str, ...] = ()
    for wanted in columns:
        attribute, numbers, said = coded(rows, wanted, problems)
        if attribute.size > MOST_LEVELS:
            raise InputError(
                rows.name,
                place=f"column {wanted.column!r}",
                found=f"{attribute.size:,} levels",
                expected=f"at most {MOST_LEVELS:,}",
            )
        known.append(attribute)
        codes[wanted.name] = numbers.astype(np.int16)
        read_off = (*read_off, *said)
    return tuple(known), codes, read_off


def _listed(
    areas: Sequence[str],
    units: AnyTable | str | None,
    geography: GeographySource,
    form: Format,
) -> dict[str, Rows]:
    """The area columns that the list of units has, each with that list."""
    if units is None or not areas:
        return {}
    rows = read_rows(
        table_of(units), [*geography.columns, *areas], optional=set(areas), form=form.of_others
    )
    return {area: rows for area in areas if area in rows.frame.columns}


def _areas(column: str, rows: Rows, source: GeographySource, tree: Geography) -> Areas:
    """The map from leaf units to areas; a leaf in two areas is an error."""
    leaf = place_rows(source.leaf(rows.frame), tree, name=rows.name, where=rows.where)
    codes = rows.frame[column].cast(pl.String).replace("", None)
    known = codes.drop_nulls().unique().sort()
    numbers = {code: number for number, code in enumerate(known.to_list())}
    area = codes.replace_strict(numbers, default=-1, return_dtype=pl.Int32).to_numpy()
    of_leaf = np.full(tree.size(tree.leaf), -1, dtype=np.int32)
    of_leaf[leaf] = area
    problems = rows.problems()
    problems.add(
        np.flatnonzero(of_leaf[leaf] != area).tolist(),
        place=f"column {column!r}",
        found=lambda row: f"unit {str(tree.units[-1][leaf[row]])!r} in two areas",
        expected="each unit in one area, or in none",
    )
    problems.refuse()
    return Areas(column, known.to_numpy().astype(np.str_), of_leaf)


KEY = "dwelling"


def write_households(households: Households, folder: Path) -> None:
    """Write ``persons.parquet``, ``dwellings.parquet`` and ``units.parquet`` into a new folder.

    ``dwelling`` is the key in the first two; dwellings have a code column for each level, their
    ``kind`` and ``size``; units are all leaves, with the areas they lie in. This is the truth:
    where the population is not made up, the folder is as confidential as the source.
    """
    if folder.exists():
        raise InputError(str(folder), found="a folder", expected="a new one, to write into")
    tree = households.geography
    number = np.arange(len(households.block))
    persons = {KEY: pl.Series(households.dwelling)} | _labels(
        households.person_attributes, households.persons
    )
    dwellings = {
        KEY: pl.Series(number),
        **_codes(tree, households.block),
        "kind": _label(households.kinds, households.kind),
        "size": pl.Series(households.size),
        **_labels(households.dwelling_attributes, households.dwellings),
    }
    leaves = np.arange(tree.size(tree.leaf), dtype=np.int32)
    units = _codes(tree, leaves)
    for area in households.areas:
        # Position -1 is the last: no area.
        codes = pl.Series([*area.codes.tolist(), None], dtype=pl.String)
        units[area.name] = codes.gather(area.of_leaf % (area.size + 1))
    folder.mkdir(parents=True)
    for name, table in (("persons", persons), ("dwellings", dwellings), ("units", units)):
        pl.DataFrame(table).write_parquet(folder / f"{name}.parquet")


def _codes(tree: Geography, leaf: Ints32) -> dict[str, pl.Series]:
    """A column of unit codes for each level below the whole."""
    return {
        level: _label(tuple(tree.units[depth].tolist()), tree.ancestors(level)[leaf])
        for depth, level in enumerate(tree.levels)
        if depth
    }


def _labels(attributes: tuple[Attribute, ...], codes: Codes) -> dict[str, pl.Series]:
    return {a.name: _label(a.levels, codes[a.name]) for a in attributes}


def _label(levels: tuple[str, ...], codes: NDArray[np.integer]) -> pl.Series:
    return pl.Series(levels, dtype=pl.String).gather(codes.astype(np.int64))
