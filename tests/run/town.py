"""A small town to protect: its files, its ledger, and configs for it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from headcount.privacy import Ledger, PureLoss, UnitOfPrivacy
from headcount.run._beforehand import make_release
from headcount.run.protect import protect_run

UNITS = [("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2"), ("b", "b3")]
"""Public: b3 is a tract in which nobody lives."""

SEXES, AGES = ("f", "m"), ("minor", "adult", "old")


def people(seed: int = 0, *, count: int = 60) -> list[tuple[str, str, str, str]]:
    """County, tract, sex and age of everyone; nobody is old and male, which is impossible here."""
    generator = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        county, tract = UNITS[generator.integers(4)]
        sex, age = SEXES[generator.integers(2)], AGES[generator.integers(3)]
        rows.append((county, tract, "f" if age == "old" else sex, age))
    return rows


def write_town(folder: Path, *, rows: list[tuple[str, str, str, str]] | None = None) -> None:
    """``people.csv``, ``tracts.csv`` and ``town.toml`` (a schema)."""
    lines = ["county,tract,sex,age", *(",".join(row) for row in rows or people())]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    tracts = ["county,tract", *(",".join(unit) for unit in UNITS)]
    (folder / "tracts.csv").write_text("\n".join(tracts) + "\n")


MICRODATA = """
kind = "microdata"
file = "people.csv"
units = "tracts.csv"
geography = { columns = ["county", "tract"] }
attribute = [
  { name = "sex", levels = ["f", "m"] },
  { name = "age", levels = ["minor", "adult", "old"] },
]
structural_zero = [{ sex = ["m"], age = ["old"] }]
"""


def write_config(
    folder: Path,
    *,
    population: str = MICRODATA,
    mechanism: str = 'name = "geometric"\nepsilon = 0.5',
    run: str = "",
    out: str = "out",
    name: str = "config.toml",
) -> Path:
    """A config beside the town's files."""
    path = folder / name
    path.write_text(
        f'[population]\n{population}\n[mechanism]\n{mechanism}\n[run]\nout = "{out}"\n{run}\n'
    )
    return path


LEDGER = 'ledger = "ledger.db"\ndataset = "town"'
"""Lines of a config that spends on the town's ledger."""


def make_ledger(
    folder: Path, *, total: str = "2", unit: UnitOfPrivacy = UnitOfPrivacy.CHANGE_ONE
) -> Ledger:
    """A ledger with the town declared."""
    ledger = Ledger.create(folder / "ledger.db")
    ledger.declare("town", total=PureLoss(epsilon=Fraction(total), unit=unit))
    return ledger


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Stop(Exception):
    """Stands for a crash."""


def interrupted(config: Path, monkeypatch: pytest.MonkeyPatch, *, at: str) -> None:
    """A run that breaks off when it calls ``at``, which its rehearsal has come through."""

    def stop(*_arguments, **_named):
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr("headcount.run.protect.rehearse", lambda *_arguments, **_named: None)
        where = "_beforehand" if at in ("protect", "write_release") else "protect"
        patch.setattr(f"headcount.run.{where}.{at}", stop)
        with pytest.raises(Stop):
            protect_run(config)


def break_after_rehearsal(patch: pytest.MonkeyPatch, name: str, value: object) -> None:
    """Replace what ``name`` names once a run has spent: its rehearsal has come through before."""

    def begun(*arguments, **named):
        patch.setattr(name, value)
        return make_release(*arguments, **named)

    patch.setattr("headcount.run.protect.make_release", begun)
