"""A study on disk: whole or unfinished, never written over another."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import polars as pl
import pytest

from headcount.errors import RunError
from headcount.report.directory import study_is_there, write_study
from tests.report.sample import FIGURE_NAMES, sample_report

STUDY = "flaxman-2019"
SETTINGS = {"seed": 1, "sizes": (1, 2)}
TABLE = pl.DataFrame({"mechanism": ["raked"], "epsilon": [0.1]})


def there(out: Path, **changes: object) -> bool:
    return study_is_there(out, study=STUDY, settings={**SETTINGS, **changes})


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "deep" / "out"
    (folder / "tables").mkdir(parents=True)
    (folder / "tables" / ".epl.csv.0123456789ab.tmp").touch()
    (folder / ".report.html.0123456789ab.tmp").touch()
    assert not there(folder)  # a killed run may be run again
    report = write_study(
        folder, study=STUDY, settings=SETTINGS, tables={"epl": TABLE}, report=sample_report()
    )
    assert report == folder / "report.html"
    return folder


def test_everything_is_there_and_in_the_manifest(out: Path):
    manifest = json.loads((out / "manifest.json").read_text())
    files = {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()}
    assert set(manifest["files"]) == files - {"manifest.json"}
    for name, digest in manifest["files"].items():
        assert sha256((out / name).read_bytes()).hexdigest() == digest
    assert "tables/epl.csv" in files
    for name in FIGURE_NAMES:
        assert {f"figures/{name}.svg", f"figures/{name}.png"} <= files
    assert not [name for name in files if name.endswith(".tmp")]
    assert pl.read_csv(out / "tables/epl.csv").equals(TABLE)


def test_the_same_study_is_found_and_another_refused(out: Path):
    assert there(out)
    with pytest.raises(RunError, match=r"found another run \(flaxman-2019 .*'seed': 1.*expected a"):
        there(out, seed=2)
    with pytest.raises(RunError, match="found another run"):
        study_is_there(out, study="other", settings=SETTINGS)


def test_new_and_empty_folders_are_free_and_others_are_not(tmp_path: Path):
    assert not there(tmp_path / "new")
    assert not there(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"found 'notes\.txt', expected a new or empty directory"):
        there(tmp_path)
    with pytest.raises(RunError, match="found a file, expected a new or empty directory"):
        there(tmp_path / "notes.txt")


@pytest.mark.parametrize("text", ["", "[1]", "3"])
def test_a_damaged_manifest_is_found(text: str, tmp_path: Path):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(RunError, match=r"manifest\.json: found a damaged file, expected a study's"):
        there(tmp_path)
