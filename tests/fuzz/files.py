"""Every file that a key of a config or an option can name, listed from the types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from typer import Typer

from headcount.cli.app import app
from headcount.config.attack_files import _TablesFile
from headcount.config.estimate import EstimateConfig
from headcount.config.load import LISTS, ComparisonConfig, Config
from headcount.fields import File
from headcount.registry import POPULATIONS

SCHEMA = ("schema",)
"""Keys that name a shipped schema or a file, by text."""


def named_files() -> set[str]:
    """``Class.field`` of every key, and ``command --option`` of every option, that is a path."""
    roots: list[Any] = [Config, ComparisonConfig, EstimateConfig, _TablesFile]
    for registry in (POPULATIONS, *LISTS.values()):
        roots += [registry.get(name) for name in registry.names()]
    seen: set[type] = set()
    return {name for root in roots for name in _keys(root, seen)} | set(_options(app, ()))


def _keys(cls: type, seen: set[type]) -> Iterator[str]:
    """Paths among the fields of a class, and of all classes that these are of."""
    if cls in seen:
        return
    seen.add(cls)
    hints = get_type_hints(cls, include_extras=True)
    for field in fields(cls):
        parts = list(_parts(hints[field.name]))
        if any(part is Path or isinstance(part, File) for part in parts) or field.name in SCHEMA:
            yield f"{cls.__name__}.{field.name}"
        for part in parts:
            if isinstance(part, type) and is_dataclass(part):
                yield from _keys(part, seen)


def _options(command: Typer, above: tuple[str, ...]) -> Iterator[str]:
    for one in command.registered_commands:
        assert one.callback is not None
        name = " ".join((*above, one.name or one.callback.__name__))
        for option, hint in get_type_hints(one.callback, include_extras=True).items():
            if any(part is Path for part in _parts(hint)):
                yield f"{name} --{option}"
    for group in command.registered_groups:
        assert group.typer_instance is not None
        yield from _options(group.typer_instance, (*above, str(group.name)))


def _parts(hint: Any) -> Iterator[Any]:
    """A type, and everything that it is made of."""
    yield hint
    for part in get_args(hint):
        yield from _parts(part)
    for part in getattr(hint, "__metadata__", ()):
        yield part
        if (kind := getattr(part, "value", None)) is not None:
            yield from _parts(kind)
