"""The words that key noise never change: one that did would move every seeded release."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import pytest

from headcount.addresses import ALONE, METHODS, Word, _Phrase, method_words, step_words
from headcount.config.load import RunSettings
from headcount.fields import Marker
from headcount.mechanisms import PreTabular
from headcount.mechanisms.coarsening.settings import Show
from headcount.mechanisms.suppression._pattern import CostFile
from headcount.registry import MECHANISMS, POPULATIONS
from headcount.typed import _marks, shaping
from tests.golden.__main__ import golden
from tests.golden.scenes import CASES, addresses, in_memory
from tests.golden.spelled import all_words, config_named

GOLDEN = golden("words")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("words")


def changed(folder: Path, *, only: str = "") -> set[str]:
    """Which parts are not as they were written down, or are not there at all."""
    found = {(kind, name): said for kind, name, said in all_words(folder, only=only)}
    known = {(kind, name): said for kind, parts in GOLDEN.items() for name, said in parts.items()}
    every = found.keys() | (set() if only else known.keys())
    return {name for kind, name in every if found.get((kind, name)) != known.get((kind, name))}


def test_words_are_as_they_were_written_down(folder: Path):
    assert changed(folder) == set()


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
    missing = sorted(f"{cls.__name__}.{key}" for cls, key in keys - said)
    assert not missing, "set them in a config of tests/golden/cases.toml"


# --- what would move every seeded release is seen, and what does not matter is not


def other(phrase: _Phrase, **more: Any) -> _Phrase:
    given = {"name": phrase.name, "words": phrase.words} | more
    return _Phrase(given["name"], *given["words"])


SAMPLING = METHODS["sampling"]
FAULTS = {
    "another word": other(SAMPLING, words=(Word("share", of="fraction"), *SAMPLING.words[1:])),
    "another order": other(SAMPLING, words=SAMPLING.words[::-1]),
    "another name": other(SAMPLING, name="Sample"),
    "another default": other(SAMPLING, words=(SAMPLING.words[0], Word("exact", unless=True))),
    "a word less": other(SAMPLING, words=SAMPLING.words[:1]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_other_words_are_seen(fault: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(METHODS, "sampling", FAULTS[fault])
    monkeypatch.setitem(ALONE, "sampling", FAULTS[fault])
    assert changed(folder, only="sampl")
    assert changed(folder, only="raked") == set()


def test_another_key_of_a_config_is_seen(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headcount.typed._first_name", lambda _, field: field.removesuffix("n"))
    assert {"sampling", "sampling, exact"} <= changed(folder, only="sampling")


@dataclass(frozen=True, kw_only=True)
class Drawn(PreTabular):
    """A sample under another name, with its first setting under another name, and one more."""

    later: bool = False
    part: Annotated[Fraction, Marker(was="fraction")]
    exact: bool = False
    name = "sampling"

    def on(self, domain: Any) -> Any:
        raise NotImplementedError

    def apply(self, population: Any, noise: Any, *, run: int, context: Any) -> Any:
        raise NotImplementedError


def test_a_class_a_field_and_a_default_may_change(monkeypatch: pytest.MonkeyPatch):
    """With ``of`` and ``was`` in place all bytes stay, and without them none do."""
    words, made = GOLDEN["words"]["sampling, as usual"], Drawn(part=Fraction(1, 100))
    shape = {"name": made.name, **shaping(made)}
    assert f'"mechanism": [{json.dumps(shape, sort_keys=True)}]' in words["config"]
    monkeypatch.setattr(Drawn, "__module__", "headcount.methods.drawing")
    with pytest.raises(AttributeError, match="fraction"):
        method_words(made)
    moved = other(SAMPLING, words=(Word("fraction", of="part"), *SAMPLING.words[1:]))
    for table in (METHODS, ALONE):
        monkeypatch.setitem(table, "sampling", moved)
    assert method_words(made) == step_words(made) == words["noise"]


def test_a_method_of_somebody_else_is_keyed_by_its_repr():
    made = Drawn(part=Fraction(1, 100), later=True)
    assert method_words(made) == step_words(made) == repr(made)


def test_every_setting_of_every_method_has_its_word(folder: Path):
    """Else two settings would share their noise."""
    without = set(MECHANISMS.ours) - set(METHODS)
    assert not without, "give them an entry in METHODS of headcount/addresses.py"
    for name in MECHANISMS.ours:
        said = {one.of or one.word for one in METHODS[name].words}
        assert {field.name for field in fields(MECHANISMS.get(name))} == said
    for name in (*CASES["cases"], *CASES["words"]):
        for step in config_named(name, folder).mechanism:
            for one in values(step):
                missing = [key for key in shaping(one) if f"{key}=" not in step_words(step)]
                if type(one) is Show and one.rule:  # its words are the steps that it stands for
                    assert f"steps=(Step(at={one.steps[0].at}, " in step_words(step)
                    missing.remove("rule")
                assert missing == (["sha256"] if type(one) is CostFile else []), name
