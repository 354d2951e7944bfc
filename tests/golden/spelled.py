"""The words that key noise: of methods, of configs and of schemas, as they are hashed."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from headcount.addresses import SCHEMA, VERSION, step_words
from headcount.config.load import Config, config_digest, load_config, read_config
from headcount.mechanisms import mechanism_digest
from headcount.tabulate import Tabulated
from tests.golden.scenes import CASES, KEPT, NAMES, config_of, config_text


def hashed(function: Callable[..., Any], *given: Any) -> str:
    """What a function makes a SHA-256 of."""
    seen: list[bytes] = []

    def noted(content: bytes) -> Any:
        seen.append(content)
        return sha256(content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(function.__globals__, "sha256", noted)
        function(*given)
    (content,) = seen
    return content.decode()


def config_named(name: str, folder: Path) -> Config:
    """The config of a case with its files found, or as it stands."""
    if name in NAMES and name not in KEPT:
        return load_config(config_of(name, folder))
    return read_config(tomllib.loads(config_text(name), parse_float=Decimal), source=name)


def words_of(config: Config, people: str) -> dict[str, Any]:
    """The words of a config: of its noise in memory, of each step, and in a run directory.

    Those of a population that has a name stand with that, and here is the name in their place.
    """
    noise, whole = hashed(mechanism_digest, config.mechanism), hashed(config_digest, config)
    steps = [step_words(one) for one in config.mechanism]
    found: dict[str, Any] = (
        {"noise": noise} if steps == [noise] else {"noise": noise, "steps": steps}
    )
    return found | {"config": whole.replace(_population(whole), f"<{people}>") if people else whole}


def _population(config: str) -> str:
    return json.dumps(json.loads(config)["population"], sort_keys=True)


def people_words(name: str, folder: Path) -> dict[str, Any]:
    """The words of a population in a config and in the digest of its data, and that digest."""
    case = next(one for one in NAMES if CASES["cases"][one]["population"] == name)
    config = load_config(config_of(case, folder))
    people = config.population.read()
    return {
        "config": _population(hashed(config_digest, config)),
        "schema": SCHEMA(people.schema),
        "read_off": list(people.domain.read_off),
        "digest": Tabulated.of(people).digest.hex(),
    }


def all_words(folder: Path, *, only: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every part of the file of words, or some by name: its kind, its name, and what it says."""
    yield "about", "words", {"version": str(VERSION)}
    for kind, cases in (("cases", CASES["cases"]), ("words", CASES["words"])):
        for name in (name for name in cases if only in name):
            people = "" if "own" in cases[name] else cases[name].get("population", "town")
            yield kind, name, words_of(config_named(name, folder), people)
    for name in (name for name in CASES["populations"] if not only):
        yield "people", name, people_words(name, folder)
