"""A table of counts read by arithmetic: what adds up shows who is counted where.

First the columns: which of them count everybody. Then the rows: columns that are no counts make the
key of a row; rows that are sums of others are totals, and what remains is places and groups.
Nothing is concluded from a name alone: words may forbid a reading, or part two that arithmetic
leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain, combinations
from math import prod
from typing import NoReturn

import numpy as np
import polars as pl

from headcount.arrays import Flags, Ints
from headcount.init import doubts, doubts_levels
from headcount.init.attributes import (
    Chosen,
    attribute_name,
    chosen,
    is_of_people,
    single_years,
)
from headcount.init.counts import FEW_ROWS, MOST_GROUPS, Columns, called_count
from headcount.init.look import SeenColumn, SeenFile
from headcount.init.places import FoundPlaces, is_place, total_rows
from headcount.init.sums import (
    MOSTLY,
    SURE,
    RowTotals,
    totals_by_level,
    totals_in_order,
    totals_of_groups,
)
from headcount.init.wide import WideCells, taken_apart
from headcount.init.words import OTHER_UNITS, PERSONAL, POPULATION
from headcount.population.adding_up import sort_of
from headcount.population.suspicious import says_total

CROSSED = 0.5
"""The share of all combinations of a group with the rest that stand in a table at least."""

LARGER = 0.7
"""Larger places are fewer than smaller ones, by this share at least."""

FEWEST_PLACES = 10
"""Places of which neither a name nor a person says that they are some."""

ROUNDED_TO, MANY_MULTIPLES = (3, 5), 16
"""So many counts that are all multiples of one of these, or of their multiples, were rounded."""

WHOLES = (100, 1000, 10_000)
"""What shares add up to."""

NAMED = 2.0
"""Digits that must agree where a row is called a total, or has no code."""

MOST_ROWS_IN_ORDER = 20_000
"""Rows among which sums of those next to them are looked for."""

ALMOST = 0.5
"""The share of totals that agree, from which on the others are asked about."""


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A reading that adds up.

    where
        places      columns of places
        attributes  groups in rows
        cells       groups in columns
        exclude     values by which rows of totals are left out
        left_out    which rows these are
        notes       the evidence
    """

    places: FoundPlaces
    attributes: tuple[Chosen, ...]
    cells: WideCells
    exclude: dict[str, list[str]]
    left_out: Flags
    notes: tuple[str, ...]


def counted(seen: SeenFile, places: Sequence[str] = (), gone: Sequence[str] = ()) -> Counted | None:
    """The reading of a table that adds up, or nothing; ``places`` are told, ``gone`` left aside.

    What adds up in part is asked about.
    """
    if seen.frame.height < 2:
        return None
    columns = Columns.of(seen, places, gone)
    if columns.everybody is None:
        return None
    return _Rows(columns, tuple(places)).reading()


