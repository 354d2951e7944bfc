"""The first screen: what is in the folder, each by its name in it, and where to go on.

Whatever lies there is listed or left out, and nothing in it breaks the listing: files of others,
links, names that are no text, configs that cannot be read, other databases.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from starlette.responses import Response

from headcount.errors import ConfigError, HeadcountError, did_you_mean
from headcount.files import read_toml, stranger, write_text_atomic
from headcount.population.formats.kinds import KNOWN
from headcount.privacy import Ledger
from headcount.privacy.loss import decimal
from headcount.release.directory import FACTS, INTERNAL, RunDirectory
from headcount.studio.app import Asked, Studio

DEEPEST, MOST_FILES = 4, 2_000
"""Folders below the first that are looked through, and files that are listed."""

NO_TABLES = (".json", ".xpt", ".zip")
"""Endings of files of which most are no tables: releases are such too."""

TABLES = tuple(one for one in KNOWN if one not in NO_TABLES)
"""Endings of files that ``headcount init`` can look at."""

UNITS, COMPARISONS = ".units.csv", "comparisons/"
"""Files that are no people: lists of places that ``headcount init`` has written, comparisons."""


@dataclass(frozen=True)
class _PlainFiles:
    """The files below a folder that are this user's own, by name, in order.

    where
        more       whether others are there: the listing ends at ``MOST_FILES`` and ``DEEPEST``
        nameless   files whose names are no text, so that neither a page nor a config can name them
    """

    files: dict[str, Path]
    more: bool
    nameless: int


@dataclass(frozen=True)
class _ListedConfig:
    """A config: the name of its run directory, or why it cannot be read."""

    name: str
    out: str = ""
    fault: str = ""


@dataclass(frozen=True)
class _ListedRun:
    """A run by its directory, how far it is, and the config that resumes it."""

    name: str
    state: str
    config: str = ""


@dataclass(frozen=True)
class _ListedBalance:
    """What a ledger has left for a dataset; or what is wrong with the ledger."""

    ledger: str
    dataset: str
    words: str


def plain_files(root: Path) -> _PlainFiles:
    """Every file below a folder, but those that are hidden, behind a link or another user's."""
    found: dict[str, Path] = {}
    more, nameless = False, 0
    for top, folders, names in os.walk(root):
        folders[:] = sorted(one for one in folders if _own(Path(top, one)))
        if len(Path(top).relative_to(root).parts) == DEEPEST:
            more = more or bool(folders)
            folders.clear()
        for path in (Path(top, name) for name in sorted(names)):
            if not _own(path):
                continue
            name = path.relative_to(root).as_posix()
            if len(found) == MOST_FILES:
                return _PlainFiles(found, True, nameless)
            if name.isprintable():  # which bytes that are no UTF-8 are not, nor are line ends
                found[name] = path
            else:
                nameless += 1
    return _PlainFiles(found, more, nameless)


def _own(path: Path) -> bool:
    try:
        return not path.name.startswith(".") and not stranger(path.lstat())
    except OSError:  # gone since
        return False


def _configs_among(files: dict[str, Path], root: Path) -> list[_ListedConfig]:
    """The configs, each with the run directory that it names."""
    found = []
    for name, path in files.items():
        if not name.endswith(".toml") or name.endswith(".schema.toml"):
            continue
        try:
            tables = read_toml(path, expected="a config")
            if "population" not in tables:
                continue
            run = tables.get("run")
            out = str(run.get("out", "")) if isinstance(run, dict) else ""
            # A directory elsewhere is no fault: it is only not listed here.
            where = os.path.relpath(os.path.normpath(path.parent / out), root) if out else ""
            found.append(_ListedConfig(name, out=Path(where).as_posix() if where else ""))
        except HeadcountError as error:
            found.append(_ListedConfig(name, fault=str(error).replace(str(path), name)))
        except OSError as error:
            found.append(_ListedConfig(name, fault=f"{name}: {error.strerror}"))
    return found


