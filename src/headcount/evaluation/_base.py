"""What a metric is: it compares a release with the truth, and says when it cannot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Protocol

from headcount.errors import HeadcountError, InputError
from headcount.mechanisms import Chain, Mechanism
from headcount.population import Population
from headcount.processes import Progress, silent
from headcount.release import CountsRelease, Release, TablesRelease
from headcount.release.readers_estimate import ReadersEstimate, can_be_estimated, readers_estimate
from headcount.report.figures import Axis
from headcount.report.finding import SUPPORTED, Finding, Support
from headcount.report.model import Column
from headcount.tabulate import Counts, Query, tabulate

LEVEL = Column(key="level", label="Level")
QUERY = Column(key="query", label="Counts by")
"""Columns that the tables of several metrics have."""


def by_level(levels: Sequence[str]) -> Axis:
    """The axis of a figure by geographic level."""
    return Axis(column="level", title="Level, from the whole down", names=tuple(levels))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Truth:
    """The curator's side of a release; whatever is computed from it is confidential.

    where
        counts      everybody: what a release is scored against
        protected   what the mechanism was given: ``counts``, or fewer where households were cut
        folders     where runs left what only the curator may see
        mechanism   how the release was made, which metrics may run again; None if not known
    """

    counts: Counts
    protected: Counts
    folders: tuple[Path, ...] = ()
    mechanism: Mechanism | None = None

    def __repr__(self) -> str:
        return f"<Truth: {self.counts!r}>"

    @classmethod
    def of(cls, people: Truth | Population | Counts) -> Truth:
        """The truth of a population, or as it is."""
        if isinstance(people, Truth):
            return people
        if not isinstance(people, Population | Counts):
            raise InputError(
                "truth",
                found=f"a {type(people).__name__}",
                expected="the Population that was protected, after the release",
            )
        counts = tabulate(people) if isinstance(people, Population) else people
        return Truth(counts=counts, protected=counts)

    def made_by(self, mechanism: Mechanism) -> Truth:
        """The same, and the mechanism that made the release."""
        return replace(self, mechanism=mechanism)

    def on(self, release: Release) -> Truth:
        """The same as far as a release tells it: its attributes, and its levels, made ones too."""
        places, own = release.geography.levels, self.counts.geography.levels
        same = self.counts.level == release.geography.leaf and set(places) <= set(own)
        meant = (self.counts.schema.roles, self.counts.schema.attacker)
        as_meant = meant == (release.schema.roles, release.schema.attacker)
        if self.counts.schema == release.schema and same and as_meant:
            return self
        return replace(
            self,
            counts=_seen(self.counts, release),
            protected=_seen(self.protected, release),
        )

    @property
    def knows_mechanism(self) -> bool:
        """Whether it is known how the release was made."""
        return self.mechanism is not None

    def chain(self) -> Chain:
        """How the release was made; an error if that is not known."""
        if self.mechanism is None:
            raise InputError(
                "truth", found="no mechanism", expected="the one that made the release (made_by)"
            )
        return Chain.of(self.mechanism)

    def files(self, name: str) -> dict[str, Path]:
        """Files of that name left for the curator: by the run (""), or by a step of its chain."""
        found: dict[str, Path] = {}
        for folder in self.folders:
            own = folder / name
            found |= {"": own} if own.exists() else {}
            found |= {path.parent.name: path for path in sorted(folder.glob(f"*/{name}"))}
        return found


def _seen(counts: Counts, release: Release) -> Counts:
    """Counts by the attributes of a release, of the units of its lowest level."""
    leaf = release.geography.leaf
    answer = Query("release", release.schema.names).matrix(counts.schema)
    return replace(
        counts,
        domain=replace(counts.domain, schema=release.schema, geography=release.geography),
        level=leaf,
        matrix=(counts.at(leaf).matrix @ answer).tocsr(),
        quarters=None,
    )


class NotFeasible(HeadcountError):
    """A metric found, while it was at work, that it cannot end; the message says why."""


class Metric(ABC):
    """A way to measure a release against the truth: a frozen dataclass of its parameters.

    ``name`` is that of its module and of its table in a config. ``on_request`` is set where a
    metric is too slow to run unless it is asked for by name; ``order`` is its place in a report.
    ``depends_on`` says whether the result follows from the release, from the truth, or from both.
    ``reads_estimates`` is set where tables that show less are scored by a reader's estimate.
    """

    name: ClassVar[str]
    on_request: ClassVar[bool] = False
    order: ClassVar[int] = 50
    depends_on: ClassVar[frozenset[str]] = frozenset({"release", "truth"})
    reads_estimates: ClassVar[bool] = False

    @abstractmethod
    def supports(self, release: Release, truth: Truth) -> Support:
        """Whether the metric can be computed for this release; if not, why not."""

    @abstractmethod
    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """The metric of a release that it supports; ``NotFeasible`` if it cannot end."""


def scored(
    metric: Metric, release: Release, truth: Truth, seen: Truth
) -> tuple[Support, Release, Truth]:
    """What a metric scores: the release, or a reader's estimate of counts where it shows less.

    ``seen`` is the truth as far as the release tells it.
    """
    found = metric.supports(release, seen)
    if not (metric.reads_estimates and isinstance(release, TablesRelease)):
        return found, release, seen
    # Areas that were made for a release are no places in which others could be scored.
    if (found and not release.areas) or not can_be_estimated(release):
        return found, release, seen
    estimate, beside = estimated(release, truth)
    return metric.supports(estimate, beside), estimate, beside


def estimated(release: TablesRelease, truth: Truth) -> tuple[ReadersEstimate, Truth]:
    """A reader's estimate of all counts at the levels of the truth, and the truth beside it."""
    places = truth.counts.geography
    if places.leaf == release.geography.leaf:  # areas were made of these leaves
        beside = truth.on(replace(release, domain=replace(release.domain, geography=places)))
    else:
        beside = truth.on(release)
    sizes = None
    if truth.mechanism is not None:
        sizes = truth.chain().last.public_sizes(release.geography)
    return readers_estimate(release, beside.counts.domain, sizes=sizes), beside


