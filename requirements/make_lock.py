"""Write the locks: every package that headcount may install, with the hash of each of its files.

Run by ``make lock``. Resolving is uv's work; its lists hold the hashes of every wheel and source
archive that the registry offers of a version, so that one lock serves all platforms and Pythons.
What is needed to use headcount (and to build it) stands in ``lock.txt``, what its tests need beside
that in ``dev.txt``, what the engine spark needs in ``spark.txt``, and the tools that write locks
and the bill of materials, which share no environment with headcount, in ``tools.txt``. Versions
stay unless ``--upgrade`` is given.
"""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
UV = (
    *(sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", "--universal"),
    *("--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate"),
)
HEADERS = {
    "lock.txt": "what headcount needs, and what builds it",
    "dev.txt": "what the tests and the optional extras need beside lock.txt",
    "spark.txt": "what the engine spark needs beside lock.txt",
    "tools.txt": "what writes locks and the bill of materials and checks what is released, "
    "in an environment of its own",
}
BUILD = ("hatchling", "editables", "setuptools")  # setuptools: PySpark comes as source
TOOLS = ("cyclonedx-bom", "twine", "uv")


def resolve(wanted: str, *, kept: str, upgrade: bool) -> dict[str, str]:
    """Each package's lines of a lock by its name; ``kept`` are lines whose versions are liked."""
    liked = FOLDER / ".kept.txt"
    liked.write_text(kept)
    options = ["--output-file", str(liked), *(["--upgrade"] if upgrade else [])]
    try:
        subprocess.run([*UV, *options], input=wanted, text=True, check=True, cwd=FOLDER.parent)
        lines = liked.read_text()
    finally:
        liked.unlink(missing_ok=True)
    return {re.split("==", part, maxsplit=1)[0]: part for part in packages(lines)}


def packages(lines: str) -> list[str]:
    """The parts of a lock: a pinned package and its hashes each."""
    return re.findall(r"^\w[^\n]*==[^\n]*\\\n(?:    --hash[^\n]*\n)+", lines, re.M)


def write(name: str, parts: dict[str, str]) -> None:
    """One lock, sorted by name."""
    head = f"# Exact versions and hashes of {HEADERS[name]}. Made by `make lock`; do not edit.\n"
    (FOLDER / name).write_text(head + "".join(parts[one] for one in sorted(parts)))


def main(project: str, *extras: str, upgrade: bool) -> None:
    """Resolve anew and write the locks."""
    old = {
        name: (FOLDER / name).read_text() if (FOLDER / name).exists() else "" for name in HEADERS
    }
    both = old["lock.txt"] + old["dev.txt"] + old["spark.txt"]
    plain, builders = f"{project}\n", "\n".join(BUILD)
    more = f"{project}[{','.join(extras)}]\n{builders}\n"
    every = resolve(more, kept=both, upgrade=upgrade)
    # The versions of the whole are those of its part.
    part = resolve(plain + builders, kept="".join(every.values()), upgrade=False)
    write("lock.txt", {name: lines for name, lines in every.items() if name in part})
    spark = resolve(f"{project}[spark]\n", kept="".join(every.values()), upgrade=False)
    write("spark.txt", {name: lines for name, lines in spark.items() if name not in part})
    more_than = part | spark
    write("dev.txt", {name: lines for name, lines in every.items() if name not in more_than})
    tools = resolve("\n".join(TOOLS), kept=old.get("tools.txt", ""), upgrade=upgrade)
    write("tools.txt", tools)


if __name__ == "__main__":
    main(
        ".",
        "attack",
        "dev",
        "docs",
        "spark",
        "studio",
        upgrade="--upgrade" in sys.argv,
    )
