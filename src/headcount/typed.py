"""Between tables of a file and the frozen dataclasses that do the work, by their types alone.

    from_table   a table as an object of a class: every key known, every value of its type
    to_table     an object as a table again
    located      the same object with its files found from a folder
    shaping      what of an object shapes a release

A class says nothing of files or of pydantic. What its ``__post_init__`` refuses is reported at the
key that it names; unknown keys are refused with the known ones.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache
from importlib import resources
from pathlib import Path, PurePath
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from headcount.errors import ConfigError, InputError, PrivacyError, did_you_mean
from headcount.fields import VARIANT, File, Marker, Pairs, shown

T = TypeVar("T")

LARGEST = 2**63 - 1

PRESET = "preset"
"""The key of a table whose class has presets: settings that others have used."""

_PLAIN = {
    "dataclass_type": "a table",
    "dict_type": "a table",
    "tuple_type": "a list",
    "string_type": "text in quotes",
    "path_type": "a path in quotes",
    "bool_type": "true or false",
    "int_type": "a whole number",
}
"""What a reader of TOML calls the kinds that pydantic asks for."""

_INSIDE = (
    *("schema", "items_schema", "keys_schema", "values_schema", "choices", "fields"),
    *("definitions", "steps", "lax_schema", "strict_schema", "python_schema"),
)
"""Keys of a pydantic schema that hold further schemas."""


def from_table(cls: type[T], table: Any, *, source: str, place: str = "", tag: str = "") -> T:
    """An object of ``cls`` with the keys of a table; the first fault is a ConfigError.

    where
        source, place   the file, and the table's place in it, for errors
        tag             a key that has been read already: which class this is
    """
    if not isinstance(table, Mapping):
        raise ConfigError(source, place=place, found=shown(table), expected="a table")
    keys = {key: value for key, value in table.items() if key != tag}
    if presets(cls):
        keys = _on_top_of_its_preset(cls, keys, source=source, place=place)
    from pydantic import ValidationError

    try:
        made: T = _validator(cls).validate_python(keys)  # type: ignore[arg-type]
    except ValidationError as error:
        raise _refusal(error.errors()[0], source=source, place=place) from None
    return made


def _known_keys(cls: type) -> tuple[str, ...]:
    """The keys of a class's table."""
    names = tuple(field.name for field in _settable(cls))
    return (*names, PRESET) if presets(cls) else names


def hidden_keys(cls: type) -> tuple[str, ...]:
    """The keys of a class's table that are for presets."""
    return tuple(name for name, marks in _marks(cls).items() if any(one.hidden for one in marks))


def presets(cls: type) -> tuple[str, ...]:
    """Names of the presets that a class brings, as TOML files in the package it names."""
    package = getattr(cls, "presets", "")
    if not package:
        return ()
    names = [file.name for file in resources.files(package).iterdir()]
    return tuple(sorted(n.removesuffix(".toml") for n in names if n.endswith(".toml")))


def _load_preset(cls: type, name: object, *, source: str, place: str = PRESET) -> dict[str, Any]:
    """The settings of a preset; decimals stay exact."""
    if name not in presets(cls):
        raise ConfigError(
            source, place=place, found=shown(name), expected=did_you_mean(name, presets(cls))
        )
    file = resources.files(getattr(cls, "presets")) / f"{name}.toml"  # noqa: B009
    return tomllib.loads(file.read_text(encoding="utf-8"), parse_float=Decimal)


def _on_top_of_its_preset(
    cls: type, keys: dict[str, Any], *, source: str, place: str
) -> dict[str, Any]:
    name = keys.pop(PRESET, "")
    if name == "":
        return keys
    where = f"{place}.{PRESET}".removeprefix(".")
    loaded = _load_preset(cls, name, source=source, place=where)
    # A preset may itself have a preset: Puerto Rico's has the settings of the United States.
    return {**_on_top_of_its_preset(cls, loaded, source=f"preset {name}", place=""), **keys}


