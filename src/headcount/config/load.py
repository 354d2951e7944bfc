"""Reading a config: typed, exact, and checked before any data is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from headcount.config.settings import Config, RunSettings
from headcount.errors import ConfigError, did_you_mean
from headcount.numbers import shown
from headcount.population.sources import Source
from headcount.registry import ATTACKS, MECHANISMS, METRICS, POPULATIONS, Registry
from headcount.toml_files import read_toml
from headcount.typed import from_table, located, shaping, to_table

LISTS = {"mechanism": MECHANISMS, "metric": METRICS, "attack": ATTACKS}
"""Tables that may stand several times, and where their names are found."""


def load_config(path: Path) -> Config:
    """Read a TOML config; any fault is a ConfigError with file, key, found and expected."""
    config = read_config(read_toml(path, expected="a TOML config"), source=str(path))
    # Absolute, so that the copy kept with the run works from any folder.
    folder = path.absolute().parent
    return replace(
        config,
        **{one.name: located(getattr(config, one.name), folder) for one in fields(Config)},
    )


def load_population(path: Path) -> Source:
    """The population that a file names; it may be a config, of which nothing else is read."""
    data, source = read_toml(path, expected="a TOML file with a table [population]"), str(path)
    found = _part(
        POPULATIONS, _given(data, "population", source), source=source, place="population"
    )
    made: Source = located(found, path.absolute().parent)
    return made


def read_config(data: Any, *, source: str) -> Config:
    """A config from the tables of a file; paths as they stand there."""
    if not isinstance(data, Mapping):
        raise ConfigError(source, found=shown(data), expected="a table")
    known = [one.name for one in fields(Config)]
    for key in data:
        if key not in known:
            raise ConfigError(
                source, place=key, found="an unknown key", expected=did_you_mean(key, known)
            )
    population = _part(
        POPULATIONS, _given(data, "population", source), source=source, place="population"
    )
    if _given(data, "mechanism", source) == []:
        raise ConfigError(source, place="mechanism", found="none", expected="one or more")
    parts = {key: _parts(key, data.get(key, []), source=source) for key in LISTS}
    run = from_table(RunSettings, _given(data, "run", source), source=source, place="run")
    try:
        made = Config(population=population, run=run, **parts)
    except ConfigError as error:
        of_steps = "mechanism: " if error.source == "mechanism" and error.place else ""
        place = f"{of_steps}{error.place or error.source}"
        raise ConfigError(source, place=place, found=error.found, expected=error.expected) from None
    return _agreed(made)


def _given(data: Mapping[str, Any], key: str, source: str) -> Any:
    if key not in data:
        raise ConfigError(source, place=key, found="nothing", expected="a value for this key")
    return data[key]


def _parts(key: str, tables: Any, *, source: str) -> tuple[Any, ...]:
    """The parts of one kind: a table, or a list of them."""
    registry = LISTS[key]
    if not isinstance(tables, list):
        return (_part(registry, tables, source=source, place=key),)
    return tuple(
        _part(registry, table, source=source, place=f"{key} {number}" if len(tables) > 1 else key)
        for number, table in enumerate(tables, start=1)
    )


def _part(registry: Registry, table: Any, *, source: str, place: str) -> Any:
    """An object of the class that a table names."""
    if not isinstance(table, Mapping):
        raise ConfigError(source, place=place, found=shown(table), expected="a table")
    tag = registry.tag
    cls = registry.get(table.get(tag), source=source, place=f"{place}.{tag}")
    return from_table(cls, table, source=source, place=place, tag=tag)


def _agreed(config: Config) -> Config:
    """A flag that a mechanism asks of the population holds for both, whichever table has it."""
    own = {one.name for one in fields(config.population)}  # type: ignore[arg-type]
    asked = {name for method in config.mechanism for name in method.asks_of_population}
    shared = dict.fromkeys(asked & own, True)
    if not shared:
        return config
    return replace(config, population=replace(config.population, **shared))  # type: ignore[type-var]


def config_digest(config: Config) -> bytes:
    """Digest of everything in a config that shapes the release, and of nothing else.

    What the files of the population hold, the schema's included, is in the digest of the data.
    """
    shape = {
        "population": {"kind": config.population.kind, **shaping(config.population)},
        "mechanism": [{"name": one.name, **shaping(one)} for one in config.mechanism],
        "run": shaping(config.run),
    }
    return sha256(json.dumps(shape, sort_keys=True).encode()).digest()


def config_to_json(config: Config) -> str:
    """The config as text that ``read_config`` understands."""
    tables: dict[str, Any] = {
        "population": {"kind": config.population.kind, **to_table(config.population)},
        "run": to_table(config.run),
    }
    for key in LISTS:
        tables[key] = [{"name": one.name, **to_table(one)} for one in getattr(config, key)]
    return json.dumps(tables, indent=2, ensure_ascii=False) + "\n"
