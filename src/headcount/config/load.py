"""Reading a config file: typed, exact, and checked before any data is read."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from headcount.config.models import (
    UNIONS,
    AttributeModel,
    Config,
    GeographyModel,
    NoisyModel,
    QuartersModel,
    RunModel,
)
from headcount.config.swapping import PseudoModel, RiskModel, SizeNoiseModel
from headcount.config.topdown import (
    BoundsModel,
    InvariantModel,
    QueryModel,
    RecodeModel,
    TopDownModel,
)
from headcount.config.values import Wrong
from headcount.errors import ConfigError
from headcount.numbers import shown
from headcount.schema import shipped
from headcount.schema.attribute import one_of
from headcount.toml_files import read_toml

_PLAIN = {
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dict_type": "a table",
    "tuple_type": "a list",
    "string_type": "text in quotes",
    "path_type": "a path in quotes",
    "bool_type": "true or false",
    "int_type": "a whole number",
}
"""What a reader of TOML calls the kinds that pydantic asks for."""


def load_config(path: Path) -> Config:
    """Read a TOML config; any fault is a ConfigError with file, key, found and expected."""
    data = read_toml(path, expected="a TOML config")
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        raise located(str(path), error.errors()[0]) from None
    # Absolute, so that the copy kept with the run works from any folder.
    return _relative_to(config, path.absolute().parent)


def located(source: str, fault: ErrorDetails) -> ConfigError:
    """The first fault as an error that names the key as it stands in the file."""
    place, value, kind = _place(fault["loc"]), fault["input"], fault["type"]
    found = shown(value)
    expected = fault["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if isinstance(value, dict):
        found = f"keys {sorted(value)}"
    if isinstance(wrong := fault.get("ctx", {}).get("error"), Wrong):
        found, expected = wrong.found, wrong.expected
        place = ": ".join(part for part in (place, wrong.place) if part)
    elif kind == "missing":
        found, expected = "nothing", "a value for this key"
    elif kind == "extra_forbidden":
        found, expected = "an unknown key", one_of(_known_keys(fault["loc"]), most=20)
    elif kind in _PLAIN:
        expected = _PLAIN[kind]
    elif kind in ("union_tag_not_found", "union_tag_invalid"):
        union, tag = UNIONS[place], str(fault["ctx"]["discriminator"]).strip("'")
        if not isinstance(value, dict):
            return ConfigError(source, place=place, found=found, expected="a table")
        place = f"{place}.{tag}"
        found = shown(value[tag]) if tag in value else "nothing"
        expected = one_of(union)
    return ConfigError(source, place=place, found=found, expected=expected)


def _place(where: tuple[int | str, ...]) -> str:
    """A location in the typed config as a place in the file: entries of a list count from 1."""
    # A union puts the chosen kind into the location, second; a reader's file has no such key.
    parts = where[:1] + where[2:] if where and where[0] in UNIONS else where
    text = ""
    for part in parts:
        if isinstance(part, str) and part.startswith("dict[str,function-"):
            continue  # the kind of a table or word, such as levels: no key either
        text += f" {part + 1}" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _known_keys(where: tuple[int | str, ...]) -> list[str]:
    """The keys of the table that an unknown key stands in."""
    tables: dict[str, type[BaseModel]] = {
        **UNIONS["population"],
        **UNIONS["mechanism"],
        "run": RunModel,
        "geography": GeographyModel,
        "attribute": AttributeModel,
        "dwelling_attribute": AttributeModel,
        "quarters": QuartersModel,
        "queries": QueryModel,
        "recodes": RecodeModel,
        "invariant": InvariantModel,
        "bounds": BoundsModel,
        "risk": RiskModel,
        "size_noise": SizeNoiseModel,
        "pseudo": PseudoModel,
    }
    around = [part for part in where[:-1] if isinstance(part, str)]
    # The nearest table that has fixed keys: queries are named by the user.
    model = next((tables[name] for name in reversed(around) if name in tables), Config)
    return [field.alias or name for name, field in model.model_fields.items()]


def _relative_to(config: Config, folder: Path) -> Config:
    """Paths in a config are relative to the config's own folder."""
    population: Any = config.population
    for key in ("file", "units", "persons", "dwellings"):
        if (value := getattr(population, key, None)) is not None:
            population = population.model_copy(update={key: folder / value})
    if (quarters := getattr(population, "quarters", None)) is not None:
        quarters = quarters.model_copy(update={"file": folder / quarters.file})
        population = population.model_copy(update={"quarters": quarters})
    schema = getattr(population, "schema_", None)
    if schema is not None and schema not in shipped():
        population = population.model_copy(update={"schema_": str(folder / schema)})
    places = {"out": folder / config.run.out}
    if config.run.ledger is not None:
        places["ledger"] = folder / config.run.ledger
    run = config.run.model_copy(update=places)
    mechanism = config.mechanism
    if isinstance(mechanism, TopDownModel):
        mechanism = mechanism.located(folder)
    changed = {"population": population, "mechanism": mechanism, "run": run}
    return config.model_copy(update=changed)


def config_digest(config: Config) -> bytes:
    """Digest of everything in a config that shapes the release: not where files lie."""
    # What the files hold, the schema's included, is in the digest of the data.
    names = ("file", "units", "schema_", "persons", "dwellings")
    files: dict[str, Any] = dict.fromkeys(names, True)
    files["quarters"] = {"file": True}
    places: dict[str, Any] = {
        "population": files,
        "mechanism": {"bounds": {"__all__": {"file": True}}},  # their sha256 stays
        "run": {"out": True, "ledger": True, "new_content": True},
    }
    # Without defaults: a key that a later version adds leaves the digest of old configs alone.
    text = config.model_dump_json(exclude=places, exclude_defaults=True, by_alias=True)
    if isinstance(config.mechanism, NoisyModel):
        # Said even where it is the default: before there was a choice, the unit was add-remove.
        text += f"\nunit: {config.mechanism.unit}"
    return sha256(text.encode()).digest()
