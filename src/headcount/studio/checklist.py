"""Before a release leaves the house: what goes out, what must not, and whether it is sound."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Any

from headcount.config.settings import Config
from headcount.errors import HeadcountError
from headcount.files import to_toml
from headcount.release.directory import RunDirectory
from headcount.release.sheets import DICTIONARY
from headcount.release.store import (
    MANIFEST,
    RECEIPT,
    check_files,
    guarantee_from_json,
    read_receipt,
)
from headcount.run.protect import kept_config
from headcount.typed import given

WHAT = {
    MANIFEST: "every file with its SHA-256: whoever copies the release can check it",
    RECEIPT: "how the release was made and what it promises: exact losses, versions, digests",
    DICTIONARY: "the data dictionary: every file and column, for people and programs",
}
WITHHELD = {
    "internal/": "key, config, evaluation: as confidential as the data",
    "the ledger": "what is left of each total, and a secret",
    "comparisons and evaluations": "computed from the truth",
    "the data": "nobody but you may see them",
}
"""What must not go out."""

AGAIN = "-again"
NEW_NOISE = (
    "A new release from the same data: new noise is drawn, and spent where a ledger keeps account."
)


@dataclass(frozen=True)
class _PublishCheck:
    """One question before publishing, and its answer."""

    question: str
    passed: bool
    words: str


@dataclass(frozen=True)
class _OutgoingFile:
    """A file of a release, and what it is."""

    name: str
    size: int
    what: str


def outgoing(directory: RunDirectory) -> tuple[_OutgoingFile, ...]:
    """The files of a finished release, checked against its manifest."""
    names = (MANIFEST, *check_files(directory.release)["files"])
    paths = {name: directory.release / name for name in names}
    return tuple(
        _OutgoingFile(name, path.stat().st_size, WHAT.get(name, _kind(name)))
        for name, path in paths.items()
    )


def _kind(name: str) -> str:
    return "protected counts" if name.endswith((".parquet", ".csv")) else "part of the release"


def publish_checks(directory: RunDirectory) -> tuple[_PublishCheck, ...]:
    """What can be checked by a program before a release is published.

    By the release's own receipt: the config may have been changed since.
    """
    found, receipt = [_whole(directory)], read_receipt(directory.release)
    guarantee = guarantee_from_json(receipt["guarantee"])
    seeded, recorded = receipt["key_kind"] == "seed", receipt["ledger"].startswith("dataset ")
    read_off = [one for one in guarantee.released_exactly if one.startswith("which ")]
    found += [
        _PublishCheck("Is the key destroyed?", not directory.key.exists(), "internal/run.key"),
        _PublishCheck(
            "Is the noise secret?",
            not seeded,
            "seeded: not private" if seeded else "drawn from the operating system",
        ),
        _PublishCheck(
            "Does the release promise anything?",
            guarantee.exists,
            guarantee.sentences()[0],
        ),
        _PublishCheck(
            "Are the lists of places and levels public?",
            not read_off,
            "read from the data: " + "; ".join(read_off) if read_off else "all of them were given",
        ),
        _PublishCheck(
            "Does a ledger keep account?",
            recorded,
            receipt["ledger"] if recorded else "nothing stops a second release",
        ),
    ]
    return tuple(found)


def _whole(directory: RunDirectory) -> _PublishCheck:
    question = "Is every file as it was written?"
    try:
        files = check_files(directory.release)["files"]
    except HeadcountError as error:
        return _PublishCheck(question, False, str(error))
    return _PublishCheck(question, True, f"{len(files) + 1} files, by their SHA-256")


@dataclass(frozen=True)
class ReleaseAgain:
    """How to make a release like a finished one: the config that its run kept, with a new folder.

    where
        config   a name for that config, beside the one that it was
        out      where the new run goes
        text     the config as TOML, with files named from where it stands
    """

    config: str
    out: str
    text: str

    @classmethod
    def of(cls, directory: RunDirectory, config: str, *, root: Path) -> ReleaseAgain:
        """From a run below ``root``, whose config has a name there."""
        name = str(PurePosixPath(config).with_suffix("")) + AGAIN
        beside = (root / config).parent
        tables = _tables(kept_config(directory))
        out = directory.path.with_name(directory.path.name + AGAIN)
        tables["run"]["out"] = str(out)
        tables["run"].pop("noise", None)  # a key of older versions
        here = _from(tables, root=root, beside=beside)
        return cls(f"{name}.toml", out.relative_to(root).as_posix(), to_toml(here))

    def shell(self) -> str:
        """The commands."""
        ends = (f"END{'' if number == 1 else number}" for number in range(1, 1000))
        lines = set(self.text.splitlines())
        end = next(one for one in ends if one not in lines)
        return "\n".join(
            (
                "#!/bin/sh -eu",
                f"# {NEW_NOISE}",
                f"cat > {quote(self.config)} <<'{end}'",
                f"{self.text}{end}",
                f"headcount check {quote(self.config)}",
                f"headcount protect {quote(self.config)}",
                f"headcount evaluate {quote(self.out)}  # confidential",
                "",
            )
        )

    def python(self) -> str:
        """A program."""
        return "\n".join(
            (
                f'"""{NEW_NOISE}"""',
                "",
                "from pathlib import Path",
                "",
                "import headcount as hc",
                "",
                f"TEXT = {_literal(self.text)}",
                f"config = Path({self.config!r})",
                "config.write_text(TEXT, encoding='utf-8')",
                "print(hc.protect(config) / 'release')",
                "",
            )
        )


def _tables(config: Config) -> dict[str, Any]:
    """The tables of a config, without what is as by default."""
    made = {
        "population": {"kind": config.population.kind, **given(config.population)},
        "mechanism": [{"name": one.name, **given(one)} for one in config.mechanism],
        "metric": [{"name": one.name, **given(one)} for one in config.metric],
        "attack": [{"name": one.name, **given(one)} for one in config.attack],
        "run": given(config.run),
    }
    return {key: table for key, table in made.items() if table}


def _from(value: Any, *, root: Path, beside: Path) -> Any:
    """The same with files below ``root`` named from a folder, so that all of it can be moved."""
    if isinstance(value, dict):
        return {key: _from(one, root=root, beside=beside) for key, one in value.items()}
    if isinstance(value, list):
        return [_from(one, root=root, beside=beside) for one in value]
    if isinstance(value, str) and value.startswith(f"{root}{os.sep}"):
        return Path(os.path.relpath(value, beside)).as_posix()
    return value


def _literal(text: str) -> str:
    """A text in the source of a program, line by line where that is possible."""
    if "\\" in text or "'''" in text or not text.endswith("\n"):
        return repr(text)
    return f"'''\\\n{text}'''"
