"""Says what differs from the golden files, and writes them anew.

    python -m tests.golden                         what differs
    python -m tests.golden --write                 adds what is new; refuses if anything has changed
    python -m tests.golden --write "swapping, hi"  writes what is named, or is in a file that is

A change is a change of seeded releases: whoever names it says that they are meant to be others.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import headcount as hc
from tests.golden.scenes import (
    CASES,
    HERE,
    KEPT,
    MEASURED,
    NAMES,
    content,
    estimated,
    in_directory,
    in_memory,
    published,
    tables,
)
from tests.golden.spelled import all_words

Parts = dict[str, dict[str, dict[str, Any]]]
"""What a golden file holds: kind, name, and what is said of it."""

ABOUT = {
    "words": "The words that key noise. No letter of them may ever change (tests/golden/cases.toml "
    "says of what).",
    "releases": "SHA-256 of seeded releases, and of what is made of them "
    "(tests/golden/scenes.py says how).",
}


def releases(folder: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every part of the file of releases: its kind, its name, and what it says."""
    for name in NAMES:
        found = published(in_directory(name, folder))
        if name not in KEPT:
            found = in_memory(name, folder) | found
        if name in MEASURED:
            found["estimate"] = content(hc.read_release(estimated(name, folder)))
        yield "cases", name, found
    for name in CASES["tables"]:
        yield "tables", name, tables(name, folder / "tables")


def golden(file: str) -> Parts:
    """What was written down."""
    path = HERE / f"{file}.toml"
    return tomllib.loads(path.read_text("utf-8")) if path.exists() else {}


def main() -> None:
    """Compare, and write what may be written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", nargs="*", metavar="NAME")
    named = parser.parse_args().write
    logging.disable()  # seeds, and lists that are read from the data, are meant here
    made: dict[str, Parts] = {}
    refused: list[str] = []
    for file, make in (("words", all_words), ("releases", releases)):
        before, after = golden(file), made.setdefault(file, {})
        with TemporaryDirectory() as folder:
            for kind, name, said in make(Path(folder)):
                old = before.get(kind, {}).pop(name, None)
                after.setdefault(kind, {})[name] = said
                if old == said or (old is None and named is not None):
                    continue
                changed = [key for key in said if (old or {}).get(key) != said[key]]
                sys.stdout.write(f"{file}: {name}: {', '.join(changed) or 'less'} changed\n")
                refused += [name] if not {file, name} & {*(named or ())} else []
        for name in (name for several in before.values() for name in several):
            sys.stdout.write(f"{file}: {name}: gone\n")
            refused += [name] if not {file, name} & {*(named or ())} else []
    if refused and named is not None:
        sys.exit("found changes that are not named, expected none: nothing was written")
    for file, parts in made.items() if named is not None else ():
        (HERE / f"{file}.toml").write_text(written(parts, ABOUT[file]), "utf-8")


def written(parts: Parts, about: str) -> str:
    """The file of some parts."""
    lines = [f"# {about}\n"]
    for kind, several in parts.items():
        for name, said in several.items():
            lines.append(f'[{kind}."{name}"]')
            lines += [f"{_key(key)} = {_value(value)}" for key, value in said.items()]
            lines.append("")
    return "\n".join(lines)


def _key(key: str) -> str:
    return key if key.replace("_", "").isalnum() else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[\n" + "".join(f"  {_value(one)},\n" for one in value) + "]"
    literal = {"'", '"'} & {*value} and "'''" not in value and not value.endswith("'")
    return f"'''{value}'''" if literal else json.dumps(value)


if __name__ == "__main__":
    main()
