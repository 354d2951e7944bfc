"""The two kinds of method: pre-tabular ones change records, post-tabular ones change tables.

A release is made by a chain (``_chain``): any pre-tabular steps, then one post-tabular step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from headcount.engines.protocol import Engine, InOrder
from headcount.errors import ConfigError, TruthError, did_you_mean
from headcount.geography import Geography
from headcount.mechanisms._measured import Measured
from headcount.mechanisms._outcome import CountsOutcome as CountsOutcome
from headcount.mechanisms._outcome import Outcome
from headcount.mechanisms._outcome import TablesOutcome as TablesOutcome
from headcount.mechanisms._preserved import LIVING_QUARTERS, Preserved
from headcount.noise import Noise
from headcount.population import Population
from headcount.privacy import Guarantee, UnitOfPrivacy
from headcount.progress import Progress, silent
from headcount.release.changed import KnownChange
from headcount.release.publication import Publication
from headcount.schema import Schema
from headcount.storage import Storage
from headcount.tabulate import Counts
from headcount.tabulate.published import TableCells

if TYPE_CHECKING:
    from headcount.mechanisms._stored_people import ReusedRun

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


def refuse_too_many(counts: Counts, *, name: str) -> None:
    """Refuse more people than floats count exactly; the message gives no number of them."""
    if int(counts.totals().sum()) > LARGEST_COUNT:
        expected = "counts that floats hold exactly"
        raise TruthError(name, found="more than 2^40 people", expected=expected)


class MethodBase(ABC):
    """What both kinds have in common. Parameters are frozen fields; ``repr`` makes it again.

    ``name`` is the name used in configs, reports and noise streams.
    """

    name: ClassVar[str]

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

    @property
    def public_text(self) -> str:
        """What a receipt says of the settings: all of them, but where some are kept secret."""
        return repr(self)

    @property
    def keeps_settings_secret(self) -> bool:
        """Whether settings stay with the curator, so that no digest of them may be published."""
        return False

    @property
    def secret_files(self) -> tuple[Path, ...]:
        """Files that must outlive every run, and so may not lie in one."""
        return ()

    def for_a_trial(self) -> Self:
        """The same without files that must outlive every run: for releases that are only scored."""
        return self

    @property
    def asks_of_population(self) -> tuple[str, ...]:
        """Flags of ``[population]`` that this method needs set; a kind without them is left."""
        return ()

    @abstractmethod
    def guarantee(self, schema: Schema, geography: Geography) -> Guarantee:
        """What a release promises that this method makes alone."""

    def publications(self) -> Mapping[str, Publication]:
        """What can be published besides counts."""
        return {}


class PreTabular(MethodBase):
    """A method that changes records: population in, population out.

    where
        needs_households   whether who lives with whom must be known
        keeps_households   whether that is still known afterwards
    """

    needs_households: ClassVar[bool] = False
    keeps_households: ClassVar[bool] = False

    @property
    def weight(self) -> Fraction:
        """How many people each person of the result stands for."""
        return Fraction(1)

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

    def stability(self, unit: UnitOfPrivacy) -> int | None:
        """The most records of the result that one record can change; None if nothing is proved.

        A number k is a proof: for any neighbours D, D' there is a coupling of the step's results
        in which they are at most k steps apart, with certainty.
        """
        return None

    def preserves(self, schema: Schema, geography: Geography) -> tuple[Preserved, ...]:
        """What is the same before and after: published exactly, if the records are."""
        return ()

    def leaves(self, kept: Preserved, schema: Schema, geography: Geography) -> bool:
        """Whether some counts are surely the same before and after."""
        if kept.of == LIVING_QUARTERS:
            return self.keeps_households  # dwellings stay where they are, and so does their number
        return any(own.covers(kept, geography) for own in self.preserves(schema, geography))

    @property
    def no_bound(self) -> str:
        """Why no bound is proved, where ``stability`` gives none."""
        return "how many records one person can change is not bounded by any proof"


class PostTabular(MethodBase):
    """A method that changes tables: leaf counts and noise in, protected counts or tables out.

    where
        to_publish_more   what it would take to publish more than ``publications`` offers
        withholds         whether cells are withheld, so that no other sum may be published
        changes_tables    whether counts of published tables are changed, so that none is exact
        whole_counts      whether published counts are whole numbers
    """

    withholds: ClassVar[bool] = False
    changes_tables: ClassVar[bool] = False
    whole_counts: ClassVar[bool] = True
    to_publish_more: ClassVar[str] = "only whole counts of 0 or more can be placed as people"

    def for_a_rehearsal(self) -> Self:
        """The same for nobody: without what must outlive every run, and what true counts must keep.

        It makes a release of nobody before a loss, to see that all files can be made.
        """
        return self.for_a_trial()

    @property
    def cut_to(self) -> int | None:
        """People to which larger households are cut first; None if they stay as they are."""
        return None

    def plan(self, schema: Schema, geography: Geography) -> tuple[Measured, ...]:
        """Every measurement that will be made, with its exact loss, before data is read."""
        return ()

    def certificate(self, schema: Schema, geography: Geography) -> Mapping[str, Any]:
        """What of the loss concerns single attributes and places, for the receipt."""
        return {}

    def measured_along(self, geography: Geography) -> Geography:
        """The tree whose units are measured; published are those of ``geography``."""
        return geography

    def exact(self, schema: Schema, geography: Geography) -> Mapping[str, Preserved]:
        """Which counts the statements about what is released exactly are about, where they are."""
        return {}

    def check_people(self, population: Population) -> None:
        """Refuse people for whom the plan's losses would not be true."""

    def check(self, counts: Counts) -> tuple[str, ...]:
        """Refuse data that cannot be protected as asked, before any loss is recorded.

        Returns remarks for the curator, if there is anything to say.
        """
        return ()

    def check_unchanged(self, counts: Counts) -> None:
        """Refuse what can be known beforehand only of people whom no earlier step changes."""

    def check_anew(self, counts: Counts) -> None:
        """Refuse people whom a step is to change again, where they may be changed only once."""

    def refuse_changed(self, *, by: str, weight: Fraction, households: bool) -> None:
        """Refuse to follow steps that change records, where that makes no sense.

        where
            by           the steps, by name
            weight       how many people each person stands for after them
            households   whether it is still known who lives with whom, and in which quarters
        """

    def changed_tables(
        self, schema: Schema, geography: Geography
    ) -> tuple[tuple[TableCells, str], ...]:
        """The tables whose counts are changed, each at each of its levels."""
        return ()

    def known_change(self) -> KnownChange | None:
        """What an attacker knows of changed tables who has read the settings; None if no more than
        the release says.
        """
        return None

    def cell_facts(self) -> Mapping[str, Any]:
        """What is known of the change of one published cell, from the settings alone."""
        return {}

    @abstractmethod
    def run(
        self, counts: Counts, noise: Noise, *, runs: range, context: Context | None = None
    ) -> Outcome:
        """Protect the leaf counts once for each run number; run r never reuses run s's noise."""

    def table_bytes(self, schema: Schema, geography: Geography) -> int:
        """Bytes of the tables that are held whole: by default dense ones of the leaf."""
        return geography.size(geography.leaf) * schema.size * SCALAR * COPIES

    def pooling(self, schema: Schema, geography: Geography) -> Pooling | None:
        """What it takes to pool answers; None where they are used as they were drawn."""
        return None

    def drawn_bytes(self, schema: Schema, geography: Geography) -> int:
        """Bytes of all draws of a run together: by default every cell of each planned level."""
        return sum(
            geography.size(one.level) * schema.size * one.draws * SCALAR
            for one in self.plan(schema, geography)
        )
