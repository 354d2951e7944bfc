"""What is proposed: the people that a draft reads, shown before it is used; else what is asked.

Numbers of people in it are true ones. They are for whoever holds the data: they are shown, and
written nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.domain import Domain
from headcount.errors import HeadcountError, InputError
from headcount.fields import Pairs
from headcount.init.attributes import Chosen
from headcount.init.beside import looked_at_all
from headcount.init.decide import Ask, Draft, Looked, TakeProposals, decided
from headcount.init.doubts import refuse_other_size
from headcount.init.places import total_rows
from headcount.init.told import Told, as_arguments, options_in
from headcount.population import Population
from headcount.population.columns import AttributeColumn, KeyColumn
from headcount.population.counts import read_counts
from headcount.population.from_households import to_population
from headcount.population.households import read_households
from headcount.population.microdata import read_microdata
from headcount.population.people_table import RowChoice
from headcount.population.tables import AnyTable
from headcount.privacy.loss import exact
from headcount.schema import Attribute, Schema

ROWS, COLUMNS, SHOWN = 3, 8, 8
"""Rows and columns that are shown of the file, and places and levels of each."""

_HOPELESS = Fraction(1, 2)
"""Totals that are off by more than this part of a place's people, on average, say too little."""

NONE_OF_THESE = "none of these"


@dataclass(frozen=True)
class Proposal:
    """How a file is read, and the people that this gives."""

    made: Draft
    people: Population

    @property
    def size(self) -> tuple[int, int]:
        """How many people these are, and in how many places."""
        return _size_of(self.people)

    @property
    def preview(self) -> _Preview:
        """What is shown of it."""
        return preview(self.made, self.people)

    def without_hopeless_levels(self, told: Told) -> Proposal:
        """Without publishing the smallest places, where not even totals can be had at this loss.

        The levels above take their share. It is worked out from what no change of a record moves:
        the settings, the places, and how many people there are in all. One level below the whole is
        published in any case, and so is what somebody has named: of these it is said.
        """
        made, domain = self.made, self.people.domain
        if not made.all_attributes or len(domain.geography.levels) == 1:
            return self
        small: list[str] = []
        why = f"at epsilon {made.epsilon} the total of such a place would be off by more than half "
        why += "of its people on average"
        while hopeless := _is_hopeless(domain, self.people, made):
            if told.places or len(domain.geography.levels) == 2:
                break
            small.insert(0, domain.leaf)
            domain = domain.down_to(domain.geography.levels[-2])
        notes = list(made.notes)
        if small:
            gone = " and ".join(map(repr, small))
            notes.append(f"places: {gone} not published: {why} (--every-level publishes all)")
        if hopeless:
            notes.append(f"places: {domain.leaf!r} may be too small: {why}")
        made = replace(made, lowest=domain.leaf if small else "", notes=notes)
        return Proposal(made, self.people)


@dataclass(frozen=True)
class Way:
    """An answer to a question, and what it would read.

    where
        options   the options of ``init`` that say it, with their values
    """

    options: tuple[tuple[str, str], ...]
    told: Told
    people: int
    places: int

    @property
    def said(self) -> str:
        """The answer with its consequence."""
        places = "1 place" if self.places == 1 else f"{self.places:,} places"
        return f"{self.typed} reads {self.people:,} people in {places}"

    @property
    def typed(self) -> str:
        """The options as they are typed."""
        plain = ("kind", "blank-counts", "ages", "")
        return " ".join(
            f"--{name} {value}".rstrip() if name in plain or not value else f'--{name} "{value}"'
            for name, value in self.options
        )


class Question(InputError):
    """A doubt about a file, with what each answer to it would read."""

    def __init__(self, error: InputError, ways: Sequence[Way], *, arguments: bool = False) -> None:
        spoken = as_arguments if arguments else str
        super().__init__(
            error.source, place=error.place, found=error.found, expected=spoken(error.expected)
        )
        self.ways = tuple(ways)
        self.args = ("\n".join([str(self), *(f"  {spoken(one.said)}" for one in ways)]),)


@contextmanager
def asked(looked: Looked | None, told: Told, files: Sequence[AnyTable]) -> Iterator[None]:
    """Add to what is doubtful what each answer that its message names would read."""
    try:
        yield
    except InputError as error:
        if ways := list(_ways(error, looked, told, files)):
            raise Question(error, ways) from None
        raise