def _runs_among(files: dict[str, Path], configs: list[_ListedConfig]) -> list[_ListedRun]:
    """The runs, by the facts that each keeps."""
    of = {one.out: one.name for one in configs if one.out}
    ending = f"/{INTERNAL}/{FACTS}"
    found = {
        name.removesuffix(ending): path for name, path in files.items() if name.endswith(ending)
    }
    return [
        _ListedRun(name, RunDirectory(path.parents[1]).state, of.get(name, ""))
        for name, path in found.items()
    ]


def _tables_among(files: dict[str, Path], runs: list[_ListedRun]) -> list[str]:
    """Files that ``headcount init`` can look at, but for those that headcount has written."""
    inside = (COMPARISONS, *(f"{run.name}/" for run in runs))
    return [
        name
        for name in files
        if name.lower().endswith(TABLES)
        and not name.endswith(UNITS)
        and not name.startswith(inside)
    ]


def ledgers_among(files: dict[str, Path]) -> list[str]:
    """The ledgers, whatever they are called."""
    return [name for name, path in files.items() if Ledger.is_one(path)]


def _balances_among(files: dict[str, Path]) -> Iterator[_ListedBalance]:
    """What each ledger has left."""
    for name in ledgers_among(files):
        try:
            book = Ledger.open(files[name])
            for one in map(book.balance, (dataset.name for dataset in book.datasets())):
                total = one.dataset.total
                words = f"{total.currency} {decimal(one.remaining)} left of {decimal(total.amount)}"
                yield _ListedBalance(name, one.dataset.name, words)
        except HeadcountError as error:
            yield _ListedBalance(name, "", str(error).replace(str(files[name]), name))


PRACTISE = {"towns": "people = 6000"}
"""Made-up populations to try things on, and how small they are made."""

_CONFIG = """\
# For practice: a made-up population, so that nothing here is confidential.
[population]
kind = "{kind}"
{size}

[mechanism]
name = "topdown"
epsilon = 1                         # the privacy loss: less protects more

[run]
out = "runs/practise-{kind}"
"""


def show(studio: Studio, asked: Asked) -> Response:
    """What is there."""
    root = studio.folder.root
    found = plain_files(root)
    configs = _configs_among(found.files, root)
    runs = _runs_among(found.files, configs)
    states = (run_state(studio, Path(run.name), run.config) for run in runs)
    return studio.page(
        "start.html.j2",
        here="start",
        command=studio.command("studio", "."),
        found=found,
        tables=_tables_among(found.files, runs),
        configs=configs,
        runs=[replace(run, state=state) for run, state in zip(runs, states, strict=True)],
        balances=list(_balances_among(found.files)),
        practise=list(PRACTISE),
    )


def practise(studio: Studio, asked: Asked) -> Response:
    """A config with a made-up population."""
    kind = asked.field("kind")
    text, name = _practice_config(kind), f"practise-{kind}.toml"
    path = studio.folder.inside(name)
    if not path.exists():
        write_text_atomic(path, text)
    return studio.go("/plan", config=name)


def _practice_config(kind: str) -> str:
    """The text of a config that protects a made-up population."""
    if kind not in PRACTISE:
        raise ConfigError("practise", found=repr(kind), expected=did_you_mean(kind, PRACTISE))
    return _CONFIG.format(kind=kind, size=PRACTISE[kind])


def accept(studio: Studio, asked: Asked) -> Response:
    """Somebody has read that what follows is confidential."""
    studio.accepted = True
    back = asked.field("back")
    return studio.go(back if back.startswith("/") and "//" not in back else "/")


def stop(studio: Studio, asked: Asked) -> Response:
    """The end, when it was asked for."""
    studio.stopping = True
    said = "Close this tab. The command `headcount studio` starts it again."
    return studio.page("said.html.j2", title="The studio has stopped", said=said)


def run_state(studio: Studio, out: Path, config: str) -> str:
    """How far a run is: none, running, unfinished, finished, closed or damaged."""
    job = studio.jobs.find(f"protect {config}")
    if config and job is not None and job.running:
        return "running"
    return RunDirectory(studio.folder.root / out).state
