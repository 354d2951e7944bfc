"""A study: how it is found, what it works with and what it hands over.

Studies of papers are a distribution of their own, found by entry points of the group
``headcount.studies``; a comparison of a person's own file is one, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from headcount.comparison.options import StudySettings
from headcount.engines.protocol import Engine, InOrder
from headcount.errors import ConfigError, did_you_mean
from headcount.progress import Progress, silent
from headcount.registry import STUDIES, entry_points

if TYPE_CHECKING:
    import polars as pl

    from headcount.comparison.cache import Cache
    from headcount.comparison.exhibits import Exhibits

TO_INSTALL = "pip install headcount-papers, or make install in a clone"
"""How studies of papers are had."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """Work that can be run again, with a report.

    where
        name       of the command
        package    holds its code, its numbers and its report
        title      one line for the command's help
        about      what else the help says, with an example
        settings   the class of its settings
        keeps      what it keeps between calls ("releases"), which gives it an option --cache;
                   empty if nothing
    """

    name: str
    package: str
    title: str
    about: str
    settings: type[StudySettings]
    keeps: str = ""

    def run(self, settings: StudySettings, work: Work) -> Findings:
        """Compute everything: the function ``run`` of the package's module ``study``."""
        return cast("Findings", import_module(f"{self.package}.study").run(settings, work))

    def exhibits(self) -> type[Exhibits]:
        """The class that makes the figures and tables of its report."""
        from headcount.comparison.exhibits import Exhibits

        return Exhibits

    def words(self, findings: Findings) -> Mapping[str, Any]:
        """What else the template of its report may name."""
        return {}


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a study works with: a cache, an engine and somebody who watches."""

    cache: Cache
    engine: Engine = field(default_factory=InOrder)
    progress: Progress = silent


@dataclass(frozen=True, kw_only=True, eq=False)
class Findings:
    """What a study found.

    where
        settings       those it was run with
        tables         file name without ending -> table, written to ``tables/``
        confidential   whether they were computed from confidential data; it has no default
        frames         tables for figures only, too large or too plain to be written
        facts          what the report's prose and captions speak of, by name
    """

    settings: StudySettings
    tables: Mapping[str, pl.DataFrame]
    confidential: bool
    frames: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def study_names() -> list[str]:
    """Every study that is installed."""
    return sorted({point.name for point in entry_points(STUDIES)})


def load_study(name: str) -> Study:
    """The study of that name; one that is not installed is an error that says how to get it."""
    found = [point for point in entry_points(STUDIES) if point.name == name]
    if not found:
        known = study_names()
        expected = did_you_mean(name, known) if known else f"none is installed: {TO_INSTALL}"
        raise ConfigError("study", found=repr(name), expected=expected)
    study = found[0].load()
    if not isinstance(study, Study):
        raise ConfigError(
            f"study {name!r}", found=found[0].value, expected="a headcount.comparison.study.Study"
        )
    return study