def _ways(
    error: InputError, looked: Looked | None, told: Told, files: Sequence[AnyTable]
) -> Iterator[Way]:
    for options in options_in(error.expected):
        try:
            said = told.and_also(options)
            again = looked is None or any(name in ("sheet", "key") for name, _ in options)
            seen = looked_at_all(files, said) if again or looked is None else looked
            size = _size_of(people_of(decided(seen, said), said))
        except HeadcountError:  # no answer to this: a word that stands for others, or more is asked
            continue
        yield Way(options, said, *size)


def proposal_of(
    files: Sequence[AnyTable], *, told: Told, ask: Ask | None = None, epsilon: str = "1"
) -> Proposal:
    """How files are read. What is doubtful is asked, or refused with what each answer reads."""
    answers, looked = _Once(ask or TakeProposals()), None
    while True:
        try:
            with asked(looked, told, files):
                looked = looked or looked_at_all(files, told, ask=answers)
            with asked(looked, told, files):
                made = decided(looked, told, ask=answers, epsilon=epsilon)
                return Proposal(made, people_of(made, told))
        except Question as question:
            options = {one.said: one for one in question.ways}
            words = f"{question.place}: found {question.found}. How is it read?"
            picked = answers.choose(words, [*options, NONE_OF_THESE], "") if options else ""
            if picked not in options:
                raise
            told = options[picked].told
            looked = None if told.sheet or told.key else looked


def _is_hopeless(domain: Domain, people: Population, made: Draft) -> bool:
    """Whether the total of a lowest place is off by more than half of its people, by formula."""
    from headcount.topdown.choices import TOTAL, Invariant
    from headcount.topdown.mechanism import TopDown

    total = Invariant(query=TOTAL, level=made.places.root)
    method = TopDown(
        epsilon=exact(made.epsilon, name="epsilon"), pool=True, shares="totals", invariant=(total,)
    )
    known = method.on(domain).expected_errors()
    off = next(one.rmse for one in known if (one.level, one.query) == (domain.leaf, TOTAL))
    return off * domain.geography.size(domain.leaf) > _HOPELESS * number_of(people)


class _Once:
    """Whoever is asked, each question once."""

    def __init__(self, ask: Ask) -> None:
        self._ask, self._known = ask, dict[str, str]()

    def choose(self, question: str, options: Sequence[str], proposed: str) -> str:
        """What was said, or is said now."""
        if question not in self._known:
            self._known[question] = self._ask.choose(question, options, proposed)
        return self._known[question]


def people_of(made: Draft, told: Told) -> Population:
    """The people that a draft reads; a doubtful number of them is refused."""
    people = population_of(made, [found(one) for one in made.attributes])
    refuse_other_size(made, number_of(people), told)
    return people


def _size_of(people: Population) -> tuple[int, int]:
    """How many people these are, and in how many places."""
    return number_of(people), people.geography.size(people.geography.leaf)


def number_of(people: Population) -> int:
    """How many people these are."""
    return len(people.unit) if people.count is None else int(people.count.sum())


def found(one: Chosen) -> AttributeColumn:
    """A column as the look has found it: levels that it lists are read from the data."""
    missing: Any = one.missing or "refuse"
    return AttributeColumn(
        name=one.name,
        column=one.column,
        levels=one.levels or None,
        levels_from_data=one.levels_from_data,
        values=Pairs(one.values),
        bins=one.bins or None,
        missing=missing,
        missing_values=one.missing_values,
    )


