"""A study: how it is found, what it works with and what it hands over.

Studies of papers are a distribution of their own, found by entry points of the group
``headcount.studies``; a comparison of a person's own file is one, too. Its settings are one
dataclass, which gives the command's options, the recipe and the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_origin, get_type_hints

from headcount.engines import Engine, InOrder
from headcount.errors import ConfigError, did_you_mean
from headcount.privacy.loss import exact
from headcount.processes import Progress, silent
from headcount.registry import STUDIES, TO_INSTALL, entry_points

if TYPE_CHECKING:
    import polars as pl

    from headcount.comparison.cache import Cache
    from headcount.comparison.template import Exhibits


@dataclass(frozen=True, kw_only=True)
class Option:
    """Marks a field as an option of the command: ``Annotated[int, Option(help="...")]``.

    where
        help     what the command's help says
        name     the option's name without dashes; the field's if empty
        least, most   the smallest and the largest number that are allowed
        always   whether the recipe names it even where it has its default
        each     what is done to every word of a list, such as ``str.upper``
    """

    help: str
    name: str = ""
    least: int | None = None
    most: int | None = None
    always: bool = False
    each: Callable[[str], str] = str


Seed = Annotated[int, Option(help="Makes the study repeatable.", least=0, most=2**63, always=True)]


@dataclass(frozen=True, kw_only=True)
class Given:
    """One option: the field behind it, its type, and how command and recipe write it."""

    field: str
    kind: Any
    default: Any
    option: Option

    @property
    def name(self) -> str:
        """The option's name without dashes."""
        return self.option.name or self.field

    @property
    def words(self) -> bool:
        """Whether it is a list of words, typed with commas between them."""
        return bool(self.kind == tuple[str, ...])

    @property
    def numbers(self) -> bool:
        """Whether it is a list of exact numbers; the option may be repeated."""
        return bool(self.kind == tuple[Fraction, ...])

    def read(self, typed: Any) -> Any:
        """The setting that was typed; an empty list stands for the default."""
        if self.words:
            found = (word.strip() for word in typed.split(","))
            return tuple(self.option.each(word) for word in found if word) or self.default
        if self.numbers:
            parts = [part for text in typed or [] for part in text.split(",")]
            found_numbers = sorted(exact(part, name=f"--{self.name}") for part in parts)
            return tuple(found_numbers) or self.default
        return typed

    def expected(self, value: Any) -> str:
        """What the option should be, if the value is not allowed."""
        least, most = self.option.least, self.option.most
        if self.numbers:
            fine = value and min(value) > 0 and len(set(value)) == len(value)
            return "" if fine else "distinct numbers above 0"
        if least is None or value is None or least <= value <= (value if most is None else most):
            return ""
        return f"{least:,} or more" if most is None else f"{least:,} to {most:,}"

    def write(self, value: Any) -> list[str]:
        """The option as words of a recipe. A file goes by its name: its folder is nobody's."""
        if self.numbers:
            return [f"--{self.name} {number}" for number in value]
        if isinstance(value, bool):
            return [f"--{self.name}"] if value else []
        if self.words:
            value = ",".join(value)
        if isinstance(value, Path):
            value = value.name
        text = f"{value:g}" if isinstance(value, float) else str(value)
        return [f"--{self.name} {quote(text)}"]


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """Base of every study's settings: frozen fields, those marked by ``Option`` are options."""

    def __post_init__(self) -> None:
        for given in self.options():
            value = getattr(self, given.field)
            if expected := given.expected(value):
                shown = ", ".join(map(str, value)) or "none" if given.numbers else str(value)
                raise self.refused(given.field, found=shown, expected=expected)

    def refused(self, place: str, *, found: str, expected: str) -> ConfigError:
        """The error of a setting that is not allowed."""
        study = type(self).__module__.split(".")[-2].replace("_", "-")
        return ConfigError(f"study {study}", place=place, found=found, expected=expected)

    @classmethod
    def options(cls) -> tuple[Given, ...]:
        """The options in the order of the fields."""
        hints = get_type_hints(cls, include_extras=True)
        return tuple(
            Given(
                field=field.name,
                kind=get_args(hints[field.name])[0],
                default=_default(field),
                option=option,
            )
            for field in fields(cls)
            if get_origin(hints[field.name]) is Annotated
            for option in get_args(hints[field.name])[1:]
            if isinstance(option, Option)
        )

    def identity(self) -> dict[str, Any]:
        """What tells one run from another, for the manifest: all options. It holds no path."""
        return {given.field: _plain(getattr(self, given.field)) for given in self.options()}

    @property
    def usual(self) -> bool:
        """Whether no option was given: the run whose verdicts were examined one by one."""
        return all(getattr(self, given.field) == given.default for given in self.options())

    def recipe(self, *, study: str, out: str) -> str:
        """The command that makes the study again."""
        words = ["headcount study", study, f"--out {quote(out)}"]
        for given in self.options():
            value = self.typed(given.field)
            if given.option.always or value != given.default:
                words += given.write(value)
        return " ".join(words)

    def typed(self, field: str) -> Any:
        """A setting as the recipe gives it."""
        return getattr(self, field)

    def text(self) -> str:
        """Every setting on a line of its own."""
        found = {**asdict(self), **self.identity()}
        return "\n".join(f"{key} = {_shown(value)}" for key, value in found.items())


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else field.default


def _plain(value: Any) -> Any:
    """A setting as JSON can hold it."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Path):
        return value.name
    return str(value) if isinstance(value, Fraction) else value


def _shown(value: Any) -> str:
    if isinstance(value, Fraction):
        return f"{float(value):g}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return value.name if isinstance(value, Path) else str(value)


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
        from headcount.comparison.template import Exhibits

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
