"""The studies' cache: keyed by inputs and by the source of everything that makes a piece."""

from __future__ import annotations

import logging
import platform
import re
import shutil
from importlib.metadata import version
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import headcount
import headcount_papers
from headcount.comparison import cache as cache_module
from headcount.comparison.cache import (
    FRAMES,
    JSON,
    Cache,
    _imported_by,
    _library_versions,
    source_digest,
)
from headcount.errors import InputError

HOMES = (Path(headcount.__file__).parent, Path(headcount_papers.__file__).parent)
MAKERS = {
    name: f"headcount_papers.{name}.study"
    for name in ("flaxman_2019", "petti_flaxman_2020", "christ_2022", "hawes_rodriguez_2021")
}
ME = "headcount.comparison.cache"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__")
    for one in HOMES:
        shutil.copytree(one, tmp_path / one.name, ignore=ignored)
    return tmp_path


def homes(home: Path) -> tuple[Path, ...]:
    return tuple(home / one.name for one in HOMES)


def keys(home: Path) -> dict[str, str]:
    source_digest.cache_clear()
    _imported_by.cache_clear()
    return {name: source_digest(module, homes(home)) for name, module in MAKERS.items()}


def touch(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")


def changed(home: Path, *files: str) -> set[str]:
    before = keys(home)
    for file in files:
        touch(home / file)
    after = keys(home)
    return {name for name in MAKERS if before[name] != after[name]}


@pytest.mark.parametrize(
    "file", ["privacy/sensitivity.py", "privacy/loss.py", "tabulate/counts.py", "__init__.py"]
)
def test_what_every_study_imports_changes_every_key(file: str, home: Path):
    assert changed(home, f"headcount/{file}") == set(MAKERS)


def test_an_unrelated_room_changes_no_key(home: Path):
    others = ("cli/protect.py", "studio/app.py", "run/protect.py")
    assert changed(home, *(f"headcount/{one}" for one in others)) == set()


def test_imports_inside_functions_count(home: Path):
    lazy = "headcount/population/uniform.py"  # imported by a method of the settings
    source = (home / "headcount_papers/flaxman_2019/settings.py").read_text(encoding="utf-8")
    assert re.search(r"^ +from headcount.population.uniform import", source, flags=re.MULTILINE)
    assert "flaxman_2019" in changed(home, lazy)


def test_data_counts_and_what_is_read_afterwards_does_not(home: Path):
    assert "petti_flaxman_2020" in changed(home, "headcount/topdown/presets/e2e-2018.toml")
    assert "petti_flaxman_2020" in changed(home, "headcount_papers/us1940/data/published.toml")
    own = "headcount_papers/flaxman_2019"
    assert changed(home, *(f"{own}/{name}" for name in ("published.toml", "report.toml"))) == set()
    assert changed(home, f"{own}/report.md") == set()


def test_another_studys_package_changes_no_key_of_mine(home: Path):
    assert changed(home, "headcount_papers/flaxman_2019/law.py") == {"flaxman_2019"}


def test_no_module_is_imported_in_a_way_that_the_digest_does_not_see():
    relative = re.compile(r"^\s*from \.", flags=re.MULTILINE)
    sources = [path for home in HOMES for path in home.rglob("*.py")]
    found = [path for path in sources if relative.search(path.read_text(encoding="utf-8"))]
    assert found == []


@pytest.mark.parametrize("library", ["numpy", "scipy", "polars", "numba", "cryptography"])
def test_the_libraries_that_a_study_computes_with_are_named_with_their_versions(library: str):
    for module in MAKERS.values():
        assert f"{library} {version(library)}" in _library_versions(module).split(", ")


def test_only_libraries_that_the_sources_import_are_named(home: Path):
    module = "headcount_papers.flaxman_2019.settings"
    _imported_by.cache_clear()
    before = set(_library_versions(module, homes(home)).split(", "))
    pytest_too = f"pytest {version('pytest')}"
    assert f"python {platform.python_version()}" in before
    assert pytest_too not in before
    path = home / "headcount_papers/flaxman_2019/settings.py"
    path.write_text(path.read_text(encoding="utf-8") + "\nimport pytest\n", encoding="utf-8")
    for found in (_imported_by, _library_versions):
        found.cache_clear()
    assert set(_library_versions(module, homes(home)).split(", ")) == before | {pytest_too}


def test_another_version_of_a_library_makes_the_piece_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def made() -> int:
        Cache(tmp_path).get(lambda: 1, name="piece", inputs="", made_by=ME, codec=JSON)
        return len(list(tmp_path.iterdir()))

    assert made() == 1
    assert made() == 1
    newer = {"polars": "99.1"}
    monkeypatch.setattr(cache_module, "version", lambda name: newer.get(name, version(name)))
    _library_versions.cache_clear()
    assert made() == 2
    monkeypatch.undo()
    _library_versions.cache_clear()
    assert made() == 2


def test_a_piece_is_made_once_and_again_for_other_inputs(tmp_path: Path):
    made = []

    def make() -> dict[str, pl.DataFrame]:
        made.append(1)
        return {"a": pl.DataFrame({"x": [1, None]}), "b": pl.DataFrame({"y": ["ä"]})}

    def get(inputs: str, folder: Path | None) -> dict[str, pl.DataFrame]:
        return Cache(folder).get(make, name="piece", inputs=inputs, made_by=ME, codec=FRAMES)

    first, again = get("seed 1", tmp_path / "new"), get("seed 1", tmp_path / "new")
    assert len(made) == 1
    assert list(again) == ["a", "b"]
    for name, frame in first.items():
        assert_frame_equal(again[name], frame)
    get("seed 2", tmp_path / "new")
    assert len(made) == 2
    assert len(list((tmp_path / "new").glob("piece-*.frames"))) == 2
    get("seed 1", None)
    assert len(made) == 3


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 half a file", b"{"])
def test_a_damaged_file_is_named_in_a_warning_and_made_again(
    damage: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    for codec, value in ((FRAMES, {"a": pl.DataFrame({"x": [1]})}), (JSON, {"a": 1})):

        def get(codec=codec, value=value):
            about = {"name": "piece", "inputs": "", "made_by": ME, "codec": codec}
            return Cache(tmp_path).get(lambda: value, **about)

        get()
        (path,) = tmp_path.glob(f"*.{codec.ending}")
        whole = path.read_bytes()
        path.write_bytes(damage)
        with caplog.at_level(logging.WARNING):
            assert list(get()) == ["a"]
        assert f"{path}: the file is damaged" in caplog.text
        assert "is made again" in caplog.text
        assert len(path.read_bytes()) == len(whole)


@pytest.mark.parametrize("module", ["", "numpy", "headcount.comparison.no_such"])
def test_a_piece_that_no_module_of_headcount_makes_is_refused(module: str, tmp_path: Path):
    with pytest.raises(InputError, match=f"made_by: found '{module}', expected a module"):
        Cache(tmp_path).get(lambda: 1, name="piece", inputs="", made_by=module, codec=JSON)
    assert Cache().get(lambda: 1, name="piece", inputs="", made_by=module, codec=JSON) == 1
