"""Build what can be released, twice, and try it where nothing else is: ``make dist``.

Both distributions as wheel and source archive. The bytes of two builds are equal; a wheel has each
file of its package under version control and no other, with licence and types; ``twine`` accepts
the description. Then the wheels are installed into a new environment of every supported Python that
is found, with locked dependencies, and ``headcount demo`` and a release are made there.
"""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECTS = {"headcount": ROOT, "headcount_papers": ROOT / "papers"}
OLDEST, NEWEST = 11, 14
SMOKE = """
import headcount as hc
people = hc.uniform(people=1_000, depth=1, mean=100, seed=1)
release = hc.protect(people, hc.TopDown(epsilon=1, unit="add-remove"))
assert release.guarantee.sentences()[0].startswith("Differential privacy: epsilon 1 ")
assert hc.evaluate(release, people)["error"].table.height
"""


def run(*command: object, cwd: Path = ROOT, **more: str) -> str:
    """What a command prints; its failure ends all."""
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env={**os.environ, **more}, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}\nfailed: {' '.join(map(str, command))}")
    return done.stdout


def say(text: str) -> None:
    """A line for whoever waits."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def tracked(folder: Path) -> set[str]:
    """Files of a folder under version control, by their paths in it."""
    return set(run("git", "ls-files", cwd=folder).splitlines())


def build(folder: Path) -> list[Path]:
    """Wheels and source archives of both distributions, dated by the last commit."""
    date = run("git", "log", "-1", "--format=%ct").strip()
    for project in PROJECTS.values():
        command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist")
        run(*command, "-d", folder, cwd=project, SOURCE_DATE_EPOCH=date)
    return sorted(folder.iterdir())


def refuse_other_bytes(first: list[Path], again: Path) -> None:
    """Two builds are equal to the byte."""
    for one in first:
        if not filecmp.cmp(one, again / one.name, shallow=False):
            raise SystemExit(f"{one.name}: found other bytes in a second build, expected the same")


def refuse_other_files(archive: Path) -> None:
    """What an archive holds: all that is under version control and belongs in it, nothing else."""
    name = re.split(r"-\d", archive.name)[0]
    project = PROJECTS[name]
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            inside = {one for one in wheel.namelist() if not one.endswith("/")}
        meta = {one for one in inside if one.split("/")[0].endswith(".dist-info")}
        licences = sum(one.endswith("/licenses/LICENSE") for one in meta)
        found = inside - meta
        expected = {f"{name}/{one}" for one in tracked(project / "src" / name)}
        if licences != 1 or f"{name}/py.typed" not in inside:
            raise SystemExit(f"{archive.name}: found no licence or no py.typed, expected both")
    else:
        with tarfile.open(archive) as source:
            members = [one.name for one in source.getmembers() if one.isfile()]
        found = {one.split("/", 1)[1] for one in members} - {"PKG-INFO", ".gitignore"}
        everything = tracked(project)
        expected = found & everything | {"pyproject.toml", "LICENSE", "README.md"}
        expected |= {one for one in everything if one.startswith("src/")}
    if found != expected:
        raise SystemExit(
            f"{archive.name}: found besides {sorted(found - expected)[:5]}, "
            f"and not {sorted(expected - found)[:5]}"
        )


def pythons() -> list[str]:
    """Every supported Python that runs here: on the path, or kept by pyenv."""
    found = {}
    for minor in range(OLDEST, NEWEST + 1):
        kept = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
        for one in [f"python3.{minor}", *map(str, kept)]:
            code = f"import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, {minor}))"
            try:
                works = subprocess.run([one, "-c", code], capture_output=True).returncode == 0
            except OSError:
                continue
            if works:
                found.setdefault(minor, one)
    return list(found.values())


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(one.stat().st_size for one in folder.rglob("*") if not one.is_symlink())


def try_out(python: str, wheels: list[Path]) -> str:
    """Install into a new environment and make a demo and a release; what it took, in words."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(python, "-m", "venv", folder / "env")
        bare = size_of(folder / "env")
        inside = folder / "env" / "bin" / "python"
        pip = (inside, "-m", "pip", "install", "--quiet", "--no-deps")
        run(*pip, "--require-hashes", "--requirement", ROOT / "requirements" / "lock.txt")
        run(*pip, "--no-index", *wheels)
        size = size_of(folder / "env") - bare
        run(folder / "env" / "bin" / "headcount", "demo", cwd=folder, XDG_CACHE_HOME=name)
        run(inside, "-P", "-c", SMOKE, cwd=folder, XDG_CACHE_HOME=name)
        version = run(inside, "-V").strip()
    return f"{version}: installed {size >> 20:,} MiB, demo and release made"


def main(out: Path, twine: str) -> None:
    """Build, check and try out."""
    shutil.rmtree(out, ignore_errors=True)
    made = build(out)
    with tempfile.TemporaryDirectory() as again:
        build(Path(again))
        refuse_other_bytes(made, Path(again))
    for one in made:
        refuse_other_files(one)
        say(f"{one.name}: {one.stat().st_size:,} bytes, twice the same; contents as expected")
    say(run(twine, "--no-color", "check", "--strict", *made).strip())
    wheels = [one for one in made if one.suffix == ".whl"]
    for python in pythons():
        say(try_out(python, wheels))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
