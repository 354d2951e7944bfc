"""Which columns count people: by what adds up, by their names, or by the shape of the table.

Of the columns that hold whole numbers, sums show which are totals and which parts; the largest
total that bounds all others is everybody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log10

import numpy as np
import polars as pl

from headcount.errors import InputError
from headcount.init import doubts
from headcount.init.attributes import NUMBERED, single_years
from headcount.init.look import SeenColumn, SeenFile, same_for_all
from headcount.init.places import is_place
from headcount.init.sums import MOST_ANYWHERE, SURE, Sum, Table, sums_of_columns
from headcount.init.wide import taken_apart
from headcount.init.words import COUNTS, OTHER_UNITS, POPULATION, THINGS
from headcount.population.adding_up import equal_families, is_partition
from headcount.population.columns import WITHHELD
from headcount.population.suspicious import COUNT_WORDS

WEIGHTS = ("weight", "perwt", "number")
"""Names of counts that may as well be weights of people in a sample."""

LEVELS, SMALL, MANY_ROWS = 30, 1000, 40
"""Numbers of so few values, all smaller than this, in so many rows are levels, not counts."""

FEW_ROWS = 4
"""In no more rows a count may be the same in all."""

LARGEST = 1e15
"""No count is larger."""

BOUNDS = 0.95
"""The share of rows in which everybody is at least as many as any part."""

MOST_CELLS = 300
"""Cells of the family of columns that is proposed."""

ALIKE = 0.4
"""How much one column of counts rises with another at least, if both count the same people."""

MOST_GROUPS = 130
"""Levels that an attribute may have: years of age."""

SAMPLE = 20_000
"""Rows in which sums of columns are looked for first."""

_COUNT = re.compile(rf"^({'|'.join((*COUNT_WORDS, *COUNTS))})$")


@dataclass(eq=False)
class Columns:
    """Columns by what they may be: counts, fractions, or anything that tells rows apart."""

    seen: SeenFile
    counts: list[SeenColumn] = field(default_factory=list)
    levels: list[SeenColumn] = field(default_factory=list)
    fractions: list[SeenColumn] = field(default_factory=list)
    others: list[SeenColumn] = field(default_factory=list)
    keys: list[SeenColumn] = field(default_factory=list)

    @classmethod
    def of(cls, seen: SeenFile, places: Sequence[str], gone: Sequence[str]) -> Columns:
        """The columns of a table; ``places`` are told, ``gone`` left aside."""
        found = _sorted_out(seen, places, gone)
        _take_in_levels(found)
        return found

    @cached_property
    def everybody(self) -> _Family | None:
        """The columns that count everybody, if sums show which they are."""
        return _everybody(self) if self.counts else None

    @cached_property
    def table(self) -> Table:
        """The counts; what is not there is 0, and marked."""
        return table_of(self.seen, self.counts)


@dataclass(frozen=True)
class _Family:
    """Columns that count everybody once.

    where
        whole   the column of everybody, or -1 where only parts are there
        parts   the columns that make it up; the whole alone where no parts are sound
        notes   the evidence
    """

    whole: int
    parts: tuple[int, ...]
    notes: tuple[str, ...]
    sums: int = 0


def called_count(column: SeenColumn) -> bool:
    """Whether a column is called a number of people."""
    return bool(_COUNT.match(column.says))


def counts_people(column: SeenColumn, *, withheld: bool = False) -> bool:
    """Whether a column may count people; ``withheld``: though most of them are withheld."""
    return (column.counts or (withheld and column.withheld)) and not OTHER_UNITS.search(column.says)


def count_columns(others: Sequence[SeenColumn]) -> list[str]:
    """The columns whose names say that they count people, those of the plainest names first."""
    found = [
        one
        for one in others
        if _COUNT.match(one.says)
        and (one.counts or one.withheld)
        and one.real != ["1"]
        and one.number > 1
    ]
    return [one.name for one in sorted(found, key=lambda one: one.says not in COUNT_WORDS)]


def refuse_parts_of_people(seen: SeenFile, others: Sequence[SeenColumn]) -> None:
    """Refuse a column that is called a count and holds decimals: its rows are no people either."""
    for column in others:
        if column.says in COUNT_WORDS and column.says not in WEIGHTS and column.decimal:
            raise InputError(
                str(seen.path),
                place=f"column {column.name!r}",
                found="numbers with decimals",
                expected="whole numbers of people (rename the column if it does not count any)",
            )


# by what adds up


def table_of(seen: SeenFile, columns: Sequence[SeenColumn], *, most: int | None = None) -> Table:
    """Counts as numbers, and which are there; ``most``: of so many rows."""
    numbers = [doubts.as_numbers(one.values.head(most or len(one.values)), seen) for one in columns]
    there = np.column_stack([one.is_not_null().to_numpy() for one in numbers])
    counts = np.column_stack([one.fill_null(0).to_numpy() for one in numbers])
    return Table(counts.astype(np.int64), there)


def _sorted_out(seen: SeenFile, places: Sequence[str], gone: Sequence[str]) -> Columns:
    found = Columns(seen)
    for one in seen.columns:
        constant = one.number == 1 and len(one.present) == len(one.values) > FEW_ROWS
        if one.name in gone or not one.number:
            continue
        kind = "keys" if one.name in places else _kind(one, seen)
        if constant and kind == "counts":
            kind = "levels"
        getattr(found, kind).append(one)
    _numbers_that_are_codes(found)
    return found


def _kind(one: SeenColumn, seen: SeenFile) -> str:
    """What the values of one column allow."""
    numbers = doubts.as_numbers(one.present, seen)
    if numbers.null_count():
        rest = one.present.filter(~one.are_numbers)
        if not (one.numeric or one.withheld) or not rest.str.contains(WITHHELD).all():
            return "keys"
        numbers = numbers.drop_nulls()
    zeros = one.present.str.contains(r"^(0\d|\+)").any()
    if zeros or not len(numbers) or NUMBERED.search(one.says):
        return "keys"
    least, most = float(numbers.min()), float(numbers.max())  # type: ignore[arg-type]
    if least < 0:
        return "others"
    if most > LARGEST or bool((numbers != numbers.round()).any()):
        return "fractions"
    if least in (0, 1) and most - least == one.number - 1 == len(one.values) - 1 > 1:
        return "keys" if is_place(one) else "others"  # it numbers the rows
    if single_years(one) or (OTHER_UNITS.search(one.says) and not THINGS.search(one.says)):
        return "keys" if one.number <= MOST_GROUPS else "others"
    if is_place(one) and not POPULATION.search(one.says):
        return "keys"
    if called_count(one):
        return "counts"
    few = one.number <= LEVELS and most < SMALL and len(one.values) >= MANY_ROWS
    codes = most < 10 and 4 * one.number <= len(one.values)
    return "levels" if few or codes else "counts"


def _numbers_that_are_codes(found: Columns) -> None:
    """Whole numbers of one width that tell rows apart, or lie in others, are codes."""
    keys = list(found.keys)
    for number, one in enumerate(list(found.counts)):
        if POPULATION.search(one.says):
            continue
        values = doubts.as_numbers(one.values, found.seen)
        ascending = values.is_sorted() and one.number == len(one.values) >= 10
        width = one.present.str.len_chars().n_unique() == 1 and len(one.present) >= 10
        others = [o for o in found.counts if o is not one]
        first = number == 0 and bool(others) and not _move_with(values, others, found.seen)
        repeated = one.number < len(one.values) / 2 and any(
            other.number > 2 and same_for_all(found.seen.frame, one.name, other.name)
            for other in keys
        )
        if (
            (ascending and (first or (width and not others)))
            or repeated
            or doubts.is_code(one, keys)
        ):
            found.counts.remove(one)
            found.keys.append(one)


def _move_with(values: pl.Series, others: Sequence[SeenColumn], seen: SeenFile) -> bool:
    """Whether other numbers rise or fall with these, as counts do with each other."""
    for other in others:
        both = pl.DataFrame([values.rename("a"), doubts.as_numbers(other.values, seen).rename("b")])
        alike = both.drop_nulls().select(pl.corr("a", "b", method="spearman")).item()
        if alike is not None and abs(alike) > ALIKE:
            return True
    return False


def _everybody(columns: Columns) -> _Family | None:
    table = columns.table
    sums = _sums(table)
    names = [one.name for one in columns.counts]
    sizes = table.counts.sum(axis=0)
    people = [k for k, one in enumerate(columns.counts) if not _of_things(one)]
    if not people:
        return None
    whole = max(people, key=lambda k: (sizes[k], -k))
    own = [one for one in sums if one.total == whole]
    if not own:
        return _without_total(columns, sums, people, whole)
    _refuse_unbounded(columns, whole, people, sums)
    chosen = _best_parts(columns, whole, sums)
    doubts.refuse_other_units(columns.seen, [names[k] for k in chosen], alone=False)
    others = len({frozenset(one.parts) for one in own})
    note = f"{names[whole]!r} counts everybody: {_listed(names, own[0].parts)} add up to it"
    note += f" in {_share(table, own[0])} rows"
    if others > 1:
        note += f", and {others - 1} other groups of columns do"
    notes = [note]
    if chosen == (whole,):
        wrong = ", ".join(columns.seen.rows.where(own[0].wrong[: doubts.FEW]))
        notes.append(f"parts are not used: they do not add up in {wrong}")
    rest = [n for k, n in enumerate(names) if k not in chosen and k != whole]
    if rest:
        notes.append(f"not used: {doubts.listed(rest)}: parts, totals, or counts of others")
    return _Family(whole, chosen, tuple(notes), len(own))


def _sums(table: Table) -> list[Sum]:
    rows = len(table.counts)
    if rows > SAMPLE:
        some = np.zeros(rows, dtype=bool)
        some[np.linspace(0, rows - 1, SAMPLE).astype(int)] = True
        if not sums_of_columns(table.rows(some)):
            return []
    return sums_of_columns(table)


def _take_in_levels(columns: Columns) -> None:
    """Small numbers that a sum uses are counts; all others are levels."""
    if not columns.levels:
        return
    both = [*columns.counts, *columns.levels]
    both.sort(key=lambda one: columns.seen.columns.index(one))
    used = {k for one in _sums(table_of(columns.seen, both)) for k in (one.total, *one.parts)}
    named = not used and _part_people([one.name for one in both])
    for one in columns.levels:
        if named or both.index(one) in used:
            columns.counts.append(one)
        else:
            columns.keys.append(one)
    order = [one.name for one in columns.seen.columns]
    columns.counts.sort(key=lambda one: order.index(one.name))


def _of_things(one: SeenColumn) -> bool:
    """Whether a name says that homes, events or money are counted."""
    says = one.says
    return bool(THINGS.search(says)) and not POPULATION.search(says)


def _without_total(
    columns: Columns, sums: list[Sum], people: list[int], whole: int
) -> _Family | None:
    """Everybody without a column that adds them up: equal families, a ratio, or one column."""
    table, names = columns.table, [one.name for one in columns.counts]
    if sums and not all(_of_things(columns.counts[one.total]) for one in sums):
        return None
    sure = SURE + 2 * log10(table.width + 1)
    families = equal_families(table.counts, sure=sure) if table.there.all() else []
    parts = all(_part_people([names[k] for k in one]) for one in families)
    if families and (parts or table.width <= MOST_ANYWHERE):  # else some may add up others
        best = max(families, key=lambda one: (_known([names[k] for k in one]), len(one)))
        doubts.refuse_other_units(columns.seen, [names[k] for k in best])
        said = "; ".join(_listed(names, one) for one in families)
        note = f"{len(families)} families of columns have the same sum in every row: {said}"
        return _Family(-1, best, (note, f"used: {_listed(names, best)}"), len(families))
    if (ratio := _ratio(columns, whole)) is not None:
        _refuse_unbounded(columns, whole, people, sums)
        return _Family(whole, (whole,), (ratio,), 1)
    if len(people) == len(names) and _part_people(names):
        note = f"{doubts.listed(names)} are all there can be"
        return _Family(-1, tuple(range(len(names))), (note,), 0)
    named = POPULATION.search(columns.counts[whole].says) is not None
    if people == [whole] and (named or len(names) == 1):
        return _Family(whole, (whole,), (), 0)
    return None


def _part_people(names: Sequence[str]) -> bool:
    """Whether the names of columns are all there can be: both sexes, all ages."""
    levels = taken_apart(list(names))[0] if len(names) > 1 else ()
    return bool(levels) and all(is_partition(own) for _, own in levels)


def _ratio(columns: Columns, whole: int) -> str | None:
    """That a column of fractions is everybody by another count, to its last decimal."""
    table = columns.table
    own = table.counts[:, whole].astype(float)
    for one in columns.fractions:
        numbers = doubts.as_numbers(one.values, columns.seen)
        known = numbers.is_not_null().to_numpy()
        text = columns.seen.form.plain(one.values).fill_null("")
        places = int(text.str.extract(r"\.(\d+)$").str.len_chars().max() or 0)  # type: ignore[arg-type]
        value = numbers.fill_null(0).to_numpy()
        for k, other in enumerate(columns.counts[:12]):
            divisor = table.counts[:, k]
            sound = known & (divisor > 0)
            if k == whole or sound.sum() < 5:
                continue
            near = np.abs(own[sound] / divisor[sound] - value[sound]) <= 0.51 * 10.0**-places
            if near.mean() >= BOUNDS and len(set(value[sound])) > 3:
                name = columns.counts[whole].name
                return f"{name!r} counts everybody: {one.name!r} is {name!r} by {other.name!r}"
    return None


def _refuse_unbounded(columns: Columns, whole: int, people: list[int], sums: list[Sum]) -> None:
    """Refuse counts of people of which none is at least as large as the others.

    A total that several groups of columns add up to is everybody whatever else is larger here and
    there, if no other total has half as many.
    """
    counts = columns.table.counts
    ways = [len({frozenset(o.parts) for o in sums if o.total == k}) for k in range(len(counts.T))]
    for k in people:
        bounded = (counts[:, k] <= counts[:, whole]).mean() >= BOUNDS
        if not bounded and ways[whole] < max(3, 2 * ways[k]):
            one, other = columns.counts[whole].name, columns.counts[k].name
            sizes = counts[:, whole].sum(), counts[:, k].sum()
            doubts.refuse(
                columns.seen,
                place="columns",
                found=f"{one!r} with {sizes[0]:,} and {other!r} with {sizes[1]:,}, each of which "
                "is the larger in some rows: which of them counts everybody (overlap)?",
                expected=f'--universe "{one}" or --universe "{other}"; --not-counts leaves one out',
            )


def _best_parts(columns: Columns, whole: int, sums: list[Sum]) -> tuple[int, ...]:
    """The finest columns that add up to everybody in every row; the whole alone if none do."""
    names = [one.name for one in columns.counts]
    by_total: dict[int, list[Sum]] = {}
    for one in sums:
        if not one.wrong and columns.table.there[:, [one.total, *one.parts]].all():
            by_total.setdefault(one.total, []).append(one)

    def finest(parts: Sequence[int], depth: int) -> tuple[int, ...]:
        leaves: list[int] = []
        for part in parts:
            ways = by_total.get(part, []) if depth < 8 else []
            best = max(ways, key=lambda one: len(one.parts), default=None)
            leaves += finest(best.parts, depth + 1) if best else [part]
        return tuple(leaves)

    found = []
    for one in by_total.get(whole, []):
        for leaves in (finest(one.parts, 0), one.parts):
            if len(set(leaves)) == len(leaves) <= MOST_CELLS:
                found.append(tuple(sorted(leaves)))
    if not found:
        return (whole,)

    def rank(leaves: tuple[int, ...]) -> tuple[int, int, int]:
        own = [names[k] for k in leaves]
        return _known(own), len(taken_apart(own)[0]), len(leaves)

    return max(dict.fromkeys(found), key=rank)


def _known(names: Sequence[str]) -> int:
    """How many attributes of people the names of columns tell."""
    attributes, _ = taken_apart(list(names))
    return sum(name.split("_")[0] in ("sex", "age") for name, _ in attributes)


def _listed(names: Sequence[str], some: Sequence[int]) -> str:
    return doubts.listed([names[k] for k in some])


def _share(table: Table, one: Sum) -> str:
    rows = len(table.counts)
    return "all" if not one.wrong else f"{rows - len(one.wrong):,} of {rows:,}"
