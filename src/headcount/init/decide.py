"""What to make of a file: its kind, its places, its attributes; each decision with its reason."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import polars as pl

from headcount.errors import InputError, did_you_mean
from headcount.geography.geography import CodeColumns, GeographySource, Prefixes, build_geography
from headcount.init import doubts, doubts_levels, doubts_long, doubts_rows, doubts_wide
from headcount.init.attributes import (
    Chosen,
    attribute_name,
    chosen,
    fitting,
    is_of_people,
    why_not,
)
from headcount.init.counts import (
    called_count,
    count_columns,
    counts_people,
    refuse_parts_of_people,
)
from headcount.init.layout import arranged
from headcount.init.look import SeenColumn, SeenFile, look, same_for_all
from headcount.init.places import FoundPlaces, find_places, is_place, total_rows
from headcount.init.tables import Counted, counted
from headcount.init.told import GEOGRAPHY, KINDS, Blank, FileKind, Told
from headcount.init.wide import WideCells, find_cells, numbers_of
from headcount.population.adding_up import SURE, digits
from headcount.population.people_table import refuse_no_choice
from headcount.population.suspicious import COUNT_WORDS, blank_or_total, sums_of_others
from headcount.population.tables import AnyTable

_KEY = re.compile(
    r"(^|.* )(hh|hhid|household|hhold|serial|dwelling|family|haushalt|hogar|foyer|ménage|menage"
    r"|housing unit|home|wohnung|vivienda)( (id|no|nr|number|num|key|serial|code))?$"
)


MEAN_HOUSEMATES = 8
"""People of a dwelling, on average, at most."""


class Ask(Protocol):
    """Whoever answers questions: a person, or whoever takes what is proposed."""

    def choose(self, question: str, options: Sequence[str], proposed: str) -> str:
        """One of the options; nothing, where nothing is proposed and nobody is there to say."""


class TakeProposals:
    """Answers as proposed, for scripts."""

    def choose(self, question: str, options: Sequence[str], proposed: str) -> str:
        """What is proposed."""
        return proposed


@dataclass(kw_only=True)
class Draft:
    """What is to be written.

    where
        units      the places of the leaf level, with those above
        notes      what was decided, and why
        include    values of a column whose rows alone are read
        exclude    values of a column whose rows are left out
        keep_sums  whether a place that has the people of all others is one like them
        codes      the columns of places as they are in all rows
        table      what is read, which need not be opened again
    """

    look: SeenFile
    kind: FileKind
    places: FoundPlaces
    units: pl.DataFrame
    attributes: list[Chosen] = field(default_factory=list)
    cells: WideCells | None = None
    count: str = ""
    key: str = ""
    not_counts: list[str] = field(default_factory=list)
    include: dict[str, list[str]] = field(default_factory=dict)
    exclude: dict[str, list[str]] = field(default_factory=dict)
    blank_counts: Blank = ""
    keep_sums: bool = False
    epsilon: str = "1"
    codes: dict[str, SeenColumn] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    table: AnyTable

    @staticmethod
    def is_key(column: SeenColumn) -> bool:
        """Whether a column is called like the key of a dwelling."""
        return bool(_KEY.match(column.says))

    @property
    def all_attributes(self) -> list[tuple[str, tuple[str, ...]]]:
        """Attributes with their levels: those of columns, then those of rows."""
        own = [(one.name, one.all_levels) for one in self.attributes]
        return [*(() if self.cells is None else self.cells.attributes), *own]

    @property
    def geography(self) -> GeographySource:
        """The geography as a config has it."""
        return _source_of(self.places)


@dataclass(frozen=True)
class Looked:
    """A file as it was found, before anything is decided.

    where
        table   what is read, which need not be opened again
        notes   what was found
        key     the column that people of one dwelling share, where other files have shown it
    """

    seen: SeenFile
    table: AnyTable
    notes: tuple[str, ...]
    key: str = ""


def looked_at(path: AnyTable, told: Told) -> Looked:
    """Look at a file."""
    found = arranged(path, sheet=told.sheet, form=told.form)
    seen = look(path, sheet=found.sheet, form=found.form, labels=found.labels)
    return Looked(seen, seen.rows.kept, (_told_format(seen), *found.notes))


def draft(
    path: AnyTable,
    *,
    ask: Ask | None = None,
    places: Sequence[str] = (),
    epsilon: str = "1",
    told: Told | None = None,
) -> Draft:
    """Look at a file and decide what to make of it; whoever is asked may decide otherwise."""
    told = told or Told(places=places)
    return decided(looked_at(path, told), told, ask=ask, epsilon=epsilon)


def decided(looked: Looked, told: Told, *, ask: Ask | None = None, epsilon: str = "1") -> Draft:
    """What to make of a file that was looked at."""
    answers = ask or TakeProposals()
    if looked.key and not told.key:
        told = replace(told, key=looked.key)
    seen, table, notes = looked.seen, looked.table, list(looked.notes)
    path = seen.path
    _refuse_no_columns(seen, told.columns())
    seen = seen.without(told.not_counts)
    doubts.refuse_odd_lines(seen)
    include = {one: list(values) for one, values in told.only.items()}
    include |= _one_time(seen, answers, told=told.columns(), notes=notes)
    exclude = {one: list(values) for one, values in told.leave_out.items()}
    every = _chosen_rows(seen, include, exclude)
    if told.kind is None and not told.columns() and (home := _numbered_in(every)):
        told = replace(told, key=home)
        notes.append(f"rows are people: they are numbered from 1 on in each {home!r}")
    if (sums := _by_sums(every, told, include)) is not None:
        return _counted_draft(every, sums, include, exclude, epsilon, notes, table)
    where = _places(seen, told)
    codes = {name: seen.column(name) for name in where.columns}
    seen = every.only(~total_rows(every.frame, where.columns))
    inside = seen.frame
    kind, count, key = _kind(seen, inside, where, told)
    reason = _why(kind, count, key)
    picked = answers.choose(f"What is {path.name}? {reason}", list(KINDS), kind)
    kind = next(one for one in KINDS if one == picked)
    if kind == "long" and not count:
        raise InputError(
            path.name,
            place="kind",
            found="no column of whole numbers that could be the counts of rows",
            expected="--count COLUMN, or another --kind",
        )
    notes.append(f"kind: {KINDS[kind]} ({reason})")
    notes += _told_places(where)
    build_geography(inside, _source_of(where), name=str(path))  # refuses codes that do not nest
    made = Draft(
        look=seen,
        kind=kind,
        places=where,
        units=_units(inside, where),
        count=count if kind == "long" else "",
        key=key if kind == "dwellings" else "",
        include=include,
        exclude=exclude,
        epsilon=epsilon,
        codes=codes,
        notes=notes,
        table=table,
    )
    if kind == "wide":
        _fill_wide(made, every, told)
        _refuse_unproved(made, told)
        return made
    _fill_attributes(made, inside, answers, told)
    doubts.refuse_coded_ages(made, told)
    if kind == "long":
        doubts_long.refuse_long(made, every, told)
        _refuse_unproved(made, told)
    else:
        doubts_rows.refuse_rows(made, every, told)
    doubts.refuse_places(made, told)
    return made


def _numbered_in(seen: SeenFile) -> str:
    """The key of dwellings in each of which people are numbered from 1 on; or nothing.

    Dwellings of several sizes: a table has as many groups in every place.
    """
    if any(map(called_count, seen.columns)):
        return ""
    for one in seen.columns:
        for home in seen.columns:
            several = len(one.values) / MEAN_HOUSEMATES <= home.number < len(one.values)
            if home is one or is_place(home) or not several:
                continue
            if _numbered_from_one(seen.frame, one, home.name) > 2:
                return home.name
    return ""


def _numbered_from_one(frame: pl.DataFrame, one: SeenColumn, home: str) -> int:
    """In how many sizes of dwellings a column numbers people from 1 on; 0 if not in all."""
    if not one.whole or one.has_gaps or one.numbers != list(range(1, one.number + 1)):
        return 0
    number = pl.Series("\0n", one.form.plain(one.values)).cast(pl.Float64)
    groups = frame.select(home).with_columns(number).group_by(home)
    sizes = groups.agg(pl.len(), n=pl.col("\0n").n_unique(), most=pl.col("\0n").max())
    alike = (sizes["len"] == sizes["n"]) & (sizes["len"] == sizes["most"])
    return sizes["len"].n_unique() if alike.all() else 0


def _refuse_unproved(made: Draft, told: Told) -> None:
    """Refuse a table of counts in which nothing adds up, unless somebody has said what it is."""
    said = told.kind or told.count or told.universe or told.attributes is not None
    if said or told.blank_counts:
        return
    counts = [made.count] if made.count else list(made.cells.levels_of if made.cells else ())
    doubts.refuse(
        made.look,
        place="columns",
        found=f"counts in {doubts.listed(counts)} that no total adds up, beside places in "
        f"{doubts.listed(made.places.columns) or 'no column'}: do they count people, each of them "
        "once?",
        expected=f"--kind {made.kind}, if they do; --not-counts, --universe or --count say which",
    )


def _by_sums(seen: SeenFile, told: Told, include: Mapping[str, object]) -> Counted | None:
    """The reading that adds up, where nobody has said what a row is."""
    said = told.kind or told.count or told.key or told.attributes is not None or told.blank_counts
    if said or isinstance(told.places, GEOGRAPHY):
        return None
    gone = set(include)
    if told.universe:
        numeric = [one for one in seen.columns if one.numeric and one.name not in told.places]
        gone |= {one.name for one in numeric if one.whole}
        gone -= {one.name for one in _of_universe(seen, numeric, told.universe)}
    else:
        doubts.refuse_times_beside(seen, [one for one in seen.columns if one.numeric])
    return counted(seen, told.places, tuple(gone))


def _counted_draft(
    every: SeenFile,
    found: Counted,
    include: dict[str, list[str]],
    exclude: dict[str, list[str]],
    epsilon: str,
    notes: list[str],
    table: AnyTable,
) -> Draft:
    """What is to be written of a table that adds up."""
    inside = every.frame.filter(~pl.Series(found.left_out))
    columns = list(found.cells.levels_of)
    long = len(columns) == 1 and bool(found.attributes)
    kind: FileKind = "long" if long else "wide"
    notes.append(f"kind: {KINDS[kind]} ({_why(kind, columns[0], '')})")
    notes += [*_told_places(found.places), *found.notes]
    for column, values in found.exclude.items():
        exclude[column] = [*exclude.get(column, []), *values]
        notes.append(f"rows left out: {doubts.listed(values)} in {column!r}")
    for name, levels in found.cells.attributes:
        notes.append(f"attribute {name!r}: {len(levels)} levels, from the names of columns")
    for one in found.attributes:
        notes.append(f"attribute {one.name!r} from column {one.column!r}: {one.size} levels")
    build_geography(inside, _source_of(found.places), name=str(every.path))
    return Draft(
        look=every,
        kind=kind,
        places=found.places,
        units=_units(inside, found.places),
        attributes=list(found.attributes),
        cells=None if long else found.cells,
        count=columns[0] if long else "",
        include=include,
        exclude=exclude,
        epsilon=epsilon,
        codes={name: every.column(name) for name in found.places.columns},
        notes=notes,
        table=table,
    )


def _source_of(places: FoundPlaces) -> GeographySource:
    """Places as the classes of a config have them."""
    if places.prefixes:
        return Prefixes(
            column=places.columns[0],
            prefixes=places.prefixes,
            root=places.root,
            fill_zeros=places.fill_zeros,
            longer=places.longer,
        )
    return CodeColumns(columns=places.columns, root=places.root, local_codes=places.local_codes)


def _refuse_no_columns(seen: SeenFile, names: Sequence[str]) -> None:
    known = [one.name for one in seen.columns]
    for name in names:
        if name not in known:
            raise InputError(
                str(seen.path),
                place=f"column {name!r}",
                found="no such column",
                expected=did_you_mean(name, known),
            )


def _places(seen: SeenFile, told: Told) -> FoundPlaces:
    known = [one.name for one in seen.columns]
    if isinstance(told.places, GEOGRAPHY):
        return _given(told.places, seen)
    found = find_places(seen, told.places)
    if found is None:
        raise InputError(
            str(seen.path),
            place="places",
            found=f"no column named like one: {', '.join(map(repr, known[:12]))}{_from(seen)}",
            expected='--places "state,county": the columns that say where, from the top down; '
            "--no-places, if there are none: everybody is in one place",
        )
    return found


def _from(seen: SeenFile) -> str:
    """Where the names of columns are from, if not from the file."""
    book = seen.form.layout
    return "" if book is None else f" (of the layout {book.name}: the file has no header line)"


def _given(source: GeographySource, seen: SeenFile) -> FoundPlaces:
    """Places as somebody has said."""
    totals = bool(total_rows(seen.frame, source.columns).any())
    if isinstance(source, CodeColumns):
        return FoundPlaces(
            columns=source.columns, root=source.root, local_codes=source.local_codes, totals=totals
        )
    return FoundPlaces(
        columns=source.columns,
        prefixes=source.prefixes,
        root=source.root,
        fill_zeros=source.fill_zeros,
        longer=source.longer,
        totals=totals,
    )


def _one_time(
    seen: SeenFile, answers: Ask, *, told: Sequence[str], notes: list[str]
) -> dict[str, list[str]]:
    """The one year or date that is to be read, where there are several: somebody must say it."""
    column = doubts.several_times(seen, told=told)
    if column is None:
        return {}
    question = f"{column.name!r} has several years or dates. Which one?"
    picked = answers.choose(question, column.real, "")
    if not picked:
        doubts.refuse(
            seen,
            place=f"column {column.name!r}",
            found=f"several years, dates or other times: {_times_named(column)}",
            expected=f'the rows of one of them: --only "{column.name}={_last_time(column)}"',
        )
    notes.append(f"rows: only those of {picked} in {column.name!r}")
    return {column.name: [picked]}


def _times_named(column: SeenColumn) -> str:
    """The times, if they are few: many may be dates in the lives of people."""
    few = len(column.real) <= doubts.MOST_YEARS
    return doubts.listed(column.real) if few else "more than can be the years of a table"


def _last_time(column: SeenColumn) -> str:
    return column.real[-1] if len(column.real) <= doubts.MOST_YEARS else "..."


def _chosen_rows(
    seen: SeenFile, include: Mapping[str, list[str]], exclude: Mapping[str, list[str]]
) -> SeenFile:
    wanted = pl.Series(np.ones(seen.frame.height, dtype=bool))
    for column, values in include.items():
        wanted &= seen.frame[column].fill_null("").is_in(values)
    for column, values in exclude.items():
        wanted &= ~seen.frame[column].fill_null("").is_in(values)
    if not wanted.any():
        refuse_no_choice(str(seen.path))
    return seen.only(wanted)


def _kind(
    seen: SeenFile, inside: pl.DataFrame, places: FoundPlaces, told: Told
) -> tuple[FileKind, str, str]:
    """The kind of file, the column of counts of a long one, and the key of dwellings."""
    if told.count or told.key:
        return "long" if told.count else "dwellings", told.count, told.key
    if told.kind is not None:
        return told.kind, "", ""
    others = [one for one in seen.columns if one.name not in (*places.columns, *places.others)]
    leaf = _source_of(places).leaf(inside)
    counted = any(counts_people(one, withheld=True) for one in others)
    if leaf.n_unique() == inside.height and counted:
        return "wide", "", ""
    refuse_parts_of_people(seen, others)
    counts = count_columns(others)
    homes = [one.name for one in others if _KEY.match(one.says) and one.number == inside.height > 1]
    if counts and homes:
        doubts.refuse(
            seen,
            place=f"column {homes[0]!r}",
            found=f"another household in every row, and {counts[0]!r}: are these the people who "
            "live in each?",
            expected=f'--count "{counts[0]}", if they are; --kind people protects households as if '
            "they were people",
        )
    if counts:
        return "long", counts[0], ""
    for one in others:
        repeats = 1 < one.number < 0.95 * inside.height
        if _KEY.match(one.says) and repeats and len(one.present) == len(one.values):
            lives = inside.select(leaf.alias("\0leaf"), one.name)
            if same_for_all(lives, one.name, "\0leaf"):
                return "dwellings", "", one.name
    return "people", "", ""


def _why(kind: FileKind, count: str, key: str) -> str:
    return {
        "wide": "every place stands in one row, beside columns of whole numbers",
        "long": f"{count!r} holds whole numbers, and places stand in several rows",
        "dwellings": f"{key!r} is shared by rows of the same place",
        "people": "places stand in several rows, and no column counts people",
    }[kind]


def _fill_wide(made: Draft, every: SeenFile, told: Told) -> None:
    """Cells and totals of a wide table; ``every``: with its rows of totals."""
    seen, places, inside = made.look, made.places, made.look.frame
    where = [seen.column(name) for name in places.columns]
    numeric = [
        one
        for one in seen.columns
        if one.name not in (*places.columns, *places.others, *made.include)
        and (one.whole or one.numeric or one.withheld)
    ]
    if told.universe:
        numeric = _of_universe(seen, numeric, told.universe)
    doubts.refuse_times_beside(seen, numeric)
    names = [
        one.name
        for one in numeric
        if counts_people(one, withheld=True)
        and not doubts.is_row_number(one)
        and not doubts.is_code(one, where)
    ]
    if not names:
        raise InputError(
            str(seen.path), found="no column of whole numbers", expected="counts of people"
        )
    doubts.refuse_odd_counts(seen, [one for one in numeric if one.name not in names])
    doubts_wide.refuse_withheld(seen, names, said=told.blank_counts)
    cells = find_cells(inside, names, seen.form)
    made.cells = cells
    if not doubts_wide.refuse_families(seen, cells, told, numeric):
        doubts_wide.refuse_blanks(seen, list(cells.levels_of), said=told.blank_counts)
    if cells.totals:
        listed = ", ".join(map(repr, cells.totals))
        made.notes.append(f"not used: {listed}: they add up others")
    others = [
        one.name
        for one in seen.columns
        if one.name not in (*places.columns, *places.others, *made.include, *names)
    ]
    if others:
        listed = ", ".join(map(repr, others))
        made.notes.append(f"not used: {listed}: no counts of people")
    for name, levels in cells.attributes:
        made.notes.append(f"attribute {name!r}: {len(levels)} levels, from the names of columns")
    _note_blanks(made, list(cells.levels_of), told)
    if not places.columns:
        if inside.height > 1:
            doubts.refuse(
                seen,
                place="rows",
                found="several rows of counts in one place: what tells them apart?",
                expected="one row; --kind long --count COLUMN, if a row is a group; --places",
            )
        return
    doubts_wide.refuse_totals_that_differ(
        every, places=places.columns, totals={}, counts=list(cells.levels_of)
    )
    _leave_sums_out(made, inside, list(cells.levels_of), told)
    doubts_wide.refuse_levels_of_wide(made, told)


def _of_universe(seen: SeenFile, numeric: Sequence[SeenColumn], universe: str) -> list[SeenColumn]:
    """The columns of counts that are called like a universe, or have its name as a part."""
    wanted = doubts.says(universe)
    found = [one for one in numeric if f" {wanted} " in f" {doubts.says(one.name)} "]
    if not found:
        doubts.refuse(
            seen,
            place=f"universe {universe!r}",
            found="no column of numbers of that name",
            expected=did_you_mean(universe, [one.name for one in numeric]),
        )
    return found


def _leave_sums_out(made: Draft, inside: pl.DataFrame, names: Sequence[str], told: Told) -> None:
    """Rows that add up others, without a word that says so, are left out by their codes."""
    source = made.geography
    tree, unit = build_geography(inside, source, name=str(made.look.path))
    counts = numbers_of(inside, names, made.look.form)
    rows = sums_of_others(counts, unit, tree)
    column = made.places.columns[-1]
    codes = inside[column].gather(rows.tolist()).to_list()
    if not codes or inside.filter(inside[column].is_in(codes)).height > len(codes):
        return
    if digits(counts[rows]) < SURE * len(rows):  # small numbers may add up by chance
        if told.kind is None:
            doubts_levels.refuse_large(made.look, codes[0], column=column)
        made.keep_sums = True
        return
    made.exclude[column] = [*made.exclude.get(column, []), *codes]
    made.notes.append(f"rows left out: {column} {', '.join(codes)}, the sum of all others")
    kept = inside.filter(~inside[column].is_in(codes))
    made.units = _units(kept, made.places)


def _fill_attributes(made: Draft, inside: pl.DataFrame, answers: Ask, told: Told) -> None:
    """Attributes of people: those that are told, or those that are found."""
    made.not_counts = [one.name for one in made.look.columns if _is_count_name(one)]
    if made.kind == "long":
        made.not_counts = []
        _note_blanks(made, [made.count], told)
    if made.kind == "dwellings" and made.places.totals:
        for name in made.places.columns:
            codes = pl.Series(made.codes[name].distinct)
            words = ["", *codes.filter(blank_or_total(codes)).to_list()]
            made.exclude[name] = [*made.exclude.get(name, []), *words]
    if told.attributes is None:
        kept = _found_attributes(made, inside, told)
    else:
        long = made.kind == "long"
        kept = [
            chosen(made.look.column(column), name, totals=long, ages=told.ages)
            for name, column in told.attributes.items()
        ]
    made.attributes = [_asked(one, made, answers) for one in kept]


def _found_attributes(made: Draft, inside: pl.DataFrame, told: Told) -> list[Chosen]:
    """Columns that are attributes, and a note of those that are none, with the reason."""
    seen, places = made.look, made.places
    gone = {*places.columns, *places.others, *made.include, made.count, made.key}
    found: list[Chosen] = []
    reasons: dict[str, list[str]] = {}
    here = inside.with_columns(made.geography.leaf(inside).alias("\0leaf"))
    leaves = here["\0leaf"].n_unique()

    def same_in_place(name: str) -> bool:
        several = 1 < leaves <= inside.height // 2
        return several and same_for_all(here, "\0leaf", name)

    for column in seen.columns:
        if column.name in gone:
            continue
        reason = why_not(column, rows=inside.height)
        if not reason and made.kind != "long" and _is_count_name(column) and column.whole:
            reason = "it is called like a number of people, and is not taken for one"
        if not reason and same_in_place(column.name):
            reason = "it is the same for all who live in a place"
        if not reason and made.key and same_for_all(inside, made.key, column.name):
            reason = "it is the same for all who share a dwelling"
        if not reason and made.key and _numbered_from_one(inside, column, made.key):
            reason = "it numbers the people of a dwelling"
        if reason:
            reasons.setdefault(reason, []).append(column.name)
            continue
        name = attribute_name(column.name, {one.name for one in found})
        one = chosen(column, name, totals=made.kind == "long", ages=told.ages)
        if made.kind == "long" and doubts_long.may_count(column) and not is_of_people(one):
            reasons.setdefault("it may count something else", []).append(column.name)
            continue
        found.append(one)
    twins = doubts.one_variable_once(found, inside)
    for twin, other in twins.items():
        reasons.setdefault(f"it says no more than {other!r}", []).append(twin)
    kept, others = fitting([one for one in found if one.column not in twins])
    if others:
        reasons["the table would have too many cells"] = [one.column for one in others]
    for reason, names in reasons.items():
        made.notes.append(f"not used: {', '.join(map(repr, names))}: {reason}")
    return kept


def _asked(one: Chosen, made: Draft, answers: Ask) -> Chosen:
    """An attribute with what is done about missing values and totals, and a note of it."""
    how = f"years in bins ({one.bins})" if one.bins else f"{one.size - bool(one.missing)} levels"
    how += ", named by the file" if one.values else ""
    made.notes.append(f"attribute {one.name!r} from column {one.column!r}: {how}")
    if one.missing:
        question = f"Some rows have no {one.name!r}. A level of their own, or leave them out?"
        answer = answers.choose(question, ["level", "drop"], "level")
        one = Chosen(**{**vars(one), "missing": answer})
        said = "get the level 'unknown'" if answer == "level" else "are left out"
        made.notes.append(f"rows without {one.name!r} {said}")
    if one.totals:
        made.exclude[one.column] = [*made.exclude.get(one.column, []), *one.totals]
        listed = ", ".join(map(repr, one.totals))
        made.notes.append(f"rows left out: {listed} in {one.column!r}, the total of the others")
    return one


def _note_blanks(made: Draft, counts: Sequence[str], told: Told) -> None:
    """Note that counts are not there: those that are left have been said or shown to be 0."""
    columns = [made.look.column(name) for name in counts]
    if any(len(one.present) < len(one.values) or not one.are_numbers.all() for one in columns):
        made.blank_counts = told.blank_counts or "zero"
        made.notes.append("counts: what is not there is read as 0")


def _is_count_name(column: SeenColumn) -> bool:
    return column.name.casefold() in COUNT_WORDS


def _units(inside: pl.DataFrame, places: FoundPlaces) -> pl.DataFrame:
    """The list of units: codes of the leaf with those above, each once."""
    if not places.columns:
        return pl.DataFrame()
    if places.prefixes:
        column, source = places.columns[0], _source_of(places)
        assert isinstance(source, Prefixes)
        return source.full(inside).alias(column).unique().sort().to_frame()
    return inside.select(places.columns).unique().sort(list(places.columns))


def _told_format(seen: SeenFile) -> str:
    parts = []
    if seen.delimiter_found:
        names = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
        parts.append(f"text separated by {names.get(seen.delimiter_found, seen.delimiter_found)}")
        parts.append(f"in {seen.encoding_found}")
    if seen.form.decimal == ",":
        parts.append("with decimal commas")
    if seen.form.thousands:
        parts.append(f"with {seen.form.thousands!r} between thousands")
    other = f"a {seen.path.suffix} file" if seen.path.suffix else "a data frame"
    return f"file: {', '.join(parts) or other}"


def _told_places(places: FoundPlaces) -> list[str]:
    notes = []
    if not places.columns:
        notes.append("places: none, as somebody has said: everybody is in one")
    elif places.prefixes:
        levels = ", ".join(f"{level} ({length} characters)" for level, length in places.prefixes)
        notes.append(f"places: the code in {places.columns[0]!r}, cut into {levels}")
    else:
        within = ", each within the one before" if len(places.columns) > 1 else ""
        notes.append(f"places: {', '.join(map(repr, places.columns))}{within}")
    if places.fill_zeros:
        notes.append("places: some codes are one digit short; zeros are put back in front")
    if places.local_codes:
        notes.append("places: codes repeat between parents, so that a place is known by its path")
    if places.totals:
        notes.append("rows of totals (by their code, or without one) are left out")
    if places.unused:
        notes.append(f"not used: {', '.join(map(repr, places.unused))}, other names of places")
    return notes
