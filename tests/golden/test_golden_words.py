"""The words that key noise never change: one that did would move every seeded release."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from headcount.config.settings import RunSettings
from headcount.registry import MECHANISMS, POPULATIONS
from headcount.typed import _marks, shaping
from tests.golden.__main__ import golden
from tests.golden.scenes import CASES, addresses, in_memory
from tests.golden.words import all_words, config_named

GOLDEN = golden("words")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("words")


def test_words_are_as_they_were_written_down(folder: Path):
    found: dict[str, Any] = defaultdict(dict)
    for kind, name, said in all_words(folder):
        assert GOLDEN[kind][name] == said, name
        found[kind][name] = said
    assert found == GOLDEN


def test_they_key_the_noise(folder: Path):
    """Of one method the digest of its words; of a chain that, and in each of its streams too."""
    for name in ("geometric", "topdown, pooled", "swapping twice, then a sample"):
        with addresses() as found:
            in_memory(name, folder)
        key = sha256(GOLDEN["cases"][name]["noise"].encode()).hexdigest()
        (whole,) = (one for one in found if one.startswith("stream key"))
        assert whole.split(" | ")[3] == key
        streams = found - {whole}
        assert streams
        steps = len(CASES["cases"][name]["mechanism"].split("[[mechanism]]")[1:])
        marked = [one for one in streams if f" of {key[:16]}: " in one]
        assert len(marked) == (len(streams) if steps else 0)


def shapers(cls: type) -> list[str]:
    """The fields of a class that are part of a config's digest."""
    return [name for name, marks in _marks(cls).items() if all(one.shapes for one in marks)]


def values(value: Any) -> Iterator[Any]:
    """Settings, and all that are part of them."""
    if isinstance(value, tuple):
        for one in value:
            yield from values(one)
    elif is_dataclass(value):
        yield value
        for name in shapers(type(value)):
            yield from values(getattr(value, name))


def owned(cls: type, keys: Iterable[str]) -> set[tuple[type, str]]:
    """Keys, each with the class that first has it: others have it from there."""
    return {
        (
            next(
                one for one in reversed(cls.__mro__) if key in vars(one).get("__annotations__", ())
            ),
            key,
        )
        for key in keys
    }


def test_every_key_of_every_method_and_population_has_been_written_down(folder: Path):
    """Each has another value than its default in some config."""
    known = {
        RunSettings,
        *(kind.get(name) for kind in (MECHANISMS, POPULATIONS) for name in kind.ours),
    }
    said: set[tuple[type, str]] = set()
    for name in (*CASES["cases"], *CASES["words"]):
        config = config_named(name, folder)
        for one in values((config.population, config.mechanism, config.run)):
            known.add(type(one))
            said |= owned(type(one), shaping(one))
    keys = {key for cls in known for key in owned(cls, shapers(cls))}
    assert keys - said == set()
