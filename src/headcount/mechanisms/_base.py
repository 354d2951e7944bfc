"""The two kinds of method: pre-tabular ones change records, post-tabular ones change tables.

A release is made by a chain (``_chain``): any pre-tabular steps, then one post-tabular step. What
holds before any data is asked of a method's *design*, which binds its settings to a domain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias, TypedDict

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.domain import Domain
from headcount.engines import Engine, InOrder
from headcount.errors import ConfigError, InputError, TruthError, did_you_mean, one_of
from headcount.geography import Geography
from headcount.geography.spine import NamedArea
from headcount.mechanisms._measured import (
    ExpectedError,
    LinearError,
    Neighbours,
    PlannedMeasurement,
)
from headcount.noise import Noise
from headcount.population import Population
from headcount.privacy import Guarantee, UnitOfPrivacy
from headcount.processes import Progress, silent
from headcount.release import CountsRelease, Dense, LevelTable, TablesRelease
from headcount.release.changed import KnownChange
from headcount.release.publication import Publication
from headcount.release.published import PublishedCells, TableRules
from headcount.storage import Storage
from headcount.tabulate import TOTAL, Counts, Query, every_cell
from headcount.tabulate.published import TableCells

if TYPE_CHECKING:
    from headcount.mechanisms._key_file import KeptKeys
    from headcount.mechanisms._stored_people import ReusedRun

Runs: TypeAlias = Ints | Floats | Sequence[LevelTable]
"""Protected counts of several runs: an array runs x units x cells, or one table a run."""


class Making(TypedDict):
    """How a release was made: what its kinds have in common."""

    domain: Domain
    mechanism: str
    guarantee: Guarantee
    key_kind: str
    backend: str


@dataclass(frozen=True, eq=False)
class CountsOutcome:
    """Protected counts per published level, and facts for the receipt.

    where
        seconds   how long each part took: of steps that read the truth, so for the curator only
        weight    how many people each person of a sample stands for
    """

    tables: Mapping[str, Runs]
    notes: Mapping[str, float | str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    weight: Fraction = Fraction(1)

    def as_counts(self) -> CountsOutcome:
        """Itself."""
        return self

    def dense(self, level: str) -> Dense:
        """Protected counts of all runs at a published level: runs x units x cells."""
        runs = self.tables[level]
        if isinstance(runs, np.ndarray):
            return runs
        full = [one if isinstance(one, np.ndarray) else one.toarray() for one in runs]
        return np.stack(full)

    def weighted(self, weight: Fraction) -> CountsOutcome:
        """The same with every count times the weight of a person in a sample."""
        if weight == 1:
            return self
        tables = {
            level: [_weighted(one, weight) for one in runs] for level, runs in self.tables.items()
        }
        return replace(self, tables=tables, weight=self.weight * weight)

    def release(self, number: int, making: Making) -> CountsRelease:
        """The release of the run with this number in the outcome."""
        tables = {level: runs[number] for level, runs in self.tables.items()}
        return CountsRelease(tables=tables, weight=self.weight, notes=self.notes, **making)


@dataclass(frozen=True, eq=False)
class TablesOutcome:
    """Published tables, and the rules by which cells are withheld or counts changed.

    where
        published   the tables of the first run
        later       those of the other runs; none where every run gives the same
        weight      how many people each person of a sample stands for in these tables already
    """

    published: tuple[PublishedCells, ...]
    rules: TableRules
    notes: Mapping[str, float | str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    later: tuple[tuple[PublishedCells, ...], ...] = ()
    weight: Fraction = Fraction(1)

    def of_run(self, number: int) -> tuple[PublishedCells, ...]:
        """The tables of the run with this number in the outcome."""
        return self.later[number - 1] if number and self.later else self.published

    def as_counts(self) -> CountsOutcome:
        """An error: there are no counts of every unit and cell."""
        raise InputError(
            "mechanism",
            found="published tables, with cells withheld or counts changed",
            expected="counts of every unit and cell",
        )

    def weighted(self, weight: Fraction) -> TablesOutcome:
        """Itself: what is withheld or changed by its size cannot be weighted afterwards."""
        if weight != self.weight:
            raise ConfigError(
                "published tables",
                found=f"a sample, in which each person stands for {weight}",
                expected="everybody: counts of a sample are small for another reason",
            )
        return self

    def release(self, number: int, making: Making) -> TablesRelease:
        """The release of the run with this number in the outcome."""
        tables = self.of_run(number)
        return TablesRelease(published=tables, rules=self.rules, notes=self.notes, **making)


Outcome: TypeAlias = CountsOutcome | TablesOutcome


def _weighted(table: LevelTable, weight: Fraction) -> LevelTable:
    """Counts times a weight, as floats: multiplied first, so that whole results are exact."""
    if isinstance(table, np.ndarray):
        return np.asarray(table * weight.numerator / weight.denominator)
    from scipy.sparse import csr_array

    values = table.data * weight.numerator / weight.denominator
    return csr_array((values, table.indices, table.indptr), shape=table.shape)


EVERYTHING, HOUSEHOLDS, PEOPLE = "everything", "households", "people"
GROUP_QUARTERS, LIVING_QUARTERS = "group quarters", "living quarters"


@dataclass(frozen=True)
class Preserved:
    """Counts of every unit of a level that are the same before and after a step.

    where
        of      what is counted; EVERYTHING that is known of those who live there
        level   whose units
        by      attributes of what is counted; none for the number alone
    """

    of: str
    level: str
    by: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.of == EVERYTHING:
            return f"every count of each {self.level}: nobody moves out of it"
        if self.of == GROUP_QUARTERS:
            return "everyone in group quarters, where they live"
        by = f" by {' x '.join(self.by)}" if self.by else ""
        return f"the number of {self.of}{by} in each {self.level}"

    def covers(self, other: Preserved, geography: Geography) -> bool:
        """Whether these counts being the same means that the others are the same too.

        Counts of a level add up to those above it, and counts by some attributes to those by fewer.
        """
        if geography.depth(self.level) < geography.depth(other.level):
            return False
        alike = self.of == other.of and set(other.by) <= set(self.by)
        return self.of == EVERYTHING or alike


LARGEST_COUNT = 1 << 40
"""People at most, where counts are added up as floats: these hold such sums exactly."""
SCALAR = 8
"""Bytes of a count, and of a draw."""
COPIES = 8
"""Whole tables held at once, at most: truth, noise, answers, a copy by column, two of the file."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """Where a run works: its engine, who watches, and its folders.

    where
        workspace      survives a crash, for a resumed run
        measurements   for the noisy measurements, if they are to be published
        curator        for what may never be part of a release: who was swapped with whom, what
                       shows withheld cells protected, how long each part took
        reuse          a run whose changed people are taken, in place of changing them again
    """

    engine: Engine = field(default_factory=InOrder)
    progress: Progress = silent
    workspace: Storage | None = None
    measurements: Path | None = None
    curator: Path | None = None
    reuse: ReusedRun | None = None


def refuse_too_many(counts: Counts, *, name: str) -> None:
    """Refuse more people than floats count exactly; the message gives no number of them."""
    if int(counts.totals().sum()) > LARGEST_COUNT:
        expected = "counts that floats hold exactly"
        raise TruthError(name, found="more than 2^40 people", expected=expected)


class _MethodBase(ABC):
    """What both kinds have in common. Parameters are frozen fields; ``repr`` makes it again.

    where
        name            used in configs, reports and noise streams
        of_households   whether it is about households: who lives with whom must be known, and
                        still is afterwards
    """

    name: ClassVar[str]
    of_households: ClassVar[bool] = False

    @property
    def draws_noise(self) -> bool:
        """Whether the result depends on chance at all."""
        return True

    def __new__(cls, *_args: object, **settings: object) -> Self:
        """Refuse a setting that does not exist before the dataclass does, which names none."""
        known = cls.__dataclass_fields__ if is_dataclass(cls) else settings
        for setting in settings:
            if setting not in known:
                raise ConfigError(
                    cls.__name__,
                    found=f"setting {setting!r}",
                    expected=did_you_mean(setting, known),
                )
        return super().__new__(cls)

    @property
    def called(self) -> str:
        """What reports call it: its name, unless settings make another method of it."""
        return self.name

    def for_a_trial(self, *, of_nobody: bool = False) -> Self:
        """The same without files that must outlive every run: for releases that are only scored.

        A release of nobody, which shows before a loss that all files can be made, is also without
        what true counts must keep.
        """
        return self

    def publications(self) -> Mapping[str, Publication]:
        """What can be published besides counts."""
        return {}


@dataclass(frozen=True, kw_only=True, eq=False)
class StepDesign:
    """A pre-tabular method bound to a domain: everything that is known of it before data.

    where
        guarantee          what a release promises that publishes the changed records
        preserves          what is the same before and after: published exactly, if the records are
        stability          for a unit of privacy the most records of the result that one record
                           can change. A number k is a proof: for any neighbours D, D' there is a
                           coupling of the step's results in which they are at most k steps apart,
                           with certainty
        no_bound           why nothing is proved, for units without a number
        person_seconds     to choose or move one person; None where that depends on the data: on
                           whom a person can be swapped with
    """

    domain: Domain
    guarantee: Guarantee
    preserves: tuple[Preserved, ...] = ()
    stability: Mapping[UnitOfPrivacy, int] = field(default_factory=dict)
    no_bound: str = "how many records one person can change is not bounded by any proof"
    person_seconds: float | None = None


class PreTabular(_MethodBase):
    """A method that changes records: population in, population out."""

    @property
    def weight(self) -> Fraction:
        """How many people each person of the result stands for."""
        return Fraction(1)

    @abstractmethod
    def on(self, domain: Domain) -> StepDesign:
        """What is known of the step on a domain before any data."""

    def check(self, population: Population) -> tuple[str, ...]:
        """Refuse data that cannot be changed as asked, before any loss is recorded.

        Returns remarks for the curator, if there is anything to say.
        """
        return ()

    @abstractmethod
    def apply(
        self, population: Population, noise: Noise, *, run: int, context: Context
    ) -> Population:
        """The changed population of a run; run r never reuses run s's noise."""


