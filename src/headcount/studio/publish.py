"""The screen before publishing: what goes out, what must not, and how to do it all again."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from shlex import quote
from tempfile import SpooledTemporaryFile
from typing import Any

from starlette.responses import Response, StreamingResponse

from headcount.config.load import Config
from headcount.errors import HeadcountError, RunError
from headcount.files import to_toml
from headcount.release.directory import RunDirectory, write_zip
from headcount.release.sheets import DICTIONARY
from headcount.release.store import (
    MANIFEST,
    RECEIPT,
    check_files,
    guarantee_from_json,
    read_receipt,
)
from headcount.run.protect import kept_config
from headcount.studio.app import Asked, Studio
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


def _outgoing(directory: RunDirectory) -> tuple[_OutgoingFile, ...]:
    """The files of a finished release, checked against its manifest."""
    names = (MANIFEST, *check_files(directory.release)["files"])
    paths = {name: directory.release / name for name in names}
    return tuple(
        _OutgoingFile(name, path.stat().st_size, WHAT.get(name, _kind(name)))
        for name, path in paths.items()
    )


def _kind(name: str) -> str:
    return "protected counts" if name.endswith((".parquet", ".csv")) else "part of the release"


def _publish_checks(directory: RunDirectory) -> tuple[_PublishCheck, ...]:
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
class _ReleaseAgain:
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
    def of(cls, directory: RunDirectory, config: str, *, root: Path) -> _ReleaseAgain:
        """From a run below ``root``, whose config has a name there."""
        name = str(PurePosixPath(config).with_suffix("")) + AGAIN
        beside = (root / config).parent
        tables = _tables(kept_config(directory))
        out = directory.path.with_name(directory.path.name + AGAIN)
        tables["run"]["out"] = str(out)
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


IN_MEMORY = 64 << 20


def show(studio: Studio, asked: Asked) -> Response:
    """File by file, with checks and scripts."""
    directory = RunDirectory(studio.texts.load(asked.config).run.out)
    out = studio.folder.name_of(directory.path)
    if not directory.is_complete:
        return studio.page(
            "said.html.j2",
            here="publish",
            config=asked.config,
            title="There is no release yet",
            said=f"{out} holds no finished release. Run the config first.",
        )
    for path in (directory.release / MANIFEST, directory.internal / "config.json"):
        studio.folder.name_of(path)  # which is no link
    again = _ReleaseAgain.of(directory, asked.config, root=studio.folder.root)
    return studio.page(
        "publish.html.j2",
        here="publish",
        config=asked.config,
        command=studio.command("protect", asked.config),
        out=out,
        files=_outgoing(directory),
        withheld=WITHHELD,
        checks=_publish_checks(directory),
        promise=guarantee_from_json(read_receipt(directory.release)["guarantee"]),
        shell=again.shell(),
        python=again.python(),
    )


def archive(studio: Studio, asked: Asked) -> Response:
    """A zip of ``release/`` alone."""
    directory = RunDirectory(studio.texts.load(asked.config).run.out)
    if not directory.is_complete:
        raise RunError(f"{directory.path.name}: found no finished release, expected one to pack")
    packed = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed when it is sent
    write_zip(directory, packed)
    packed.seek(0)
    named = "".join(c if c.isascii() and c.isalnum() else "-" for c in directory.path.name)
    return StreamingResponse(
        iter(lambda: packed.read(1 << 20), b""),
        media_type="application/zip",
        headers={"content-disposition": f'attachment; filename="{named}-release.zip"'},
    )
