"""What a folder holds, whatever else lies in it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from headcount.privacy import Ledger, PureLoss, UnitOfPrivacy
from headcount.studio import start
from headcount.studio.start import (
    _balances_among,
    _configs_among,
    _ListedBalance,
    _ListedConfig,
    _ListedRun,
    _runs_among,
    _tables_among,
    plain_files,
)


def test_files_configs_runs_and_ledgers_by_name(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("people.csv", "people.units.csv", "notes.md", "sub/more.parquet", ".hidden.csv"):
        (tmp_path / name).touch()
    (tmp_path / "link.csv").symlink_to(tmp_path / "people.csv")
    (tmp_path / "sub/a.toml").write_text('[population]\n[run]\nout = "../runs/a"\n')
    (tmp_path / "bad.toml").write_text("[population\n")
    (tmp_path / "other.toml").write_text("[tool]\n")
    internal = tmp_path / "runs/a/internal"
    internal.mkdir(parents=True)
    (internal / "run.json").write_text("{}")
    (internal / "truth.csv").touch()
    book = Ledger.create(tmp_path / "book")
    book.declare("census", total=PureLoss(epsilon=Fraction(2), unit=UnitOfPrivacy.CHANGE_ONE))
    found = plain_files(tmp_path)
    assert (found.more, found.nameless) == (False, 0)
    configs = _configs_among(found.files, tmp_path)
    assert configs[1] == _ListedConfig("sub/a.toml", out="runs/a")
    assert configs[0].name == "bad.toml"
    assert configs[0].fault.startswith("bad.toml: found text that is not TOML")
    runs = _runs_among(found.files, configs)
    assert runs == [_ListedRun("runs/a", "damaged", "sub/a.toml")]
    assert _tables_among(found.files, runs) == ["people.csv", "sub/more.parquet"]
    balances = list(_balances_among(found.files))
    assert balances == [_ListedBalance("book", "census", "epsilon 2 left of 2")]
    (tmp_path / "book").chmod(0o644)
    (open_to_others,) = _balances_among(found.files)
    assert open_to_others.words.startswith("book: found mode 0644, expected 0600")


def test_a_listing_that_is_cut_says_that_there_is_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        (tmp_path / f"{number}.csv").touch()
    assert not plain_files(tmp_path).more
    monkeypatch.setattr(start, "MOST_FILES", 3)
    found = plain_files(tmp_path)
    assert (list(found.files), found.more) == (["0.csv", "1.csv", "2.csv"], True)
    monkeypatch.setattr(start, "MOST_FILES", 4)
    (tmp_path / "a/b").mkdir(parents=True)
    assert not plain_files(tmp_path).more
    monkeypatch.setattr(start, "DEEPEST", 1)
    assert plain_files(tmp_path).more
