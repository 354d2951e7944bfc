"""Before a release leaves the house: what goes out, what must not, and whether it is sound."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from shutil import copyfileobj
from typing import IO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from headcount.errors import HeadcountError, RunError
from headcount.files import stranger
from headcount.release.dictionary import DICTIONARY
from headcount.release.directory import RunDirectory
from headcount.release.receipt import guarantee_from_json
from headcount.release.store import MANIFEST, RECEIPT, check_files, read_receipt

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


@dataclass(frozen=True)
class PublishCheck:
    """One question before publishing, and its answer."""

    question: str
    passed: bool
    words: str


@dataclass(frozen=True)
class OutgoingFile:
    """A file of a release, and what it is."""

    name: str
    size: int
    what: str


def outgoing(directory: RunDirectory) -> tuple[OutgoingFile, ...]:
    """The files of a finished release, checked against its manifest."""
    names = (MANIFEST, *check_files(directory.release)["files"])
    paths = {name: directory.release / name for name in names}
    return tuple(
        OutgoingFile(name, path.stat().st_size, WHAT.get(name, _kind(name)))
        for name, path in paths.items()
    )


def _kind(name: str) -> str:
    return "protected counts" if name.endswith((".parquet", ".csv")) else "part of the release"


def publish_checks(directory: RunDirectory) -> tuple[PublishCheck, ...]:
    """What can be checked by a program before a release is published.

    By the release's own receipt: the config may have been changed since.
    """
    found, receipt = [_whole(directory)], read_receipt(directory.release)
    guarantee = guarantee_from_json(receipt["guarantee"])
    seeded, recorded = receipt["key_kind"] == "seed", receipt["ledger"].startswith("dataset ")
    read_off = [one for one in guarantee.released_exactly if one.startswith("which ")]
    found += [
        PublishCheck("Is the key destroyed?", not directory.key.exists(), "internal/run.key"),
        PublishCheck(
            "Is the noise secret?",
            not seeded,
            "seeded: not private" if seeded else "drawn from the operating system",
        ),
        PublishCheck(
            "Does the release promise anything?",
            guarantee.exists,
            guarantee.sentences()[0],
        ),
        PublishCheck(
            "Are the lists of places and levels public?",
            not read_off,
            "read from the data: " + "; ".join(read_off) if read_off else "all of them were given",
        ),
        PublishCheck(
            "Does a ledger keep account?",
            recorded,
            receipt["ledger"] if recorded else "nothing stops a second release",
        ),
    ]
    return tuple(found)


def _whole(directory: RunDirectory) -> PublishCheck:
    question = "Is every file as it was written?"
    try:
        files = check_files(directory.release)["files"]
    except HeadcountError as error:
        return PublishCheck(question, False, str(error))
    return PublishCheck(question, True, f"{len(files) + 1} files, by their SHA-256")


def write_zip(directory: RunDirectory, to: IO[bytes]) -> None:
    """The files of ``release/`` that the manifest lists, and no others; always the same bytes."""
    if why := stranger(directory.release.lstat()):
        raise RunError(f"{directory.release}: found {why}, expected a folder of the run")
    inside = directory.release.resolve()
    with ZipFile(to, "w", ZIP_DEFLATED) as archive:
        for one in outgoing(directory):
            path = directory.release / one.name
            why = stranger(path.lstat()) or ("" if _below(path, inside) else "a file elsewhere")
            if why:
                raise RunError(f"{path}: found {why}, expected a plain file of the release")
            entry = ZipInfo(f"release/{one.name}", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            with path.open("rb") as source, archive.open(entry, "w") as target:
                copyfileobj(source, target)


def _below(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder)


def shell_script(config: str, out: str) -> str:
    """The commands that do the same."""
    return "\n".join(
        (
            "#!/bin/sh -eu",
            "# A new run draws new noise, and spends again where a ledger keeps account.",
            f"headcount check {quote(config)}",
            f"headcount protect {quote(config)}",
            f"headcount evaluate {quote(out)}  # confidential",
            "",
        )
    )


def python_script(config: str, text: str) -> str:
    """A program that writes the config and makes the release."""
    return "\n".join(
        (
            '"""Make the release again; new noise is drawn, and spent where there is a ledger."""',
            "",
            "from pathlib import Path",
            "",
            "import headcount as hc",
            "",
            f"TEXT = {_literal(text)}",
            f"config = Path({config!r})",
            "if not config.exists():",
            "    config.write_text(TEXT, encoding='utf-8')",
            "print(hc.protect_run(config) / 'release')",
            "",
        )
    )


def _literal(text: str) -> str:
    """A text in the source of a program, line by line where that is possible."""
    if "\\" in text or "'''" in text or not text.endswith("\n"):
        return repr(text)
    return f"'''\\\n{text}'''"
