"""The config of a run: a population, the steps that protect it, and where the release goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from headcount.attacks import Attack
from headcount.engines import EngineName
from headcount.errors import ConfigError
from headcount.evaluation import Metric
from headcount.fields import APART, AtLeast0, FilePath, FolderOrURI, Pairs
from headcount.mechanisms import Chain, PostTabular, PreTabular, ReusedRun
from headcount.population import Source
from headcount.registry import MECHANISMS, POPULATIONS
from headcount.release.foreign import ForeignFiles
from headcount.release.layout import FileFormat, FileLayout, MarginNames
from headcount.storage import storage_at

Publishable = Literal["microdata", "mdf", "measurements"]


@dataclass(frozen=True, kw_only=True)
class OutputSettings:
    """Where a run goes, and in which files.

    where
        out           the run directory: new, or the same run to resume
        engine        "local", this machine, or "spark": where it runs; the release is the same
        workspace     where TopDown keeps its files until the release is whole: another folder than
                      ``internal/levels`` of the run, or ``s3://bucket/folder``
        format        of the tables: "parquet", "csv" or both
        tidy          one row for each count, not one for each unit
        totals        the total of each unit, in a table of its own
        margins       lists of attributes: counts by these alone, each in a table of its own
    """

    out: FilePath
    engine: Annotated[EngineName, APART] = "local"
    workspace: FolderOrURI | None = None
    format: tuple[FileFormat, ...] = ("parquet",)
    tidy: bool = False
    totals: bool = False
    margins: tuple[MarginNames, ...] = ()

    @property
    def layout(self) -> FileLayout:
        """The files that the release is written in."""
        margins = (*(((),) if self.totals else ()), *self.margins)
        return FileLayout(formats=self.format, tidy=self.tidy, margins=margins)

    def __post_init__(self) -> None:
        if () in self.margins:
            raise ConfigError(
                "run", place="margins", found="a list of no attribute", expected="totals = true"
            )
        _ = self.layout  # which refuses formats that are named twice
        if self.workspace is not None:
            try:
                storage_at(self.workspace)
            except ConfigError as error:
                place, found = "workspace", error.found
                raise ConfigError(
                    "run", place=place, found=found, expected=error.expected
                ) from None


@dataclass(frozen=True, kw_only=True)
class RunSettings(OutputSettings):
    """``[run]``: where the run goes, and where its noise comes from.

    where
        seed          makes the run repeatable, and therefore not private
        ledger        where the spend is recorded
        dataset       the dataset's name in that ledger
        new_content   the owner's word that new content belongs under that name
        publish       what is published besides the counts
        reuse         a run of the same steps, whose changed people are taken for more tables
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "noise": "none: noise comes from the keyed sampler alone, so delete this key"
    }
    seed: AtLeast0 | None = None
    ledger: FilePath | None = None
    dataset: str = ""
    new_content: Annotated[bool, APART] = False
    publish: tuple[Publishable, ...] = ()
    reuse: ReusedRun | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.ledger is None) != (not self.dataset):
            raise ConfigError(
                "run",
                found="a ledger without a dataset" if self.ledger else "a dataset without a ledger",
                expected="ledger and dataset together: which ledger, and which name in it",
            )


@dataclass(frozen=True, kw_only=True)
class KeptRunSettings(RunSettings):
    """``[run]`` as the directory of a run keeps it: older versions chose who draws the noise.

    where
        noise   the keyed sampler ("table"), or OpenDP, which is part of such a run's digest
    """

    noise: Literal["table", "opendp"] = "table"


@dataclass(frozen=True, kw_only=True)
class ConfigCase:
    """``[[case]]``: one way to protect the population that ``headcount compare`` tries.

    where
        name        what the report calls it
        mechanism   the steps that protect, in order
    """

    name: str
    mechanism: tuple[PreTabular | PostTabular, ...]

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ConfigError("case", place="name", found="no text", expected="a name")


@dataclass(frozen=True, kw_only=True)
class ConfigChoice:
    """``[choice]``: which way to protect was chosen, and why; a note that no command acts on.

    where
        case     the name of the way in the comparison
        reason   why it was chosen
    """

    case: str
    reason: str

    def __post_init__(self) -> None:
        for place, text in (("case", self.case), ("reason", self.reason)):
            if not text.strip():
                raise ConfigError("choice", place=place, found="no text", expected="some words")


@dataclass(frozen=True, kw_only=True)
class ComparisonConfig:
    """What ``headcount compare`` reads of a config: a population, and how it might be protected.

    where
        population   where the people come from
        mechanism    the steps of a run, if the config has any: their unit of privacy is that of
                     the comparison, and they are compared too
        case         further ways to protect
        run          the run of the config, if it has one: names the ledger
    """

    population: Source
    mechanism: tuple[PreTabular | PostTabular, ...] = ()
    case: tuple[ConfigCase, ...] = ()
    run: RunSettings | None = None


@dataclass(frozen=True, kw_only=True)
class Config:
    """One run of ``headcount protect``, and what ``headcount evaluate`` is to compute of it.

    where
        population   where the people come from
        mechanism    the steps that protect them, in order
        run          where the release goes
        metric       what to compute from the release; by default all that support it
        attack       what to try on it, likewise
        release      how files of somebody else's release are read, for ``evaluate --release``
        case         other ways to protect the same people, which ``headcount compare`` tries
        choice       which of them was chosen, and why: a note
    """

    population: Source
    mechanism: tuple[PreTabular | PostTabular, ...]
    run: RunSettings
    metric: tuple[Metric, ...] = ()
    attack: tuple[Attack, ...] = ()
    release: ForeignFiles = field(default_factory=ForeignFiles)
    case: tuple[ConfigCase, ...] = ()
    choice: ConfigChoice | None = None

    @property
    def plugins(self) -> tuple[str, ...]:
        """The parts that are not ours and made the release, with their distributions."""
        found = [POPULATIONS.outside(self.population), *map(MECHANISMS.outside, self.mechanism)]
        return tuple(one for one in found if one)

    def __post_init__(self) -> None:
        chain = Chain.of(self.mechanism)
        chain.refuse_unpublishable(self.run.publish)
        if self.run.reuse is not None and not chain.steps:
            raise ConfigError(
                "run",
                place="run.reuse",
                found=f"it with {chain.name!r}, which changes no records",
                expected="the steps of the run that is reused (swapping, sampling), then the last",
            )
        if self.run.layout.margins and chain.last.withholds:
            raise ConfigError(
                "run",
                place="run.totals" if self.run.totals else "run.margins",
                found=f"sums of tables of which {chain.last.name!r} withholds cells",
                expected="none: a sum that took no part in the protection can give a withheld "
                "count away; list the tables that are wanted under [mechanism] tables",
            )


def paths_in(value: object) -> Iterator[Path]:
    """The paths in a config, or in any part of it."""
    if isinstance(value, Path):
        yield value
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            found = getattr(value, one.name)
            # Two keys hold text that may be a path: a schema of ours has a name without a folder.
            text = one.name in ("schema", "workspace") and isinstance(found, str)
            if text and (one.name == "workspace" or "/" in found):
                yield Path(found)
            yield from paths_in(found)
    elif isinstance(value, tuple | list | Pairs):
        for part in value:
            yield from paths_in(part)
    elif isinstance(value, dict):
        yield from paths_in(list(value.values()))