class PostTabular(_MethodBase):
    """A method that changes tables: leaf counts and noise in, protected counts or tables out.

    Whoever writes one gives it settings, ``on`` and ``run``; all else has a default.

    where
        withholds   whether cells are withheld, so that no other sum may be published
    """

    withholds: ClassVar[bool] = False

    @abstractmethod
    def on(self, domain: Domain) -> Design:
        """The design: what is known of the method on a domain before any data."""

    @abstractmethod
    def run(
        self, design: Any, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> Outcome:
        """Protect the leaf counts once for each run number; run r never reuses run s's noise.

        ``design`` is what ``on`` gave for the domain of these counts.
        """

    def check(self, design: Any, counts: Counts) -> tuple[str, ...]:
        """Refuse data that cannot be protected as asked, before any loss is recorded.

        Returns remarks for the curator, if there is anything to say.
        """
        return ()

    def known_change(self) -> KnownChange | None:
        """What an attacker knows of changed tables who has read the settings; None if no more than
        the release says.
        """
        return None

    def refuse_changed(self, *, by: str, weight: Fraction, households: bool) -> None:
        """Refuse to follow steps that change records, where that makes no sense.

        where
            by           the steps, by name
            weight       how many people each person stands for after them
            households   whether it is still known who lives with whom, and in which quarters
        """

    def public_sizes(self, geography: Geography) -> Ints | None:
        """Public numbers of the leaves that the method was given; None if it was given none."""
        return None


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """What it takes to pool answers before they are used.

    where
        answers   how many are drawn for it, also those that an estimate would never look at
        bytes     of pooled ones, in files while the run works
        words     from where they are pooled
    """

    answers: int
    bytes: int
    words: str


class _Weighed(Protocol):
    """Noisy answers of several levels, which are weighed against each other."""

    def of_areas(self, areas: Sequence[NamedArea], geography: Geography) -> tuple[LinearError, ...]:
        """What they tell of unions of units."""

    def suggested(
        self, goal: Any, wanted: Mapping[tuple[str, str], float] | None = None
    ) -> PostTabular:
        """The method with shares that suit a goal; ``wanted`` is the importance of answers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """A post-tabular method bound to a domain: everything that is known of it before data.

    where
        method      with its settings
        guarantee   what a release promises that this method makes alone
        plan        every measurement that will be made, with its exact loss
        neighbours  whom the noise protects: people are checked as it says
        exact       which counts the statements about what is released exactly are about
        tables      the tables whose counts are changed, each at each of its levels
        changes_tables   whether counts of published tables are changed, so that none is exact
        whole_counts     whether published counts are whole numbers
        spine       the places that are measured, where these are not the published ones
        public_text      what a receipt says of the settings, where it is not all of them
        secret_settings  whether some stay with the curator, so that no digest may be published
        keys        the file that keeps record keys, where there is one
        person_seconds   of methods without a plan, for one person; None where that depends on the
                    data: on which cells must be withheld
    """

    method: PostTabular
    domain: Domain
    guarantee: Guarantee
    plan: tuple[PlannedMeasurement, ...] = ()
    neighbours: Neighbours | None = None
    exact: Mapping[str, Preserved] = field(default_factory=dict)
    tables: tuple[tuple[TableCells, str], ...] = ()
    changes_tables: bool = False
    whole_counts: bool = True
    spine: Geography | None = None
    public_text: str = ""
    secret_settings: bool = False
    keys: KeptKeys | None = None
    person_seconds: float | None = None

    @property
    def tree(self) -> Geography:
        """The places that are measured; published are those of the domain."""
        return self.domain.geography if self.spine is None else self.spine

    @property
    def receipt(self) -> Mapping[str, Any]:
        """What a receipt says besides: ``settings`` as data, a ``certificate`` of the loss."""
        return {}

    @property
    def pooling(self) -> Pooling | None:
        """What it takes to pool answers; None where they are used as they were drawn."""
        return None

    @property
    def table_bytes(self) -> int:
        """Bytes of the tables that are held whole: by default dense ones of what is measured."""
        levels = {one.level for one in self.plan} or {self.tree.leaf}
        units = sum(map(self.tree.size, levels))
        return units * self.domain.schema.size * SCALAR * COPIES

    @property
    def drawn_bytes(self) -> int:
        """Bytes of all draws of a run together: by default every cell of each planned level."""
        cells = self.domain.schema.size * SCALAR
        return sum(self.tree.size(one.level) * one.draws for one in self.plan) * cells

    @property
    def asked(self) -> tuple[Query, ...]:
        """The queries whose errors are stated: the total, each attribute and every cell."""
        names = self.domain.schema.names
        cells = [every_cell(self.domain.schema)] if len(names) > 1 else []
        return (TOTAL, *(Query(name, (name,)) for name in names), *cells)

    def expected_errors(self) -> tuple[ExpectedError, ...]:
        """How far off counts will be, where a formula says it: none by default."""
        return ()

    @property
    def weighed(self) -> _Weighed:
        """The answers of several levels that are weighed against each other; refused of others."""
        raise ConfigError(
            "plan",
            place="mechanism",
            found=f"{self.method.name!r} with a goal or an area",
            expected="a method with answers of several levels to weigh against each other: topdown",
        )

    def what_if(self, amounts: Mapping[str, Fraction]) -> PostTabular:
        """The method with another loss."""
        method: Any = self.method
        known = method.__dataclass_fields__
        for key in amounts:
            if key not in ("epsilon", "rho") or key not in known:
                expected = one_of([one for one in ("epsilon", "rho") if one in known])
                raise ConfigError("plan", place="--set", found=repr(key), expected=expected)
        changed: PostTabular = replace(method, **amounts)
        return changed

    def check(self, counts: Counts) -> tuple[str, ...]:
        """Refuse data that cannot be protected as asked; returns remarks for the curator."""
        return self.method.check(self, counts)

    def run(
        self, counts: Counts, noise: Noise, *, runs: range, context: Context | None = None
    ) -> Outcome:
        """Protect the leaf counts once for each run number."""
        return self.method.run(self, counts, noise, runs=runs, context=context or Context())
