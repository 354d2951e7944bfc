"""The golden files are written anew on request, and a change only where it is named."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.golden import __main__ as command
from tests.golden.__main__ import Parts, main, written

WORDS: Parts = {"cases": {"one": {"noise": "One(a='x', b=\"\")", "steps": ["One(a=1)", "Two('')"]}}}


def run(patch: pytest.MonkeyPatch, words: Parts, *typed: str):
    parts = [(kind, *part) for kind, several in words.items() for part in several.items()]
    patch.setattr(command, "all_words", lambda _: iter(parts))
    patch.setattr(command, "releases", lambda _: iter(()))
    patch.setattr("sys.argv", ["golden", *typed])
    main()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(command, "HERE", tmp_path)
    monkeypatch.setattr("logging.disable", lambda: None)
    run(monkeypatch, WORDS, "--write")
    return tmp_path / "words.toml"


def test_what_is_written_is_read_again(file: Path):
    assert tomllib.loads(file.read_text("utf-8")) == WORDS
    odd: Parts = {"cases": {"a b": {"x, y": "'''", "z": "ends in '"}}}
    assert tomllib.loads(written(odd, "about")) == odd


def test_a_change_is_written_only_if_it_is_named(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    before = file.read_text("utf-8")
    other: Parts = {"cases": {"one": {"noise": "One(b='x')"}, "two": {"noise": "Two()"}}}
    run(monkeypatch, other)
    with pytest.raises(SystemExit, match="found changes that are not named, expected none"):
        run(monkeypatch, other, "--write", "two")
    assert "words: one: noise changed" in capsys.readouterr().out
    assert file.read_text("utf-8") == before
    run(monkeypatch, {**WORDS, "words": other["cases"]}, "--write")  # what is new changes nothing
    assert file.read_text("utf-8").startswith(before.rstrip("\n"))
    with pytest.raises(SystemExit, match="found changes that are not named"):
        run(monkeypatch, other, "--write", "one")  # of the words of the other two nothing is left
    assert capsys.readouterr().out.count(": gone\n") == 2
    run(monkeypatch, other, "--write", "words")
    assert tomllib.loads(file.read_text("utf-8")) == other
