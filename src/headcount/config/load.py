"""The config of a run: its tables, read into what they mean and checked before any data is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from headcount.attacks import Attack
from headcount.engines import EngineName
from headcount.errors import ConfigError, did_you_mean
from headcount.evaluation import Metric
from headcount.fields import APART, AtLeast0, FilePath, FolderOrURI, Pairs, shown
from headcount.files import read_toml
from headcount.mechanisms import Chain, PostTabular, PreTabular, ReusedRun
from headcount.population import Population, Source
from headcount.registry import ATTACKS, MECHANISMS, METRICS, POPULATIONS, Registry
from headcount.release.layout import FileFormat, FileLayout, ForeignFiles, MarginNames
from headcount.schema.roles import ANYBODY, NO_ROLES, Attacker, Roles
from headcount.storage import storage_at
from headcount.typed import from_table, given, located, shaping, to_table

Publishable = Literal["microdata", "mdf", "measurements"]


@dataclass(frozen=True, kw_only=True)
class OutputSettings:
    """Where a run goes, and in which files.

    where
        out           the run directory: new, or the same run to resume
        engine        "local", this machine, or "spark": where it runs; the release is the same
        workspace     where TopDown keeps its files until the release is whole: another folder than
                      ``internal/levels`` of the run
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
        lowest        the lowest level that is protected and published; "" for all that are read
        seed          makes the run repeatable, and therefore not private
        ledger        where the spend is recorded
        dataset       the dataset's name in that ledger
        new_content   the owner's word that new content belongs under that name
        publish       what is published besides the counts
        reuse         a run of the same steps, whose changed people are taken for more tables
        noise         "forbidden" refuses every method in which chance decides anything
    """

    lowest: str = ""
    seed: AtLeast0 | None = None
    ledger: FilePath | None = None
    dataset: str = ""
    new_content: Annotated[bool, APART] = False
    publish: tuple[Publishable, ...] = ()
    reuse: ReusedRun | None = None
    noise: Annotated[Literal["allowed", "forbidden"], APART] = "allowed"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.ledger is None) != (not self.dataset):
            raise ConfigError(
                "run",
                found="a ledger without a dataset" if self.ledger else "a dataset without a ledger",
                expected="ledger and dataset together: which ledger, and which name in it",
            )


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
class PublicFacts:
    """``[public]``: what everybody may know of the people.

    How far off counts will be is tried on people who are made up of it. What is not public may not
    be named here: the numbers that follow from it are printed and published.

    where
        sizes    a table of places: columns of the lowest level's name and ``n``, its people
        table    the whole by all attributes: a column for each attribute, and ``n``
        before   an older census in place of both: a file that is read like the population's, or a
                 TOML file with a table ``[population]``
    """

    sizes: FilePath | None = None
    table: FilePath | None = None
    before: FilePath | None = None

    def __post_init__(self) -> None:
        if self.before is not None and (self.sizes or self.table):
            raise ConfigError(
                "public", found="before beside sizes or table", expected="one or the other"
            )


NO_FACTS = PublicFacts()


@dataclass(frozen=True, kw_only=True)
class ComparisonConfig:
    """What ``headcount compare`` reads of a config: a population, and how it might be protected.

    where
        population   where the people come from
        mechanism    the steps of a run, if the config has any: their unit of privacy is that of
                     the comparison, and they are compared too
        case         further ways to protect
        run          the run of the config, if it has one: names the ledger
        roles, attacker   as in a run
    """

    population: Source
    mechanism: tuple[PreTabular | PostTabular, ...] = ()
    case: tuple[ConfigCase, ...] = ()
    run: RunSettings | None = None
    roles: Roles = NO_ROLES
    attacker: Attacker = ANYBODY


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
        roles        which attribute is age, sex, race, origin or household, for attacks
        attacker     what somebody may know of people, and would like to learn
        public       what everybody may know of them: by this it is said how far off counts will be
    """

    population: Source
    mechanism: tuple[PreTabular | PostTabular, ...]
    run: RunSettings
    metric: tuple[Metric, ...] = ()
    attack: tuple[Attack, ...] = ()
    release: ForeignFiles = field(default_factory=ForeignFiles)
    case: tuple[ConfigCase, ...] = ()
    choice: ConfigChoice | None = None
    roles: Roles = NO_ROLES
    attacker: Attacker = ANYBODY
    public: PublicFacts = NO_FACTS

    @property
    def plugins(self) -> tuple[str, ...]:
        """The parts that are not ours and made the release, with their distributions."""
        found = [POPULATIONS.outside(self.population), *map(MECHANISMS.outside, self.mechanism)]
        return tuple(one for one in found if one)

    def __post_init__(self) -> None:
        chain = Chain.of(self.mechanism)
        chain.publications(self.run.publish)
        if self.run.reuse is not None and not chain.steps:
            raise ConfigError(
                "run",
                place="run.reuse",
                found=f"it with {chain.name!r}, which changes no records",
                expected="the steps of the run that is reused (swapping, sampling), then the last",
            )
        if self.run.noise == "forbidden" and (why := chain.left_to_chance):
            raise ConfigError(
                "run",
                place="run.noise",
                found=f"'forbidden', and {why}",
                expected="methods that leave nothing to chance, such as coarsening, suppression or "
                'rounding with how = "nearest"',
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


C = TypeVar("C", Config, ComparisonConfig)

LISTS = {"mechanism": MECHANISMS, "metric": METRICS, "attack": ATTACKS}
"""Tables that may stand several times, and where their names are found."""


def is_estimate(path: Path) -> bool:
    """Whether a config is one of ``headcount estimate``: it has measurements and no population."""
    data = read_toml(path, expected="a TOML config")
    return "measurements" in data and "population" not in data


def load_config(path: Path, *, only_if: str = "") -> Config:
    """Read a TOML config; any fault is a ConfigError with file, key, found and expected.

    With ``only_if`` it is refused unless that is the SHA-256 of the file.
    """
    tables = read_toml(path, expected="a TOML config", only_if=only_if)
    return _from_folder(read_config(tables, source=str(path)), path)


def load_comparison(path: Path) -> ComparisonConfig:
    """What ``headcount compare`` needs of a config: mechanism and run may be left out."""
    data, source = read_toml(path, expected="a TOML config"), str(path)
    _refuse_unknown(data, source)
    run = data.get("run")
    _choice(data, source)  # a note: checked, and of no effect
    made = ComparisonConfig(
        population=_population(data, source),
        mechanism=_parts("mechanism", data.get("mechanism", []), source=source),
        case=_cases(data.get("case", []), source=source),
        run=None if run is None else from_table(RunSettings, run, source=source, place="run"),
        **_meaning(data, source),
    )
    steps = [*made.mechanism, *(step for one in made.case for step in one.mechanism)]
    return _from_folder(_agreed(made, steps), path)


def _from_folder(config: C, path: Path) -> C:
    """The same with its files found; absolute, so that a kept copy works from any folder."""
    folder = path.absolute().parent
    found = {one.name: located(getattr(config, one.name), folder) for one in fields(config)}
    return replace(config, **found)


def load_population(path: Path) -> Source:
    """The population that a file names; it may be a config, of which nothing else is read."""
    data, source = read_toml(path, expected="a TOML file with a table [population]"), str(path)
    return located(_population(data, source), path.absolute().parent)


def load_people(path: Path) -> Population:
    """The people of a whole config, with what their attributes mean."""
    config = load_config(path)
    people = config.population.read().down_to(config.run.lowest)
    return people.meaning(config.roles, config.attacker, source=str(path))


def load_meaning(path: Path) -> tuple[Roles, Attacker]:
    """What the attributes of a population mean, as the config beside it says."""
    data, source = read_toml(path, expected="a TOML file with a table [population]"), str(path)
    said = _meaning(data, source)
    return said["roles"], said["attacker"]


def _meaning(data: Mapping[str, Any], source: str) -> dict[str, Any]:
    return {
        key: from_table(cls, data.get(key, {}), source=source, place=key)
        for key, cls in (("roles", Roles), ("attacker", Attacker))
    }


def load_foreign(path: Path) -> ForeignFiles:
    """How somebody else's files are to be read: the table [release] of a file, if it has one."""
    data, source = read_toml(path, expected="a TOML file with a table [population]"), str(path)
    return from_table(ForeignFiles, data.get("release", {}), source=source, place="release")


def load_measures(path: Path) -> tuple[Metric | Attack, ...]:
    """The metrics and attacks that a file asks for, with their settings."""
    data, source = read_toml(path, expected="a TOML file with a table [population]"), str(path)
    found = (_parts(key, data.get(key, []), source=source) for key in ("metric", "attack"))
    return tuple(one for parts in found for one in parts)


def read_config(data: Any, *, source: str) -> Config:
    """A config from the tables of a file; paths as they stand there."""
    if not isinstance(data, Mapping):
        raise ConfigError(source, found=shown(data), expected="a table")
    _refuse_unknown(data, source)
    population = _population(data, source)
    if _given(data, "mechanism", source) == []:
        raise ConfigError(source, place="mechanism", found="none", expected="one or more")
    parts = {key: _parts(key, data.get(key, []), source=source) for key in LISTS}
    run = from_table(RunSettings, _given(data, "run", source), source=source, place="run")
    cases = _cases(data.get("case", []), source=source)
    foreign = from_table(ForeignFiles, data.get("release", {}), source=source, place="release")
    choice, meaning = _choice(data, source), _meaning(data, source)
    try:
        made = Config(
            population=population,
            run=run,
            release=foreign,
            case=cases,
            choice=choice,
            roles=meaning["roles"],
            attacker=meaning["attacker"],
            public=from_table(PublicFacts, data.get("public", {}), source=source, place="public"),
            **parts,
        )
    except ConfigError as error:
        of_steps = "mechanism: " if error.source == "mechanism" and error.place else ""
        place = f"{of_steps}{error.place or error.source}"
        raise ConfigError(source, place=place, found=error.found, expected=error.expected) from None
    return _agreed(made, made.mechanism)


def _refuse_unknown(data: Mapping[str, Any], source: str) -> None:
    known = [one.name for one in fields(Config)]
    for key in data:
        if key not in known:
            raise ConfigError(
                source, place=key, found="an unknown key", expected=did_you_mean(key, known)
            )


def _population(data: Mapping[str, Any], source: str) -> Source:
    table = _given(data, "population", source)
    found: Source = _part(POPULATIONS, table, source=source, place="population")
    return found


def _given(data: Mapping[str, Any], key: str, source: str) -> Any:
    if key not in data:
        raise ConfigError(source, place=key, found="nothing", expected="a value for this key")
    return data[key]


def _parts(key: str, tables: Any, *, source: str, within: str = "") -> tuple[Any, ...]:
    """The parts of one kind: a table, or a list of them, in the file or ``within`` a table."""
    registry, place = LISTS[key], f"{within}{key}"
    if not isinstance(tables, list):
        return (_part(registry, tables, source=source, place=place),)
    return tuple(
        _part(
            registry, table, source=source, place=f"{place} {number}" if len(tables) > 1 else place
        )
        for number, table in enumerate(tables, start=1)
    )


def _cases(tables: Any, *, source: str) -> tuple[ConfigCase, ...]:
    """Named ways to protect, each with one mechanism or several steps."""
    if not isinstance(tables, list):
        raise ConfigError(source, place="case", found=shown(tables), expected="[[case]] tables")
    made: dict[str, ConfigCase] = {}
    for number, table in enumerate(tables, start=1):
        place = f"case {number}"
        if not isinstance(table, Mapping):
            raise ConfigError(source, place=place, found=shown(table), expected="a table")
        for key in table:
            if key not in (known := [one.name for one in fields(ConfigCase)]):
                raise ConfigError(
                    source,
                    place=f"{place}.{key}",
                    found="an unknown key",
                    expected=did_you_mean(key, known),
                )
        name, steps = table.get("name"), table.get("mechanism", [])
        if not isinstance(name, str) or not name.strip() or name in made:
            found = f"{name!r} twice" if name in made else shown(name)
            expected = "a name of its own, in quotes"
            raise ConfigError(source, place=f"{place}.name", found=found, expected=expected)
        if steps == []:
            raise ConfigError(
                source, place=f"{place}.mechanism", found="none", expected="one or more"
            )
        parts = _parts("mechanism", steps, source=source, within=f"{place}.")
        made[name] = ConfigCase(name=name, mechanism=parts)
    return tuple(made.values())


def _choice(data: Mapping[str, Any], source: str) -> ConfigChoice | None:
    if "choice" not in data:
        return None
    return from_table(ConfigChoice, data["choice"], source=source, place="choice")


def _part(registry: Registry, table: Any, *, source: str, place: str) -> Any:
    """An object of the class that a table names."""
    if not isinstance(table, Mapping):
        raise ConfigError(source, place=place, found=shown(table), expected="a table")
    tag = registry.tag
    cls = registry.get(table.get(tag), source=source, place=f"{place}.{tag}")
    return from_table(cls, table, source=source, place=place, tag=tag)


def _agreed(config: C, steps: Iterable[PreTabular | PostTabular]) -> C:
    """A flag that a mechanism asks of the population holds for both, whichever table has it."""
    own = {one.name for one in fields(config.population)}  # type: ignore[arg-type]
    shared = {key: True for key in own if any(getattr(one, key, None) is True for one in steps)}
    if not shared:
        return config
    return replace(config, population=replace(config.population, **shared))  # type: ignore[type-var]


def config_digest(config: Config, *, secret: bool = True) -> bytes:
    """Digest of everything in a config that shapes the release, and of nothing else.

    What the files of the population hold, the schema's included, is in the digest of the data.
    A receipt has the digest without what may be computed from the data (``secret=False``): a
    reader could try guesses on it.
    """
    population = config.population
    shape = {
        "population": {"kind": population.kind, **shaping(population, secret=secret)},
        "mechanism": _named(config.mechanism, secret=secret),
        "run": shaping(config.run, secret=secret),
    }
    return sha256(json.dumps(shape, sort_keys=True).encode()).digest()


def comparison_digest(config: ComparisonConfig) -> bytes:
    """Digest of all that a comparison depends on besides the data: for the curator alone."""
    shape = {
        "population": {"kind": config.population.kind, **shaping(config.population)},
        "mechanism": _named(config.mechanism),
        "case": [[one.name, _named(one.mechanism)] for one in config.case],
    }
    return sha256(json.dumps(shape, sort_keys=True).encode()).digest()


def _named(parts: Iterable[PreTabular | PostTabular], *, secret: bool = True) -> list[Any]:
    return [{"name": one.name, **shaping(one, secret=secret)} for one in parts]


def config_to_json(config: Config) -> str:
    """The config as text that ``read_config`` understands."""
    tables: dict[str, Any] = {
        "population": {"kind": config.population.kind, **to_table(config.population)},
        "run": to_table(config.run),
        **{
            key: one
            for key in ("roles", "attacker", "public")
            if (one := given(getattr(config, key)))
        },
    }
    for key in LISTS:
        tables[key] = [{"name": one.name, **to_table(one)} for one in getattr(config, key)]
    return json.dumps(tables, indent=2, ensure_ascii=False) + "\n"
