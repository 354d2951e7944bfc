"""What a metric is: it compares a release with the truth, and says when it cannot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import ClassVar

from headcount.errors import HeadcountError
from headcount.evaluation.truth import Truth
from headcount.progress import Progress, silent
from headcount.release import CountsRelease, Release, TablesRelease
from headcount.report.figures import Axis
from headcount.report.finding import SUPPORTED, Finding, Support
from headcount.report.model import Column

LEVEL = Column(key="level", label="Level")
QUERY = Column(key="query", label="Counts by")
"""Columns that the tables of several metrics have."""


def by_level(levels: Sequence[str]) -> Axis:
    """The axis of a figure by geographic level."""
    return Axis(column="level", title="Level, from the whole down", names=tuple(levels))


class NotFeasible(HeadcountError):
    """A metric found, while it was at work, that it cannot end; the message says why."""


class Metric(ABC):
    """A way to measure a release against the truth: a frozen dataclass of its parameters.

    ``name`` is that of its module and of its table in a config. ``on_request`` is set where a
    metric is too slow to run unless it is asked for by name; ``order`` is its place in a report.
    ``depends_on`` says whether the result follows from the release, from the truth, or from both,
    ``renamed`` has keys that there are no longer, each with the one to use now, in words.
    """

    name: ClassVar[str]
    on_request: ClassVar[bool] = False
    order: ClassVar[int] = 50
    depends_on: ClassVar[frozenset[str]] = frozenset({"release", "truth"})
    renamed: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def supports(self, release: Release, truth: Truth) -> Support:
        """Whether the metric can be computed for this release; if not, why not."""

    @abstractmethod
    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """The metric of a release that it supports; ``NotFeasible`` if it cannot end."""


@singledispatch
def publishes_counts(release: Release) -> Support:
    """Whether a release has counts of every unit and cell, rather than tables with gaps."""
    return Support("the release publishes tables, not counts of every unit and cell")


@publishes_counts.register
def _(release: CountsRelease) -> Support:
    if release.missing:
        return Support("some counts are missing from the release")
    return SUPPORTED


@singledispatch
def publishes_some_counts(release: Release) -> Support:
    """Whether a release has counts of units and cells, be it not of all."""
    return publishes_counts(release)  # which says why not


@publishes_some_counts.register
def _(release: CountsRelease) -> Support:
    return SUPPORTED


@singledispatch
def publishes_tables(release: Release) -> Support:
    """Whether a release has tables, with cells withheld or counts changed."""
    return Support("the release has no published tables")


@publishes_tables.register
def _(release: CountsRelease) -> Support:
    if release.missing:
        return Support("the release lacks some counts, without tables that say which it withholds")
    return Support("the release publishes every count: it withholds nothing")


@publishes_tables.register
def _(release: TablesRelease) -> Support:
    return SUPPORTED


def withholds_cells(release: Release) -> Support:
    """Whether a release has tables with withheld cells, and every other count exact."""
    if (tables := publishes_tables(release)) and release.as_tables().changed:
        return Support("the counts of the tables are changed, not withheld")
    return tables


def changes_counts(release: Release) -> Support:
    """Whether a release has tables whose counts are changed."""
    if (tables := publishes_tables(release)) and not release.as_tables().changed:
        return Support("the tables withhold cells: every count that they publish is as it is")
    return tables
