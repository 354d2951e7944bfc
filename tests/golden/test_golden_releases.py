"""Seeded releases are the same to the bit, whichever way they are made, and so is what follows."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import headcount as hc
from tests.golden.__main__ import golden
from tests.golden.scenes import (
    CASES,
    KEPT,
    MEASURED,
    NAMES,
    content,
    draws,
    estimated,
    in_directory,
    in_memory,
    published,
    resumed,
    tables,
)

GOLDEN = golden("releases")
BROKEN_OFF = (
    *("geometric", "raked", "sampling, exact", "swapping, hi", "targeted-swapping", "cell-key"),
    *("rounding, random", "person-swapping, then rounding", "swapping twice, then a sample"),
    *(name for name in NAMES if "topdown" in name and "-pr" not in name),
)
"""Runs that are broken off: of each kind of method some, the long ones once."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where runs are made, each once for all tests."""
    return tmp_path_factory.mktemp("golden")


DRAWN: dict[str, int] = {}
"""How often noise was drawn in a run."""


def whole(name: str, folder: Path) -> Path:
    """The release of a run that nothing disturbs."""
    with draws(partial(DRAWN.__setitem__, name)):
        return in_directory(name, folder)


def written(name: str) -> dict[str, str]:
    """What was written down of the files of a case."""
    said = GOLDEN["cases"][name]
    return {key: said[key] for key in ("directory", "beside") if key in said}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in KEPT])
def test_in_memory(name: str, folder: Path):
    found = in_memory(name, folder)
    assert {key: GOLDEN["cases"][name][key] for key in found} == found


@pytest.mark.parametrize("name", NAMES)
def test_in_a_run_directory(name: str, folder: Path):
    assert published(whole(name, folder)) == written(name)


@pytest.mark.parametrize("name", BROKEN_OFF)
def test_resumed(name: str, folder: Path, tmp_path: Path):
    """Broken off in the middle of its draws: what was drawn and estimated is not done again."""
    whole(name, folder)
    assert published(resumed(name, tmp_path, after=DRAWN[name] // 2)) == written(name)


@pytest.mark.parametrize("name", MEASURED)
def test_estimated_from_measurements(name: str, folder: Path):
    release = hc.read_release(estimated(name, folder))
    assert content(release) == GOLDEN["cases"][name]["estimate"]
    if "again" not in CASES["cases"][name]:  # with the settings of the run, it is the run's
        assert GOLDEN["cases"][name]["estimate"] == GOLDEN["cases"][name]["directory"]


@pytest.mark.parametrize("name", CASES["tables"])
def test_what_is_made_of_releases(name: str, tmp_path: Path):
    assert tables(name, tmp_path) == GOLDEN["tables"][name]