def known_release(release: object) -> Release:
    """The release itself; anything else in its place is an error."""
    if not isinstance(release, Release):
        raise InputError(
            "release",
            found=f"a {type(release).__name__}",
            expected="a release first, and then the population that it was made from",
        )
    return release


def publishes_counts(release: Release) -> Support:
    """Whether a release has counts of every unit and cell, rather than tables with gaps."""
    if not isinstance(release, CountsRelease):
        return Support("the release publishes tables, not counts of every unit and cell")
    return Support("some counts are missing from the release" if release.missing else "")


def publishes_some_counts(release: Release) -> Support:
    """Whether a release has counts of units and cells, be it not of all."""
    return SUPPORTED if isinstance(release, CountsRelease) else publishes_counts(release)


def _publishes_tables(release: Release) -> Support:
    """Whether a release has tables, with cells withheld or counts changed."""
    if isinstance(release, TablesRelease):
        return SUPPORTED
    if release.as_counts().missing:
        return Support("the release lacks some counts, without tables that say which it withholds")
    return Support("the release publishes every count: it withholds nothing")


def withholds_cells(release: Release) -> Support:
    """Whether a release has tables with withheld cells, and every other count exact."""
    if (tables := _publishes_tables(release)) and release.as_tables().changed:
        return Support("the counts of the tables are changed, not withheld")
    return tables


def changes_counts(release: Release) -> Support:
    """Whether a release has tables whose counts are changed."""
    if (tables := _publishes_tables(release)) and not release.as_tables().changed:
        return Support("these tables withhold cells, but do not change counts")
    return tables


class _Supports(Protocol):
    def __call__(self, release: Release, truth: Truth) -> Support: ...


def needs(
    published: Callable[[Release], Support],
    *,
    attributes: Sequence[str] = (),
    below_the_whole: bool = False,
) -> _Supports:
    """What ``supports`` of a metric is that needs no more than this of a release.

    where
        published         what it must publish
        attributes        of the schema
        below_the_whole   whether it needs a level there
    """

    def supports(release: Release, truth: Truth) -> Support:
        if not (found := published(release)):
            return found
        if missing := [name for name in attributes if name not in release.schema.names]:
            return Support(f"the schema has no attribute {' and no '.join(missing)}")
        if below_the_whole and len(release.geography.levels) < 2:
            return Support("there is no level below the whole")
        return SUPPORTED

    return supports