def to_table(value: Any) -> Any:
    """An object as plain data that JSON can hold and ``from_table`` can read."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_table(getattr(value, field.name)) for field in _settable(value)}
    if isinstance(value, Pairs):
        return {name: to_table(one) for name, one in value}
    if isinstance(value, Mapping):
        return {name: to_table(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [to_table(one) for one in value]
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Fraction | PurePath) else value


def given(value: Any) -> dict[str, Any]:
    """The keys of an object that are not as by default, or are marked as stated, as plain data."""
    marks = _marks(value.__class__)
    return {
        field.name: to_table(found)
        for field in _settable(value)
        if (found := getattr(value, field.name)) != _default(field)
        or any(mark.stated for mark in marks[field.name])
    }


def shaping(value: Any, *, secret: bool = True) -> Any:
    """What of an object shapes a release: not where files lie, and not what is as by default.

    Without defaults, so that a key which a later version adds leaves old digests alone; a field
    marked as stated is there in any case. Fields marked as secret are left out of whatever is
    published, with ``secret=False``. Its keys are words that key noise: ``tests/golden`` holds
    them, and a field that is renamed is marked with what it was.
    """
    if is_dataclass(value) and not isinstance(value, type):
        marks = _marks(value.__class__)
        return {
            _first_name(value.__class__, field.name): shaping(found, secret=secret)
            for field in _settable(value)
            if all(mark.shapes and (secret or not mark.secret) for mark in marks[field.name])
            and (
                (found := getattr(value, field.name)) != _default(field)
                or any(mark.stated for mark in marks[field.name])
            )
        }
    if isinstance(value, Pairs):  # whose order may matter
        return [[name, shaping(one, secret=secret)] for name, one in value]
    if isinstance(value, Mapping):
        return {name: shaping(one, secret=secret) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [shaping(one, secret=secret) for one in value]
    return to_table(value)


def making(value: Any) -> dict[str, Any]:
    """What of a generated population's settings makes its people, whatever is chosen from them."""
    marks = _marks(value.__class__)
    return {
        _first_name(value.__class__, field.name): to_table(getattr(value, field.name))
        for field in _settable(value)
        if all(mark.makes for mark in marks[field.name])
    }


