"""Cases as configs, the ways in which a release of each is made, and what it holds as text.

Everything is reached by doors that users have (configs, ``hc.protect``, ``hc.estimate`` ...), so
that whoever renames or moves what is behind them need not change these tests.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs
import pytest

import headcount as hc
from headcount.comparison.cache import Cache
from headcount.comparison.study import Work, load_study
from headcount.config.load import load_config
from headcount.errors import InputError
from headcount.noise import KeyedNoise, keyed

HERE = Path(__file__).parent
CASES: dict[str, Any] = tomllib.loads((HERE / "cases.toml").read_text("utf-8"))
SEED: int = CASES["seed"]
NAMES = tuple(CASES["cases"])
MEASURED = tuple(name for name in NAMES if "measurements" in CASES["cases"][name].get("run", ""))
"""Cases whose measurements are published."""
KEPT = tuple(name for name in NAMES if "keys = " in CASES["cases"][name]["mechanism"])
"""Cases with a file of keys: where it is stands among their words, and so differs each time."""
DIGITS = 9
"""Of a number that is not whole: what does not hang on the order in which floats are added."""


def config_text(name: str) -> str:
    """The config of a case, or of words, to be read beside the data."""
    case = CASES["cases"].get(name) or CASES["words"][name]
    people = case.get("own") or CASES["populations"][case.get("population", "town")]
    steps = case["mechanism"]
    steps = steps if steps.startswith("[[mechanism]]") else f"[mechanism]\n{steps}"
    run = f'[run]\nout = "out"\nseed = {SEED}\n{case.get("run", "")}\n'
    return f"{run}\n[population]\n{people}\n{steps}\n"


def config_of(name: str, folder: Path) -> Path:
    """The config of a case as a file, with the data beside it."""
    home = folder / re.sub(r"\W+", "-", name)
    if not home.exists():
        shutil.copytree(HERE / "data", home)
        for secret in home.glob("*.keys"):
            secret.chmod(0o600)
        (home / "config.toml").write_text(config_text(name), "utf-8")
    return home / "config.toml"


# --- what is in a release


def digest(lines: Iterable[str]) -> str:
    """SHA-256 of lines, whatever their order."""
    return sha256("\n".join(sorted(lines)).encode()).hexdigest()


def rows(frame: pl.DataFrame, *before: str) -> Iterator[str]:
    """The rows of a table as lines of CSV, without its header."""
    for row in frame.rows():
        yield ",".join([*before, *map(_written, row)])


def _written(value: object) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f"{value:.{DIGITS}g}"
    if isinstance(value, list):
        return f"[{' '.join(map(_written, value))}]"
    return "" if value is None else str(value)


def content(release: hc.Release) -> str:
    """Digest of level, unit, cell and count of all that is published; counts of 0 are left out."""
    lines: list[str] = []
    for level in release.geography.levels:
        with suppress(InputError):  # no table is published there
            counts = release.to_polars(level, tidy=True)
            lines += rows(counts.filter(pl.col("n").is_null() | (pl.col("n") != 0)), level)
    assert lines
    return digest(lines)


def beside(release: Path) -> str:
    """Digest of what is published beside the tables: people, records, measurements; "" if none."""
    lines: list[str] = []
    for file in sorted(release.rglob("*/*")):
        # Parts of a table are one table, however many there are.
        name = re.sub(r"part-\d+\.parquet", "", file.relative_to(release).as_posix())
        if file.suffix == ".parquet" and file.is_file():
            lines += rows(pl.read_parquet(file), name)
        elif file.suffix == ".txt":
            told = file.read_text("utf-8").splitlines()
            lines += [f"{name}: {line}" for line in told if not line.startswith("#")]
    return digest(lines) if lines else ""


def published(release: Path) -> dict[str, str]:
    """Digests of the release in a folder."""
    found = {"directory": content(hc.read_release(release)), "beside": beside(release)}
    return {what: value for what, value in found.items() if value}


# --- ways to make a release


def in_memory(name: str, folder: Path) -> dict[str, str]:
    """By ``hc.protect`` with a seed; and what its noise was keyed by."""
    config = load_config(config_of(name, folder))
    with addresses() as found:
        made = hc.protect(config.population.read(), config.mechanism, seed=SEED)
    return {"memory": content(made), "addresses": digest(found)}


def in_directory(name: str, folder: Path, **how: Any) -> Path:
    """By ``hc.protect`` with a seed; returns the release."""
    return hc.protect(config_of(name, folder), **how) / "release"


def estimated(name: str, folder: Path) -> Path:
    """By ``hc.estimate`` from the measurements of a run that is made there, if it is not."""
    config = in_directory(name, folder).parents[1] / "again.toml"
    text = '[measurements]\nfolder = "out/release/measurements"\n[run]\nout = "again"\n'
    config.write_text(text + CASES["cases"][name].get("again", ""), "utf-8")
    return hc.estimate(config) / "release"


class Stop(KeyboardInterrupt):
    """Stands for a crash."""


def resumed(name: str, folder: Path, *, after: int) -> Path:
    """A run that breaks off after so many draws, and is then run to its end; the release."""

    def stop(number: int) -> None:
        if number > after:
            raise Stop

    with draws(stop), pytest.raises(Stop):
        in_directory(name, folder)
    return in_directory(name, folder)


@contextmanager
def draws(act: Callable[[int], None]) -> Iterator[None]:
    """Call ``act`` with the number of each draw of noise, before it is made."""
    made = [0]

    def watched(draw: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(*given: Any, **named: Any) -> Any:
            made[0] += 1
            act(made[0])
            return draw(*given, **named)

        return drawn

    with pytest.MonkeyPatch.context() as patch:
        for way in ("draw", "draw_at"):
            patch.setattr(KeyedNoise, way, watched(getattr(KeyedNoise, way)))
        yield


@contextmanager
def addresses() -> Iterator[set[str]]:
    """All that keys are derived from meanwhile: of the noise of a run, and of its streams."""
    found: set[str] = set()
    encode: Callable[..., bytes] = vars(keyed)["encode"]

    def noted(*parts: Any) -> bytes:
        found.add(" | ".join(one.hex() if isinstance(one, bytes) else str(one) for one in parts))
        return encode(*parts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed, "encode", noted)
        yield found


# --- what is made of releases


def tables(name: str, folder: Path) -> dict[str, str]:
    """Digests of the numbers in each table of a comparison, of a report of errors, of a study."""
    asked = dict(CASES["tables"][name])
    config, without = config_of(asked.pop("case", NAMES[0]), folder), asked.pop("without", ())
    found: Mapping[str, pl.DataFrame]
    if name == "comparison":
        people = load_config(config).population.read()
        found = hc.compare(people, seed=SEED, **asked).tables
    elif name == "errors of a release":
        found = {"errors": hc.errors_of(hc.protect(config), seed=SEED, **asked).table}
    else:
        if "case" in CASES["tables"][name]:
            asked["population"] = config
        for key, value in asked.items():
            if isinstance(value, list):
                exact = key in ("epsilons", "fractions")
                asked[key] = tuple(Fraction(one) if exact else one for one in value)
        study = load_study(name)
        found = study.run(study.settings(**asked), Work(cache=Cache(None))).tables
    some = {key: table.select(cs.numeric() | cs.boolean()) for key, table in found.items()}
    return {
        key: digest(rows(table))
        for key, table in some.items()
        if table.width and key not in without
    }
