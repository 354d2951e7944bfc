"""Reading a config file: typed, exact, and checked before any data is read."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from headcount.config.models import Config
from headcount.errors import ConfigError
from headcount.schema import shipped


def load_config(path: Path) -> Config:
    """Read a TOML config; any fault is a ConfigError with file, key, found and expected."""
    source = str(path)
    if not path.is_file():
        raise ConfigError(source, found="no such file", expected="a TOML config")
    try:
        # Decimals keep the digits that were typed: 0.1 is 1/10, not the nearest binary float.
        data = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            source, found=f"text that is not TOML ({error})", expected="TOML"
        ) from None
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        raise _located(source, error.errors()[0]) from None
    return _relative_to(config, path.parent)


def _located(source: str, fault: ErrorDetails) -> ConfigError:
    """The first fault as an error that names the key as it stands in the file."""
    # Discriminated unions put the chosen kind into the location; a reader's file has no such key.
    kinds = {"microdata", "counts", "uniform", "identity", "geometric", "raked", "averaged"}
    place = ".".join(str(part) for part in fault["loc"] if part not in kinds)
    found, expected = repr(fault["input"]), fault["msg"]
    if isinstance(fault["input"], Decimal):
        found = str(fault["input"])
    match fault["type"]:
        case "missing":
            found, expected = "nothing", "a value for this key"
        case "extra_forbidden":
            found, expected = (
                "an unknown key",
                "only keys of this table (see headcount protect --help)",
            )
        case "union_tag_not_found":
            place = f"{place}.{_tag(fault)}"
            found, expected = "nothing", f"one of {_tags(place)}"
        case "union_tag_invalid":
            place = f"{place}.{_tag(fault)}"
            found, expected = repr(fault["ctx"]["tag"]), f"one of {fault['ctx']['expected_tags']}"
        case "value_error":
            expected = fault["msg"].removeprefix("Value error, ")
    if isinstance(fault["input"], dict) and fault["type"] == "value_error":
        found = f"keys {sorted(fault['input'])}"
    return ConfigError(source, place=place, found=found, expected=expected)


def _tag(fault: ErrorDetails) -> str:
    return str(fault["ctx"]["discriminator"]).strip("'")


def _tags(place: str) -> str:
    if place.startswith("population"):
        return "'microdata', 'counts', 'uniform'"
    return "'identity', 'geometric', 'raked', 'averaged'"


def _relative_to(config: Config, folder: Path) -> Config:
    """Paths in a config are relative to the config's own folder."""
    population: Any = config.population
    for key in ("file", "units"):
        if (value := getattr(population, key, None)) is not None:
            population = population.model_copy(update={key: folder / value})
    schema = getattr(population, "schema_", None)
    if schema is not None and schema not in shipped():
        population = population.model_copy(update={"schema_": str(folder / schema)})
    places = {"out": folder / config.run.out}
    if config.run.ledger is not None:
        places["ledger"] = folder / config.run.ledger
    run = config.run.model_copy(update=places)
    return config.model_copy(update={"population": population, "run": run})


def config_digest(config: Config) -> bytes:
    """Digest of everything in a config that shapes the release: not where files lie."""
    places = {"population": {"file", "units"}, "run": {"out", "ledger", "new_content"}}
    return sha256(config.model_dump_json(exclude=places, by_alias=True).encode()).digest()