def located(value: T, folder: Path) -> T:
    """The same with its files found from ``folder``, and bound to their content where it asks.

    A class with a method ``bound_to_files`` returns itself bound to what its files hold.
    """
    if isinstance(value, Pairs):
        return type(value)((name, located(one, folder)) for name, one in value)
    if isinstance(value, tuple):
        return type(value)(located(one, folder) for one in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {}
    for field in _settable(value):
        found = getattr(value, field.name)
        files = [mark for mark in _marks(type(value))[field.name] if isinstance(mark, File)]
        new = located(found, folder)
        if files and found is not None:
            new = files[0].locate(found, folder)
        if new is not found and new != found:
            changed[field.name] = new
    there = replace(value, **changed) if changed else value
    bind = getattr(there, "bound_to_files", None)
    bound: T = there if bind is None else bind()
    return bound


def _settable(cls: Any) -> tuple[Field[Any], ...]:
    return tuple(field for field in fields(cls) if field.init)


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def _first_name(cls: type, field: str) -> str:
    """What digests call a field, whatever it is called now."""
    return next((mark.was for mark in _marks(cls)[field] if mark.was), field)


@cache
def _marks(cls: type) -> dict[str, tuple[Marker, ...]]:
    """The markers of every field."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: tuple(_markers(hints[field.name])) for field in _settable(cls)}


def _markers(hint: Any) -> Iterator[Marker]:
    """Those of a type, and those of the types that it may be."""
    if get_origin(hint) is Annotated:
        inside, *marks = get_args(hint)
        yield from (mark for mark in marks if isinstance(mark, Marker))
        yield from _markers(inside)
    elif type(None) in get_args(hint):
        for one in get_args(hint):
            yield from _markers(one)


@cache
def _validator(cls: type) -> Any:
    """The validator of a class: strict about kinds, and every dataclass in it refuses in its words.

    Made from pydantic's schema of the plain dataclass, so that nobody's class needs to say more.
    """
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator

    return SchemaValidator(_strict(TypeAdapter(cls).core_schema))


def _strict(schema: Any) -> Any:
    from pydantic_core import core_schema

    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if isinstance(schema, tuple):  # a choice with its label
        return tuple(_strict(one) for one in schema)
    if not isinstance(schema, dict):
        return schema
    new = dict(schema)
    for key in _INSIDE:
        if isinstance(inside := new.get(key), dict) and "type" not in inside:
            new[key] = {name: _strict(one) for name, one in inside.items()}
        elif key in new:
            new[key] = _strict(new[key])
    kind = new.get("type")
    if kind in ("bool", "int", "str"):
        new["strict"] = True
    if kind == "int":
        return core_schema.no_info_after_validator_function(_of_64_bits, new)
    if kind == "dataclass":
        ref = new.pop("ref", None)  # others mean the refusing one
        return core_schema.no_info_wrap_validator_function(_Refusing(new["cls"]), new, ref=ref)
    return new


def _of_64_bits(value: int) -> int:
    if not -LARGEST <= value <= LARGEST:
        raise ValueError(f"a whole number from {-LARGEST:,} to {LARGEST:,}")
    return value


class _Refusing:
    """A dataclass's own refusals, and unknown keys, as faults with a place."""

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def __call__(self, value: Any, handler: Any) -> Any:
        if isinstance(value, Mapping):
            known = [field.name for field in _settable(self.cls)]
            for key in value:
                if key not in known:
                    raise self._fault(
                        place=str(key),
                        found="an unknown key",
                        expected=did_you_mean(key, _known_keys(self.cls)),
                    )
        try:
            return handler(value)
        except (InputError, PrivacyError) as error:
            if not error.expected:
                raise
            raise self._fault(
                place=error.place, found=error.found, expected=error.expected
            ) from None

    def _fault(self, *, place: str, found: str, expected: str) -> Exception:
        from pydantic_core import PydanticCustomError

        # A key of the class, or one below it, is joined by a point; any other place by a colon.
        is_key = found == "an unknown key" or place.partition(".")[0] in _known_keys(self.cls)
        said = {"place": place, "joint": "." if is_key else ": ", "found": found}
        return PydanticCustomError("refused", "refused", {**said, "expected": expected})


def _refusal(fault: Any, *, source: str, place: str) -> ConfigError:
    """A fault as an error that names the key as it stands in the file."""
    where = place
    for part in fault["loc"]:
        if isinstance(part, int):
            where += f" {part + 1}"
        elif not part.startswith(VARIANT):
            where += f".{part}"
    where = where.removeprefix(".")
    value, kind, context = fault["input"], fault["type"], fault.get("ctx", {})
    found = f"keys {sorted(map(str, value))}" if isinstance(value, Mapping) else shown(value)
    expected = fault["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if kind == "refused":
        if context["place"]:
            where = f"{where}{context['joint']}{context['place']}".removeprefix(".")
            where = where.removeprefix(": ")
        found, expected = context["found"], context["expected"]
    elif kind == "missing":
        found, expected = "nothing", "a value for this key"
    elif kind == "tuple_type" and isinstance(value, Mapping):
        found, expected = "one table", f"a list: [[{where}]] for each"
    elif kind in _PLAIN:
        expected = _PLAIN[kind]
    elif kind == "greater_than_equal":
        expected = f"{context['ge']:,} or more"
    elif kind == "less_than_equal":
        expected = f"{context['le']:,} or less"
    return ConfigError(source, place=where, found=found, expected=expected)
