"""A study, how it is found, what it works with and what it hands over."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from headcount.engines.protocol import Engine, InOrder
from headcount.errors import ConfigError
from headcount.progress import Progress, silent
from headcount.studies.frame.settings import StudySettings

if TYPE_CHECKING:
    import polars as pl

    from headcount.studies.frame.cache import Cache

_STUDIES = "headcount.studies"
_NO_PAPERS = ("frame", "compare")
"""Packages of this room that are no paper: what all stand on, and a study of one's own file."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A paper that can be run again.

    where
        name       of the command; the package's with hyphens
        title      one line for the command's help
        about      what else the help says, with an example
        settings   the class of its settings
        keeps      what it keeps between calls ("releases"), which gives it an option --cache;
                   empty if nothing
    """

    name: str
    title: str
    about: str
    settings: type[StudySettings]
    keeps: str = ""

    @property
    def package(self) -> str:
        """The package that holds its code, its numbers and its report."""
        return f"{_STUDIES}.{self.name.replace('-', '_')}"

    def run(self, settings: StudySettings, work: Work) -> Findings:
        """Compute everything: the function ``run`` of the package's module ``study``."""
        return cast("Findings", import_module(f"{self.package}.study").run(settings, work))


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
    """Every paper: each package of this room is one, but for two."""
    packages = pkgutil.iter_modules(import_module(_STUDIES).__path__)
    return [p.name.replace("_", "-") for p in packages if p.ispkg and p.name not in _NO_PAPERS]


def load_study(name: str) -> Study:
    """The study of that name, ``STUDY`` of its package."""
    if name not in study_names():
        raise ConfigError("study", found=repr(name), expected=f"one of {', '.join(study_names())}")
    return cast("Study", import_module(f"{_STUDIES}.{name.replace('-', '_')}").STUDY)
