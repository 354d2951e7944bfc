"""Every file that a config names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

from headcount.fields import Pairs


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
