"""The first screen: what is in the folder, and where to go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from starlette.responses import Response

from headcount.errors import HeadcountError, InputError, did_you_mean
from headcount.files import write_text_atomic
from headcount.privacy import Ledger
from headcount.privacy.loss import decimal
from headcount.release.directory import FACTS, INTERNAL, RunDirectory
from headcount.studio.app import Asked, Studio
from headcount.studio.folder import LEDGERS, TABLES
from headcount.toml_files import parse_toml

PRACTISE = {
    "towns": "people = 6000",
    "us1940": 'scale = "1/200"',
}
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


@dataclass(frozen=True)
class ListedRun:
    """A run of the folder: by its directory, with the config that resumes it."""

    name: str
    state: str
    config: str


@dataclass(frozen=True)
class ListedBalance:
    """What is left on a ledger."""

    ledger: str
    dataset: str
    words: str


def show(studio: Studio, asked: Asked) -> Response:
    """What is there."""
    files = dict(studio.folder.files())
    configs = {name: _out(studio, name) for name, path in files.items() if _is_config(path)}
    runs = _runs(studio, files, {out: name for name, (out, _) in configs.items() if out})
    inside = ("comparisons/", *(f"{run.name}/" for run in runs))
    tables = [
        name
        for name in files
        if name.endswith(TABLES) and not name.endswith(".units.csv") and not name.startswith(inside)
    ]
    return studio.page(
        "start.html.j2",
        here="start",
        command=f"headcount studio {studio.folder.root.name}",
        tables=tables,
        configs={name: why for name, (_, why) in configs.items()},
        runs=runs,
        balances=list(_balances(files)),
        practise=list(PRACTISE),
    )


def practise(studio: Studio, asked: Asked) -> Response:
    """A config with a made-up population."""
    kind = asked.field("kind")
    if kind not in PRACTISE:
        raise InputError("practise", found=repr(kind), expected=did_you_mean(kind, PRACTISE))
    name = f"practise-{kind}.toml"
    path = studio.folder.inside(name)
    if not path.exists():
        write_text_atomic(path, _CONFIG.format(kind=kind, size=PRACTISE[kind]))
    return studio.go("/plan", config=name)


def accept(studio: Studio, asked: Asked) -> Response:
    """Somebody has read that what follows is confidential."""
    studio.accepted = True
    back = asked.field("back")
    return studio.go(back if back.startswith("/") and "//" not in back else "/")


def stop(studio: Studio, asked: Asked) -> Response:
    """The end, when it was asked for."""
    studio.stopping = True
    return studio.page("stopped.html.j2", here="stopped")


def _is_config(path: Path) -> bool:
    if path.suffix != ".toml" or path.name.endswith(".schema.toml"):
        return False
    return "[population]" in path.read_text(encoding="utf-8", errors="replace")


def _out(studio: Studio, name: str) -> tuple[str, str]:
    """The run directory of a config, or why it is no TOML; its own screen says more."""
    try:
        text = studio.texts.read(name)
        run = parse_toml(text.text, source=name).get("run")
        out = str(run["out"]) if isinstance(run, dict) and "out" in run else ""
        return studio.folder.name_of(text.path.parent / out) if out else "", ""
    except HeadcountError as error:
        return "", str(error)


def _runs(studio: Studio, files: dict[str, Path], of: dict[str, str]) -> list[ListedRun]:
    found = []
    for name in files:
        folder, slash, rest = name.rpartition(f"/{INTERNAL}/")
        if slash and rest == FACTS:
            config = of.get(folder, "")
            found.append(ListedRun(folder, run_state(studio, Path(folder), config), config))
    return found


def run_state(studio: Studio, out: Path, config: str) -> str:
    """How far a run is: none, running, unfinished, finished, closed or damaged."""
    job = studio.jobs.find(f"protect {config}")
    if config and job is not None and job.running:
        return "running"
    return RunDirectory(studio.folder.root / out).state


def _balances(files: dict[str, Path]) -> Iterator[ListedBalance]:
    for name, path in files.items():
        if not name.endswith(LEDGERS):
            continue
        try:
            book = Ledger.open(path)
            for one in map(book.balance, (dataset.name for dataset in book.datasets())):
                total = one.dataset.total
                words = f"{total.currency} {decimal(one.remaining)} left of {decimal(total.amount)}"
                yield ListedBalance(name, one.dataset.name, words)
        except HeadcountError as error:
            yield ListedBalance(name, "", str(error))