class _Rows:
    """What the rows of a table are."""

    def __init__(self, columns: Columns, told: tuple[str, ...]) -> None:
        family = columns.everybody
        assert family is not None
        self.numbers: dict[tuple[frozenset[str], int], int] = {}
        self.groups: dict[frozenset[str], Ints] = {}
        self.columns, self.seen, self.family, self.told = columns, columns.seen, family, told
        table = columns.table
        used = [family.whole] if family.whole >= 0 else list(family.parts)
        self.people = table.counts[:, used].sum(axis=1)
        self.there: Flags = np.all(table.there[:, [*used, *family.parts]], axis=1)
        self.alive = np.ones(len(self.people), dtype=bool)
        self.proved: list[str] = []
        self.totalled: set[str] = set()
        self.whole_agrees = False
        self.near: tuple[str, str] | None = None
        self.codes = {one.name: _numbered(one) for one in columns.keys}

    # the key

    def unique(self, names: Sequence[str], rows: Flags) -> bool:
        """Whether values of some columns tell rows apart."""
        return self.number(names, rows) == int(rows.sum())

    def number(self, names: Sequence[str], rows: Flags) -> int:
        """How many combinations of values there are."""
        if rows is not self.alive:
            return len(np.unique(self.group(names)[rows]))
        key = (frozenset(names), int(rows.sum()))  # rows are only ever taken out
        if key not in self.numbers:
            self.numbers[key] = len(np.unique(self.group(names)[rows]))
        return self.numbers[key]

    def group(self, names: Sequence[str]) -> Ints:
        """Rows by the values of some columns, numbered."""
        key = frozenset(names)
        if key not in self.groups:
            whole = np.zeros(len(self.people), dtype=np.int64)
            for name in names:
                # A place of which only one was asked for is no key, and yet the place of all rows.
                codes = (
                    self.codes[name] if name in self.codes else _numbered(self.seen.column(name))
                )
                whole = whole * (codes.max(initial=0) + 1) + codes
                if len(names) > 1:
                    _, whole = np.unique(whole, return_inverse=True)
            self.groups[key] = whole
        return self.groups[key]

    def varying(self) -> list[str]:
        """Columns with several values among the rows that are left, twins but one left out."""
        size = {one: self.number([one], self.alive) for one in self.codes}
        kept: list[str] = []
        for one in self.codes:
            if size[one] < 2:
                continue
            twin = next(
                (o for o in kept if size[o] == size[one] == self.number([o, one], self.alive)), ""
            )
            if not twin:
                kept.append(one)
            elif self._rank(one) < self._rank(twin):
                kept[kept.index(twin)] = one
        return kept

    def _rank(self, name: str) -> tuple[bool, bool, bool]:
        """Which of two names of the same things is used: what was told, places, codes."""
        column = self.seen.column(name)
        coded = all(any(map(str.isdigit, value)) for value in column.real[:50])
        return name not in self.told, not is_place(column), not coded

    def keys(self) -> Iterator[tuple[str, ...]]:
        """Columns that tell rows apart, as few as may be, in several ways."""
        every = self.varying()
        if not every or not self.unique(every, self.alive):
            return
        size = {one: self.number([one], self.alive) for one in every}
        found = set()
        wide = sorted(every, key=lambda one: -size[one])
        for order in (wide, wide[::-1], every[::-1]):
            key = list(every)
            for one in order:
                rest = [other for other in key if other != one]
                if rest and one not in self.told and self.unique(rest, self.alive):
                    key = rest
            if tuple(key) not in found:
                found.add(tuple(key))
                yield tuple(key)

    # totals

    def leave_totals_out(self) -> None:
        """Take out rows that are sums of others, by the key under which most are."""
        best, best_rows = None, self.alive
        for key in list(self.keys()):
            trial = copy(self)
            trial.alive, trial.proved, trial.totalled = self.alive.copy(), [], set()
            trial.numbers = {}
            trial._find_totals(key)
            if best is None or trial.alive.sum() < best_rows.sum():
                best, best_rows = trial, trial.alive
        if best is not None:
            self.alive, self.proved, self.near = best.alive, best.proved, best.near
            self.totalled, self.whole_agrees = best.totalled, best.whole_agrees
            self.numbers = {}

    def _find_totals(self, key: Sequence[str]) -> None:
        while any(self._one_total(d, key) for d in key):
            pass
        if len(self.alive) <= MOST_ROWS_IN_ORDER:
            self._totals_in_order(key[-1])

    def _one_total(self, dim: str, key: Sequence[str]) -> bool:
        rows = np.flatnonzero(self.alive)
        if len(rows) < 3:
            return False
        counts = self.people[rows].astype(float)
        rest = [one for one in key if one != dim]
        own = self.codes[dim][rows]
        for above in ((), *((one,) for one in self._above(dim, key))):
            _, groups = np.unique(self.group([*rest, *above])[rows], return_inverse=True)
            sizes = np.bincount(own, counts)
            for level in np.argsort(-sizes, kind="stable")[:6].tolist():
                found = totals_by_level(groups, own, level, counts)
                if self._take(found, rows, dim, level):
                    self.whole_agrees |= not rest and not above
                    return True
            found = totals_of_groups(groups, counts)
            if self._take(found, rows, dim):
                self.whole_agrees |= not rest and not above
                return True
        return False

    def _take(self, found: RowTotals, rows: Ints, dim: str, level: int = -1) -> bool:
        """Take out rows that are shown to be totals."""
        if not found.number:
            return False
        name = self._value(dim, level) if level >= 0 else ""
        named = level >= 0 and (not name or says_total(name))
        agree, tried = found.number, found.tried
        if found.digits < (NAMED if named else SURE):
            return False
        if agree < MOSTLY * tried:
            if agree >= ALMOST * tried and agree > 1 and self.near is None:
                said = f"{agree:,} of {tried:,} totals agree with what they add up; the others do "
                self.near = (dim, said + "not (they differ)")
            return False
        self.alive[rows[found.rows]] = False
        if level >= 0:
            self.totalled.add(dim)
        said = f" ({name!r})" if level >= 0 else ""
        totals = f"{agree:,} of {tried:,} totals in {dim!r}{said} agree"
        self.proved.append(f"{totals}; their rows are left out")
        return True

    def _value(self, dim: str, level: int) -> str:
        row = int(np.flatnonzero(self.codes[dim] == level)[0])
        return self.seen.frame[dim][row] or ""

    def _above(self, dim: str, key: Sequence[str]) -> list[str]:
        """Columns that say in which larger part a value of another lies."""
        size = self.number([dim], self.alive)
        return [
            one
            for one in self.varying()
            if one not in key
            and self.number([one], self.alive) < size
            and self.number([one, dim], self.alive) == size
        ]

    def _totals_in_order(self, dim: str) -> None:
        rows = np.flatnonzero(self.alive)
        found = totals_in_order(self.people[rows])
        if found.number and found.digits >= SURE:
            if found.alone and self.near is None:
                said = f"{found.number:,} rows that are the sums of those below or above them, and "
                said += f"{found.alone:,} that none of them adds up: is a total wrong?"
                self.near = (dim, said)
            self.alive[rows[found.rows]] = False
            self.proved.append(
                f"{found.number:,} rows are the sums of those below or above them, and left out"
            )

    # what is left

    def reading(self) -> Counted | None:
        """The reading, if the rows are places and groups, each once."""
        if not any(True for _ in self.keys()):
            return None
        self.leave_totals_out()
        self._refuse_near()
        self._refuse_shares()
        key = self._dimensions()
        if key is None:
            return None
        places, groups = key
        if not self.family.sums:
            doubts.refuse_odd_counts(self.seen, [*self.columns.fractions, *self.columns.others])
        if not (self.family.sums or self.proved or self._only_reading(places, groups)):
            return None
        self._refuse_leftovers(places, groups)
        self._refuse_rounded()
        named: Flags = total_rows(self.seen.frame, places.columns).to_numpy()
        places = replace(places, totals=bool((named & ~self.alive).any()))
        if (named & self.alive).any():
            return None  # asked about as rows without a place
        exclude = self._exclude(~self.alive & ~named)
        if exclude is None:
            return None
        if not self.there[self.alive].all():
            return None  # asked about as withheld
        names = [one.name for one in self.columns.counts]
        cells = _cells([names[k] for k in self.family.parts])
        taken: set[str] = {name for name, _ in cells.attributes}
        attributes = []
        kept = self.seen.only(pl.Series(self.alive))
        for one in groups:
            name = attribute_name(one, taken)
            taken.add(name)
            attributes.append(chosen(kept.column(one), name, totals=False))
        return Counted(
            places=places,
            attributes=tuple(attributes),
            cells=cells,
            exclude=exclude,
            left_out=~self.alive,
            notes=(*self.family.notes, *self.proved),
        )

    def _only_reading(self, places: FoundPlaces, groups: Sequence[str]) -> bool:
        """Whether one count beside unique places and known groups leaves nothing else to read."""
        counts = [self.columns.counts[k] for k in self.family.parts]
        names = [one.name for one in counts]
        doubts.refuse_other_units(self.seen, names)
        named = any(POPULATION.search(one.says) for one in counts)
        column, known = self.seen.column(places.columns[-1]), named or bool(groups)
        called = known or self.family.whole < 0 or called_count(counts[0])
        vague = [o for o in self.columns.fractions if not (known and OTHER_UNITS.search(o.says))]
        used = (*places.columns, *groups)
        vague += [o for o in self.columns.levels if o.name not in used and o.number > 1]
        if vague or not called or not (named or is_place(column) or self.told):
            return False
        parts = [self.number([one], self.alive) for one in groups]
        size = self.number(places.columns, self.alive) * prod(parts)
        if not named and self.alive.sum() < CROSSED * size:
            return False
        self.proved.append(
            f"nothing else counts people than {doubts.listed(names)}, and each place and group "
            "stands in one row"
        )
        return True

    def _refuse_rounded(self) -> None:
        """Refuse counts all of which are multiples of a number: somebody has rounded them."""
        counts = self.columns.table.counts[self.alive][:, list(self.family.parts)]
        step = int(np.gcd.reduce(counts, axis=None))
        usual = step and any(step % base == 0 for base in ROUNDED_TO)
        if usual and int((counts > 0).sum()) >= MANY_MULTIPLES:
            doubts.refuse(
                self.seen,
                place="columns",
                found=f"counts that are all multiples of {step}: rounded, not exact numbers",
                expected="counts of people as they are; --kind says what a row is, if these are "
                "exact",
            )

    def _refuse_shares(self) -> None:
        """Refuse parts of a hundred, be it in each row, in each place or in each group of it."""
        people = self.people[self.alive]
        if people.max(initial=0) > 2 * max(WHOLES):
            return
        key = min(self.keys(), key=len, default=())
        for some in chain.from_iterable(combinations(key, k + 1) for k in range(len(key))):
            _, own = np.unique(self.group(some)[self.alive], return_inverse=True)
            sums = np.bincount(own, people)
            sums = sums[sums > 0]
            of = [one for one in WHOLES if (np.abs(sums - one) <= one // 50).all()]
            if of and len(sums) > FEW_ROWS:
                names = [self.columns.counts[k].name for k in self.family.parts]
                doubts.refuse(
                    self.seen,
                    place=f"column{'s' * (len(names) > 1)} {doubts.listed(names)}",
                    found=f"numbers that add up to {of[0]:,}, or nearly, over and over: shares?",
                    expected="counts of people; --kind wide or --kind long says that they are",
                )

    def _refuse_near(self) -> None:
        if self.near is not None:
            dim, said = self.near
            doubts.refuse(
                self.seen,
                place=f"column {dim!r}",
                found=said,
                expected='totals that agree, or a file without them; --leave-out "COLUMN=VALUE" '
                "leaves rows out by a value, unseen",
            )

    def _dimensions(self) -> tuple[FoundPlaces, list[str]] | None:
        """Which columns of the key are places, and which are groups of people."""
        keys = list(self.keys())
        if self.told:
            told = [one for one in self.told if self.number([one], self.alive) > 1]
            leaf = told or list(self.told[-1:])
            key = self._minimal(leaf)
            groups = [one for one in key if one not in self.told]
            for one in groups:
                if not self._is_group(one, key):
                    self._refuse_again(leaf, one)
            return self._found_places(list(self.told)), groups
        if not keys:
            return None
        key = min(map(list, keys), key=len)
        self._refuse_counted_twice(key)
        groups = [one for one in key if self._is_group(one, key)]
        where = [one for one in key if one not in groups]
        if not where:
            return self._one_place(groups)
        chain = [*self._chain(where), *where] if len(where) == 1 else self._by_size(where)
        if len(where) == 1 and not self._may_be_place(where[0]):
            if self.family.sums or self.proved:
                self._refuse_unknown_place(where[0])
            return None
        return self._found_places(chain), groups

    def _refuse_again(self, places: Sequence[str], apart: str) -> NoReturn:
        doubts.refuse(
            self.seen,
            place="rows",
            found=f"several rows of the same place ({doubts.listed(places)}), which differ in "
            f"{apart!r}: smaller places, groups or dates?",
            expected=f'--places "{",".join((*places, apart))}", if it is a place; --attributes '
            f'"{apart}", if it parts people; or --only "{apart}=..."',
        )

    def _refuse_counted_twice(self, key: Sequence[str]) -> None:
        """Refuse levels with the same total in each of several groups: one event, two sides."""
        for name in key:
            if self.number([name], self.alive) > MOST_GROUPS:
                continue
            for other in key:
                if other == name or name in self.told:
                    continue
                matrix, labels = self._crossed([name], [other])
                if matrix.shape[1] >= 5:
                    doubts_levels.refuse_levels_told(self.seen, name, labels, matrix)

    def _refuse_unknown_place(self, name: str) -> NoReturn:
        doubts.refuse(
            self.seen,
            place=f"column {name!r}",
            found="values that tell rows apart: places, or groups of people? No column of places "
            "is known",
            expected=f'--places "{name}", if they are places; else the columns that say where',
        )

    def _minimal(self, leaf: Sequence[str]) -> list[str]:
        key = [*leaf, *(one for one in self.varying() if one not in leaf)]
        if not self.unique(key, self.alive):
            doubts.refuse(
                self.seen,
                place="rows",
                found=f"rows of the same place and group ({doubts.listed(key)}) twice",
                expected="each place and group once",
            )
        for one in sorted(key, key=lambda one: -self.number([one], self.alive)):
            rest = [other for other in key if other != one]
            if one not in leaf and rest and self.unique(rest, self.alive):
                key = rest
        return key

    def _is_group(self, name: str, key: Sequence[str]) -> bool:
        """Whether a column of the key parts the people of each place."""
        column = self.seen.column(name)
        one = chosen(column, column.says, totals=True)
        if is_place(column):
            return False
        known = is_of_people(one) or single_years(column)
        rest = [other for other in key if other != name]
        if not rest:
            return known
        size = self.number([name], self.alive)
        pairs, others = self.number(key, self.alive), self.number(rest, self.alive)
        crosses = size <= MOST_GROUPS and pairs >= CROSSED * size * others
        if known:
            return True
        here = any(  # the places, of which there are more, or that are called so
            self.number([other], self.alive) > size or is_place(self.seen.column(other))
            for other in rest
        )
        if crosses and here and not self._nested(name, key):
            if name not in self.totalled:
                doubts.refuse_measures(self.seen, [column])
                doubts.refuse(
                    self.seen,
                    place=f"column {name!r}",
                    found="levels without a total that adds them up: groups of people, or the "
                    "same people at several dates or places?",
                    expected=f'--attributes "{name}", if they part people; --only "{name}=..." '
                    "takes the rows of one level",
                )
            return True
        return False

    def _nested(self, name: str, key: Sequence[str]) -> bool:
        return any(
            self.number([name, other], self.alive) == self.number([other], self.alive)
            for other in key
            if other != name
        )

    def _may_be_place(self, name: str) -> bool:
        """Whether a column that tells rows apart holds places: by its name, or by their number."""
        column = self.seen.column(name)
        if is_place(column) or name in self.told:
            return True
        some = column.real[:50]
        levels = sort_of(some) == "age" and not all(map(str.isdigit, some))
        one = chosen(column, "x", totals=True)
        many = self.number([name], self.alive) >= FEWEST_PLACES
        return many and not levels and not is_of_people(one) and not PERSONAL.search(column.says)

    def _chain(self, where: Sequence[str]) -> list[str]:
        """Larger places that hold the smaller ones, from the top down."""
        (leaf,) = where
        above: list[str] = []
        for one in sorted(self._above(leaf, where), key=lambda one: self.number([one], self.alive)):
            column = self.seen.column(one)
            if single_years(column) or not (is_place(column) or self._prefix(one, leaf)):
                continue
            if all(self._in_each(other, one) for other in above) and self._is_larger(one, leaf):
                above.append(one)
        return above

    def _is_larger(self, one: str, leaf: str) -> bool:
        """Whether a place holds several smaller ones, not one in another spelling."""
        return self.number([one], self.alive) <= LARGER * self.number([leaf], self.alive)

    def _in_each(self, large: str, small: str) -> bool:
        return self.number([large, small], self.alive) == self.number([small], self.alive)

    def _prefix(self, one: str, leaf: str) -> bool:
        both = self.seen.frame.select(a=one, b=leaf).filter(pl.Series(self.alive)).drop_nulls()
        if not both.height or both["a"].str.len_chars().n_unique() > 1:
            return False
        return bool(both.select(pl.col("b").str.starts_with(pl.col("a")).all()).item())

    def _by_size(self, names: Sequence[str]) -> list[str]:
        return sorted(names, key=lambda one: self.number([one], self.alive))

    def _found_places(self, chain: list[str]) -> FoundPlaces:
        several = [one for one in chain[:-1] if self.number([one], self.alive) > 1]
        columns = (*several, chain[-1])
        leaf = self.number([chain[-1]], self.alive)
        local = self.number(list(columns), self.alive) > leaf
        single = [one for one in chain[:-1] if one not in several]
        return FoundPlaces(
            columns=columns,
            root=single[-1] if single else "whole",
            local_codes=local,
            others=tuple(single),
        )

    def _one_place(self, groups: list[str]) -> tuple[FoundPlaces, list[str]] | None:
        """The one place of a table without others: a column that says its name in every row."""
        for one in self.seen.columns:
            kept = one.values.filter(pl.Series(self.alive))
            if is_place(one) and kept.n_unique() == 1 and kept[0] is not None:
                return FoundPlaces(columns=(one.name,)), groups
        if self.family.sums or self.proved:
            doubts.refuse(
                self.seen,
                place="places",
                found=f"no column of places beside {doubts.listed(groups)}",
                expected='--places "COLUMN": the columns that say where, from the top down; '
                "--no-places --kind long, if there are none: everybody is in one place",
            )
        return None

    def _refuse_leftovers(self, places: FoundPlaces, groups: Sequence[str]) -> None:
        """Refuse what is left and adds up others, or is called so."""
        kept = pl.Series(self.alive)
        for name in (*places.columns, *groups):
            values = self.seen.frame[name].filter(kept).drop_nulls().unique().to_list()
            odd = [one for one in values if says_total(one)]
            if odd and len(values) > 1:
                doubts.refuse(
                    self.seen,
                    place=f"column {name!r}",
                    found=f"{odd[0]!r}, a row of totals that does not add up the others",
                    expected=f'--leave-out "{name}={odd[0]}" leaves its rows out',
                )
        for name in groups:
            rest = [*places.columns, *(one for one in groups if one != name)]
            matrix, labels = self._crossed([name], rest)
            doubts_levels.refuse_sum_of_levels(self.seen, name, labels, matrix)
        if self.whole_agrees:
            return
        for name in self.codes:
            if name not in (*places.columns, *groups):
                matrix, labels = self._crossed([name], [])
                doubts_levels.refuse_levels_told(self.seen, name, labels, matrix)
        matrix, labels = self._crossed(places.columns, groups)
        leaf = places.columns[-1]
        doubts_levels.refuse_levels_in_one_column(self.seen, labels, matrix, column=leaf)
        if not groups:  # in every column a larger place agrees by chance less often
            matrix = self.columns.table.counts[self.alive][:, list(self.family.parts)]
            doubts_levels.refuse_levels_in_one_column(self.seen, labels, matrix, column=leaf)
        doubts_levels.refuse_levels_anywhere(self.seen, labels, matrix, leaf)

    def _crossed(self, names: Sequence[str], rest: Sequence[str]) -> tuple[Ints, list[str]]:
        """The people that are left by the values of some columns, in the order of the file."""
        rows = np.flatnonzero(self.alive)
        _, first, own = np.unique(self.group(names)[rows], return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        _, across = np.unique(self.group(rest)[rows], return_inverse=True)
        matrix = np.zeros((len(order), int(across.max()) + 1), dtype=np.int64)
        np.add.at(matrix, (place[own], across), self.people[rows])
        labels = self.seen.frame[names[-1]].gather(rows[first[order]]).fill_null("")
        return matrix, labels.to_list()

    def _exclude(self, left: Flags) -> dict[str, list[str]] | None:
        """Values that stand in rows of totals only, and in each of them one."""
        exclude: dict[str, list[str]] = {}
        by_size = sorted(self.codes, key=lambda one: self.number([one], left) if left.any() else 0)
        for name in by_size:
            if not left.any():
                break
            codes = self.codes[name]
            bad = np.setdiff1d(np.unique(codes[left]), np.unique(codes[self.alive]))
            if len(bad):
                rows = np.isin(codes, bad) & left
                values = self.seen.frame[name].filter(pl.Series(rows)).fill_null("").unique()
                exclude[name] = sorted(values.to_list())
                left &= ~rows
        return None if left.any() else exclude


def _numbered(column: SeenColumn) -> Ints:
    """The values of a column by numbers; 0 where there is none."""
    return column.values.rank("dense").fill_null(0).cast(pl.Int64).to_numpy()


def _cells(names: list[str]) -> WideCells:
    attributes, levels_of = taken_apart(names)
    return WideCells(attributes=attributes, levels_of=levels_of)
