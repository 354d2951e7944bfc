"""Parts are found by name: ours by their module, others' by entry points, and no name twice."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headcount import registry
from headcount.errors import ConfigError
from headcount.registry import ATTACKS, MECHANISMS, METRICS, POPULATIONS, Registry, _Origin

PLUGIN = """
from dataclasses import dataclass
from headcount.attacks import Attack
from headcount.evaluation import Metric
from headcount.mechanisms import Geometric, PostTabular, PreTabular
from headcount.population import Generated

@dataclass(frozen=True, kw_only=True)
class Own(Geometric):
    name = "own"

class Alone:
    name = kind = "own"

class Unmade(PostTabular):
    name = "own"

class Unread(Generated):
    kind = "own"

class Unmeasured(Metric):
    name = "own"

class Unused(Attack):
    name = "own"

class Plain(PreTabular):
    name = "own"
    def apply(self, population, noise, *, run, context): ...
    def on(self, domain): ...
"""


def install(folder: Path, *, name: str, points: str, module: str = "own_part") -> None:
    """A distribution as an installer leaves it: a module, and what its metadata says."""
    (folder / f"{module}.py").write_text(PLUGIN)
    info = folder / f"{name}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(points)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_part", raising=False)
    return tmp_path


@pytest.mark.parametrize("registry", [MECHANISMS, POPULATIONS, METRICS, ATTACKS])
def test_every_part_of_ours_is_a_class_with_its_name(registry: Registry):
    assert registry.ours
    for name in registry.ours:
        assert getattr(registry.get(name), registry.tag) == name
        assert registry.origin(name) is None


def test_a_module_is_a_part_if_its_text_has_a_class_of_its_name(folder: Path):
    package = folder / "own_parts"
    (package / "in_a_folder").mkdir(parents=True)
    for name, text in {
        "__init__": "",
        "one_part": 'class One:\n    name = "one-part"\n',
        "in_a_folder/__init__": "",
        "in_a_folder/thing": 'class Two:\n    name = "in-a-folder"\n',
        "in_a_folder/helper": "",
        "helper": 'name = "helper"\nclass Other:\n    name = "other"\n    kind = "helper"\n',
        "_private": 'class Hidden:\n    name = "-private"\n',
        "unread": 'raise AssertionError("imported")\nclass Three:\n    name = "unread"\n',
    }.items():
        (package / f"{name}.py").write_text(text)
    things = Registry("thing", "own_parts", "own.things", base=("own_parts", "Thing"))
    assert things.ours == ("in-a-folder", "one-part", "unread")
    assert [things.get(name).__name__ for name in things.ours[:2]] == ["Two", "One"]
    with pytest.raises(ConfigError, match="thing: found 'helper', expected one of"):
        things.get("helper")


def test_a_part_that_is_installed_meanwhile_is_found(folder: Path):
    assert "own" not in MECHANISMS.names()
    install(folder, name="other", points="[headcount.mechanisms]\nown = own_part:Plain\n")
    os.utime(folder, ns=(1, 1))  # at another time than before, whatever the clock of the files
    assert "own" in MECHANISMS.names()


def test_the_names_are_known_without_importing_any_part():
    code = (
        "import sys; from headcount.registry import MECHANISMS as m; names = m.ours; "
        "print([n for n in sys.modules if n.startswith('headcount.mechanisms')], len(names) > 5)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "True"]


def test_an_unknown_name_lists_the_known_ones_and_guesses():
    with pytest.raises(ConfigError) as caught:
        MECHANISMS.get("geometrik", source="c.toml", place="mechanism.name")
    assert str(caught.value).startswith("c.toml: mechanism.name: found 'geometrik', expected one")
    assert str(caught.value).endswith("(did you mean 'geometric'?)")


def test_a_part_of_the_papers_says_how_it_is_had(monkeypatch: pytest.MonkeyPatch):
    text = (Path(__file__).parents[1] / "papers" / "pyproject.toml").read_text(encoding="utf-8")
    points = tomllib.loads(text)["project"]["entry-points"]
    parts = {name for group, own in points.items() if group != registry.STUDIES for name in own}
    assert set(registry.OF_PAPERS) == parts
    monkeypatch.setattr(registry, "entry_points", lambda group: ())
    with pytest.raises(ConfigError, match=r"person-swapping comes with headcount-papers: pip"):
        MECHANISMS.get("person-swapping")


@pytest.mark.parametrize(
    ("name", "ours"), [("laplace", "geometric"), ("CKM", "cell-key"), ("das", "topdown")]
)
def test_a_name_that_others_use_is_told_ours(name: str, ours: str):
    with pytest.raises(ConfigError, match=rf"\({name} is '{ours}' here\)"):
        MECHANISMS.get(name)
    with pytest.raises(ConfigError) as caught:
        METRICS.get(name)
    assert " here)" not in str(caught.value)


def test_a_part_of_another_distribution_is_loaded_when_it_is_named(folder: Path):
    install(folder, name="own-parts", points="[headcount.mechanisms]\nown = own_part:Own\n")
    assert "own" in MECHANISMS.names()
    assert "own" not in MECHANISMS.ours
    assert "own_part" not in sys.modules
    assert MECHANISMS.get("own").__name__ == "Own"
    assert MECHANISMS.origin("own") == _Origin("own-parts", "1.2")


def test_a_name_of_ours_cannot_be_taken(folder: Path):
    install(folder, name="taker", points="[headcount.mechanisms]\nidentity = own_part:Own\n")
    with pytest.raises(ConfigError, match=r"two of that name, from headcount and from taker 1\.2"):
        MECHANISMS.get("identity")


def test_two_distributions_with_one_name_are_both_told(folder: Path):
    points = "[headcount.mechanisms]\nown = own_part:Own\n"
    install(folder, name="first", points=points)
    install(folder, name="second", points=points)
    with pytest.raises(ConfigError, match=r"two of that name, from \w+ 1\.2 and from \w+ 1\.2"):
        MECHANISMS.get("own")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("no_such_module:Own", "that cannot be loaded"),
        ("own_part:Nothing", "that cannot be loaded"),
        ("own_fault:Own", "own_fault:Own that cannot be loaded (name 'nothing' is not defined)"),
        ("own_part:__name__", "which is not a class"),
        (
            "own_part:Own",
            "own_part:Own with name = 'own', expected a frozen dataclass with name = 'other' that "
            "extends PreTabular or PostTabular of headcount.mechanisms",
        ),
    ],
)
def test_a_part_that_cannot_be_used_says_whose_it_is(folder: Path, value: str, says: str):
    (folder / "own_fault.py").write_text("Own = nothing\n")
    install(folder, name="broken", points=f"[headcount.mechanisms]\nother = {value}\n")
    with pytest.raises(ConfigError) as caught:
        MECHANISMS.get("other")
    where = "mechanism 'other' of broken 1.2: entry point of headcount.mechanisms: found"
    assert str(caught.value).startswith(where)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("registry", "cls", "says"),
    [
        (MECHANISMS, "Alone", ", which does not extend PreTabular or PostTabular, expected"),
        (MECHANISMS, "Unmade", " without on, run, expected a frozen dataclass"),
        (MECHANISMS, "Plain", ", which is not a frozen dataclass, expected a frozen dataclass"),
        (
            POPULATIONS,
            "Alone",
            ", which does not extend Source, expected a frozen dataclass with k",
        ),
        (POPULATIONS, "Unread", " without read, expected a frozen dataclass with kind = 'own'"),
        (METRICS, "Alone", ", which does not extend Metric, expected a frozen dataclass"),
        (METRICS, "Unmeasured", " without compute, supports, expected a frozen dataclass"),
        (ATTACKS, "Alone", ", which does not extend Attack, expected a frozen dataclass"),
        (ATTACKS, "Unused", " without run, supports, expected a frozen dataclass"),
    ],
)
def test_a_part_without_the_base_of_its_kind_is_refused(
    folder: Path, registry: Registry, cls: str, says: str
):
    install(folder, name="broken", points=f"[{registry.group}]\nown = own_part:{cls}\n")
    with pytest.raises(ConfigError) as caught:
        registry.get("own")
    assert str(caught.value).startswith(
        f"{registry.what} 'own' of broken 1.2: entry point of {registry.group}: "
        f"found own_part:{cls}{says}"
    )
    assert f"that extends {' or '.join(registry.base[1:])} of {registry.base[0]}" in str(
        caught.value
    )
