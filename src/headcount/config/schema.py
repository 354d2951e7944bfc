"""The JSON schema of a config, for editors: made from the classes that do the work."""

from __future__ import annotations

import re
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from headcount.config.estimate import EstimateConfig, MeasurementsTable
from headcount.config.load import LISTS, Config, ConfigCase, ConfigChoice, PublicFacts, RunSettings
from headcount.registry import POPULATIONS, Registry
from headcount.release.layout import ForeignFiles
from headcount.schema.roles import Attacker, Roles
from headcount.typed import PRESET, hidden_keys, presets, to_table

DRAFT = "https://json-schema.org/draft/2020-12/schema"

_REF = re.compile(r"#/\$defs/(\w+)")
_WHERE = re.compile(r"^    where\n((?:        .*\n|\n)+)", re.M)
_ENTRY = re.compile(r"^ {8}(\S.*?) {2,}(\S.*(?:\n {9,}\S.*)*)", re.M)


def config_schema() -> dict[str, Any]:
    """The schema of a config file with every part of ours.

    Parts of other distributions are known by name only: they are loaded when a config names them.
    """
    registries = {"population": POPULATIONS, **LISTS}
    classes = {
        (key, name): registry.get(name)
        for key, registry in registries.items()
        for name in registry.ours
    }
    inputs: list[Any] = [(at, "validation", TypeAdapter(cls)) for at, cls in classes.items()]
    others = {
        "run": RunSettings,
        "release": ForeignFiles,
        "choice": ConfigChoice,
        "roles": Roles,
        "attacker": Attacker,
        "public": PublicFacts,
        "measurements": MeasurementsTable,
    }
    inputs += [((key, ""), "validation", TypeAdapter(cls)) for key, cls in others.items()]
    made, shared = TypeAdapter.json_schemas(inputs, schema_generator=_Schemas)
    defs = shared.get("$defs", {})
    tables = {at: _opened(schema, defs) for (at, _), schema in made.items()}
    said = _where(Config) | {"measurements": _where(EstimateConfig)["measurements"]}
    properties = {}
    for key, registry in registries.items():
        kinds = [_tagged(tables[key, name], registry.tag, name) for name in registry.ours]
        kinds += [
            _unknown(registry, name) for name in registry.names() if name not in registry.ours
        ]
        one = {"oneOf": kinds}
        several = {"type": "array", "items": one, "minItems": 1}
        properties[key] = {
            "description": said[key],
            **(one if key == "population" else {"anyOf": [one, several]}),
        }
    chain = {**properties["mechanism"], "description": _where(ConfigCase)["mechanism"]}
    about = {"type": "string", "description": _where(ConfigCase)["name"]}
    case: dict[str, Any] = {
        "type": "object",
        "properties": {"name": about, "mechanism": chain},
        "required": ["name", "mechanism"],
        "additionalProperties": False,
    }
    cases: dict[str, Any] = {"type": "array", "items": case}
    properties["case"] = {"description": said["case"], **cases}
    for key in others:
        properties[key] = {**tables[key, ""], "description": said[key]}
    return {
        "$schema": DRAFT,
        "title": "headcount: the config of a run",
        "type": "object",
        "properties": properties,
        "anyOf": [
            {"required": ["population", "mechanism", "run"], "not": {"required": ["measurements"]}},
            {"required": ["measurements", "run"], "not": {"required": ["population"]}},
        ],
        "additionalProperties": False,
        "$defs": {name: one for name, one in defs.items() if name in _asked(properties, defs)},
    }


def _asked(schema: Any, defs: dict[str, Any]) -> set[str]:
    """Names of the definitions that a schema refers to, directly or not."""
    found: set[str] = set()
    new = set(_REF.findall(str(schema)))
    while new:
        found |= new
        new = {name for one in new for name in _REF.findall(str(defs[one]))} - found
    return found


def _where(cls: type) -> dict[str, str]:
    """What the docstrings of a class and its bases say of each field, in their "where" lists."""
    said: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        listed = _WHERE.search((base.__dict__.get("__doc__") or "") + "\n")
        for names, text in _ENTRY.findall(listed[1] if listed else ""):
            plain = re.sub(r"\s+", " ", text)
            said |= {name.strip(): plain for name in names.split(",")}
    return said


class _Schemas(GenerateJsonSchema):
    """pydantic's schemas, closed to unknown keys and described by our docstrings."""

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        """A table with the fields of a dataclass."""
        cls = schema["cls"]
        made = super().dataclass_schema(schema)
        made["additionalProperties"] = False
        made["description"] = (cls.__doc__ or "").partition("\n")[0]
        said = _where(cls)
        for name, one in made.get("properties", {}).items():
            one.pop("title", None)
            if name in said:
                one["description"] = said[name]
        if hidden := hidden_keys(cls):  # allowed by their names, which no editor then offers
            properties = made["properties"]
            made["patternProperties"] = {f"^{name}$": properties.pop(name) for name in hidden}
        if presets(cls):
            about = "settings that others have used; keys beside it replace its own"
            made["properties"][PRESET] = {"enum": list(presets(cls)), "description": about}
            if needed := made.pop("required", []):
                made["anyOf"] = [{"required": needed}, {"required": [PRESET]}]
        return made

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        """TOML has no null: a key that may be left out."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> dict[str, Any]:
        """No default where nothing is meant."""
        made = super().default_schema(schema)
        return {key: value for key, value in made.items() if (key, value) != ("default", None)}

    def encode_default(self, dft: Any) -> Any:
        """A default as it would stand in a file."""
        return to_table(dft)


def _opened(schema: Any, defs: dict[str, Any]) -> dict[str, Any]:
    """A schema itself where it is only a reference."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    return dict(defs[name]) if name in defs else dict(schema)


def _tagged(table: dict[str, Any], tag: str, name: str) -> dict[str, Any]:
    """A table with the key that says which it is."""
    return {
        **table,
        "title": name,
        "properties": {tag: {"const": name}, **table.get("properties", {})},
        "required": [tag, *table.get("required", [])],
    }


def _unknown(registry: Registry, name: str) -> dict[str, Any]:
    """A part of another distribution, of which the name is known."""
    about = f"from {registry.origin(name)}"
    properties = {registry.tag: {"const": name}}
    return {"type": "object", "title": name, "description": about, "properties": properties}