def population_of(
    made: Draft,
    columns: Sequence[AttributeColumn],
    units: Any = None,
    keys: KeyColumn | None = None,
    *,
    public: bool = False,
) -> Population:
    """The people of a table, read by the reader of its kind."""
    table, form, source = made.table, made.look.form, made.geography
    if table is not made.look.path:
        form = replace(form, beside=())  # what is beside a file is among its columns already
    choice = RowChoice(_values(made.include), _values(made.exclude))
    blank = made.blank_counts or "refuse"
    totals: Literal["drop", "refuse"] = "drop" if made.places.totals else "refuse"
    if made.kind == "wide":
        assert made.cells is not None
        if keys is not None:
            keys.refuse_counted("it for a table of counts")
        names = [name for name, _ in made.cells.attributes]
        return read_counts(
            table,
            schema=Schema(tuple(Attribute(name, held) for name, held in made.all_attributes)),
            geography=source,
            columns={
                column: dict(zip(names, held, strict=True))
                for column, held in made.cells.levels_of.items()
            },
            attributes=columns,
            units=units,
            public=public,
            totals=totals,
            sums="keep" if made.keep_sums else "refuse",
            blank_counts=blank,
            overlap=1,
            choice=choice,
            form=form,
        )
    if made.kind == "dwellings":
        households = read_households(
            table,
            key=made.key,
            geography=source,
            attributes=columns,
            units=units,
            public=public,
            keys=keys,
            choice=choice,
            form=form,
        )
        return to_population(households)
    return read_microdata(
        table,
        attributes=columns,
        geography=source,
        units=units,
        public=public,
        totals=totals,
        not_counts=made.not_counts if made.kind == "people" else (),
        count=made.count,
        blank_counts=blank,
        keys=keys,
        choice=choice,
        form=form,
    )


def _values(of: Mapping[str, Sequence[str]]) -> Pairs[tuple[str, ...]]:
    return Pairs((column, tuple(values)) for column, values in of.items())


@dataclass(frozen=True)
class _Preview:
    """What is shown.

    where
        header, rows   the first rows that are read, of the columns that are used
        places         for each level how many units it has, and the largest with their people
        levels         for each attribute its levels with their people
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    places: tuple[tuple[str, int, tuple[tuple[str, int], ...]], ...]
    levels: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]

    def lines(self) -> list[str]:
        """As text."""
        found = ["first rows:", f"  {' | '.join(self.header)}"]
        found += [f"  {' | '.join(row)}" for row in self.rows]
        for depth, (level, number, largest) in enumerate(self.places):
            found.append(f"{'  ' * depth}{level}: {number:,}{_listed(largest, number)}")
        for name, levels in self.levels:
            found.append(f"{name}: {len(levels)} levels{_listed(levels[:SHOWN], len(levels))}")
        return found


def _listed(some: tuple[tuple[str, int], ...], number: int) -> str:
    more = ", ..." if number > len(some) else ""
    return f" ({', '.join(f'{name} {people:,}' for name, people in some)}{more})"


def preview(made: Draft, people: Population) -> _Preview:
    """What a draft has read."""
    counts = np.ones(len(people.unit), dtype=np.int64) if people.count is None else people.count
    cells = () if made.cells is None else tuple(made.cells.levels_of)
    own = [*made.places.columns, *(one.column for one in made.attributes), made.count, *cells]
    known = made.look.frame.columns
    columns = [one for one in dict.fromkeys(own) if one in known][:COLUMNS]
    frame = made.look.frame
    if made.places.totals:
        frame = frame.filter(~total_rows(frame, made.places.columns))
    for column, values in made.exclude.items():
        frame = frame.filter(~frame[column].fill_null("").is_in(values))
    first = frame.select(columns).head(ROWS)
    rows = tuple(tuple(one or "" for one in row) for row in first.iter_rows())
    codes = np.unravel_index(people.cell, people.schema.shape) if people.schema.names else ()
    levels = tuple(
        (one.name, tuple(zip(one.levels, _sums(code, counts, len(one.levels)), strict=True)))
        for one, code in zip(people.schema.attributes, codes, strict=True)
    )
    return _Preview(tuple(columns), rows, _places(people, counts), levels)


def _sums(codes: Ints | Ints32, counts: Ints, size: int) -> list[int]:
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, codes, counts)
    found: list[int] = sums.tolist()
    return found


def _places(
    people: Population, counts: Ints
) -> tuple[tuple[str, int, tuple[tuple[str, int], ...]], ...]:
    tree = people.geography
    found = []
    for level in tree.levels[1:]:
        own = tree.ancestors(level, of=tree.leaf)[people.unit]
        sums = _sums(own, counts, tree.size(level))
        largest = sorted(range(len(sums)), key=lambda k: -sums[k])[:SHOWN]
        names = tree.units[tree.depth(level)]
        some = tuple((str(names[k]), sums[k]) for k in largest)
        found.append((level, tree.size(level), some))
    return tuple(found)
