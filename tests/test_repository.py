"""Checks on the repository itself: one version, clean files, one-way imports, a light import."""

import ast
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import headcount
from tests import conftest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (ROOT / "src", ROOT / "papers" / "src")
SOURCES = sorted(path for one in PACKAGES for path in one.rglob("*.py"))
WITH_BENCHMARKS = [*SOURCES, *sorted((ROOT / "benchmarks").rglob("*.py"))]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HEAVY = {
    *("altair", "clarabel", "cryptography", "flint", "highspy", "jinja2"),
    *("numba", "piqp", "polars", "pyarrow", "pydantic"),
    *("rich", "scipy", "typer", "vl_convert"),
}
# Written in pieces, so that this file does not contain what it forbids.
PRIVATE_PLACES = re.compile(
    r"(?<![\w.~])/(?:work|tm" + r"p|root|home)(?:/|\b)"
    r"|pypi\." + r"org|python" + r"hosted|--?(?:extra-)?index" + r"-url|find" + r"-links"
)


def tracked() -> list[Path]:
    """Return every file under version control that is present."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so there is no list of tracked files")
    # The checkout may belong to another user than the one who runs the tests.
    git = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z"]
    names = subprocess.run(git, check=True, capture_output=True, text=True).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


LOCKS = ("lock.txt", "dev.txt", "spark.txt", "tools.txt")
PIN = re.compile(r"([a-z0-9-]+)==([0-9][0-9a-z.]*)(?: ; [^\\\n]+)? \\\n")
HASHES = re.compile(r"(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+")


def pins(*locks: str) -> dict[str, str]:
    """Return project name -> version; a pin without hashes or any other line is an error."""
    found: dict[str, str] = {}
    for lock in locks or ("lock.txt", "dev.txt", "spark.txt"):
        rest = (ROOT / "requirements" / lock).read_text().split("\n", 1)[1]
        while rest:
            pin = PIN.match(rest)
            assert pin is not None, f"{lock}: no pin: {rest[:80]!r}"
            hashes = HASHES.match(rest, pin.end())
            assert hashes is not None, f"{lock}: {pin[1]} has no hashes"
            assert pin[1] not in found, f"{lock}: {pin[1]} a second time"
            found[pin[1]], rest = pin[2], rest[hashes.end() :]
    return found


# --- one version -----------------------------------------------------------------------------


def test_version_is_written_once_and_repeated_truly() -> None:
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    assert PYPROJECT["tool"]["hatch"]["version"]["path"] == "src/headcount/_version.py"
    papers = (ROOT / "papers/src/headcount_papers/_version.py").read_text()
    assert f'__version__ = "{headcount.__version__}"' in papers
    depends = tomllib.loads((ROOT / "papers/pyproject.toml").read_text())["project"]
    assert depends["dependencies"] == [f"headcount=={headcount.__version__}"]
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M)
    changelog = re.search(r"^## (\d\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    in_r = re.search(r"^Version: (\S+)$", (ROOT / "r/headcount/DESCRIPTION").read_text(), re.M)
    assert citation is not None
    assert changelog is not None
    assert in_r is not None
    assert headcount.__version__ == citation[1] == changelog[1] == in_r[1]


def test_installed_version_is_the_source_version() -> None:
    try:
        installed = importlib.metadata.version("headcount")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("headcount is on the path but not installed")
    assert installed == headcount.__version__


# --- locked versions -------------------------------------------------------------------------


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_has_only_exact_pins_with_hashes(lock: str) -> None:
    assert all(name == canonicalize_name(name) for name in pins(lock))


def test_locks_of_one_environment_share_nothing() -> None:
    assert len(pins("lock.txt", "dev.txt")) == len(pins("lock.txt")) + len(pins("dev.txt"))


def test_what_runs_and_what_builds_is_in_the_first_lock() -> None:
    first = pins("lock.txt")
    needed = [*PYPROJECT["project"]["dependencies"], *PYPROJECT["build-system"]["requires"]]
    assert {canonicalize_name(Requirement(line).name) for line in needed} <= set(first)
    assert "editables" in first  # the backend's need for an editable install
    assert {"pytest", "ruff", "opendp"}.isdisjoint(first)


def test_pip_refuses_a_file_with_another_hash(tmp_path: Path) -> None:
    version = pins()["mdurl"]
    (tmp_path / f"mdurl-{version}-py3-none-any.whl").write_bytes(b"not what was locked")
    lock = (ROOT / "requirements/lock.txt").read_text()
    part = re.search(r"^mdurl==.*\n(?:    --hash.*\n)+", lock, re.M)
    assert part is not None
    (tmp_path / "one.txt").write_text(part[0])
    install = [sys.executable, "-m", "pip", "--isolated", "install", "--no-index", "--no-deps"]
    places = ["--find" + "-links", str(tmp_path), "--target", str(tmp_path / "to")]
    result = subprocess.run(
        [*install, *places, "--require-hashes", "-r", str(tmp_path / "one.txt")],
        capture_output=True,
        text=True,
    )
    assert result.returncode != 0
    assert "DO NOT MATCH THE HASHES" in result.stderr
    assert not (tmp_path / "to").exists()


def test_every_declared_dependency_is_locked_within_its_bounds() -> None:
    project = PYPROJECT["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    locked = pins()
    for line in [*PYPROJECT["build-system"]["requires"], *project["dependencies"], *extras]:
        wanted = Requirement(line)
        assert wanted.specifier.contains(locked[canonicalize_name(wanted.name)]), line


@pytest.mark.skipif(
    Path(sys.prefix) != ROOT / ".venv", reason="not the environment that make installs"
)
def test_installed_versions_are_the_locked_ones() -> None:
    found = {str(canonicalize_name(d.name)): d.version for d in importlib.metadata.distributions()}
    unlocked = {"headcount", "headcount-papers", "pip"}
    installed = {name: version for name, version in found.items() if name not in unlocked}
    locked = pins()
    assert installed == {name: locked.get(name) for name in installed}


# --- clean files -----------------------------------------------------------------------------


def test_no_tracked_file_is_large() -> None:
    large = {str(p.relative_to(ROOT)): p.stat().st_size for p in tracked()}
    assert {name: size for name, size in large.items() if size > 1 << 20} == {}


def test_no_tracked_text_names_a_private_place() -> None:
    found = []
    for path in tracked():
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue  # a picture or a Parquet file
        for number, line in enumerate(lines, start=1):
            if PRIVATE_PLACES.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert found == []


@pytest.mark.parametrize(
    ("line", "caught"),
    [
        ("see /wor" + "k/x", True),
        ('out = "/tm' + 'p/run"', True),
        ("pip install --index" + "-url x", True),
        ("https://pypi" + ".org/simple", True),
        ("the work and/or the temporary folder", False),
        ("https://example.net/work/temp", False),
    ],
)
def test_private_places_pattern(line: str, caught: bool) -> None:
    assert bool(PRIVATE_PLACES.search(line)) == caught


def printing_lines(source: str) -> list[int]:
    """Return the lines that call the built-in print; a console object's print is no such call."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]


def test_every_python_that_is_started_leaves_the_folder_it_works_in_alone() -> None:
    """By -P; Spark starts its own, and is told so in its environment."""
    found = [line for path in WITH_BENCHMARKS for line in path.read_text("utf-8").splitlines()]
    starts = [line.strip() for line in found if "sys.executable" in line]
    assert len(starts) > 5
    assert [one for one in starts if not re.search(r'"-u?P"|PYSPARK_PYTHON', one)] == []


def test_library_never_prints() -> None:
    assert printing_lines("x = 1\nprint(x)\nconsole.print(x)") == [2]
    printing = {str(p): printing_lines(p.read_text()) for p in WITH_BENCHMARKS}
    assert {path: found for path, found in printing.items() if found} == {}


# --- one-way imports -------------------------------------------------------------------------

ROOMS = (
    *("cli", "run", "comparison", "config", "report", "evaluation", "mechanisms", "attacks"),
    *("release", "privacy", "noise", "solve", "topdown", "tabulate", "population", "schema"),
    *("geography", "engines", "storage", "testing", "init", "studio"),
    *("topdown/linear", "topdown/measurements", "topdown/solve"),
)
FILES = (
    *("__main__", "_version", "addresses", "api", "arrays", "compiled", "domain", "draws"),
    *("errors", "fields", "files", "loops", "processes", "registry", "typed"),
)
ALLOWED = {
    "cli/compare.py": "import headcount.run.protect",
    "studio/run.py": "import headcount.run.protect",
    "comparison/sweep.py": "import headcount.report, headcount.config, headcount.mechanisms",
    "evaluation/error.py": "from headcount.release import store",
    "mechanisms/raked.py": "import headcount.engines, headcount.population",
    "engines/spark.py": "import headcount.engines, headcount.storage",
    "attacks/linkage.py": "import headcount.release",
    "topdown/measurements/noisy.py": "import headcount.release",
    "release/store.py": "import headcount.tabulate",
    "tabulate/counts.py": "import headcount.population",
    "noise/streams.py": "import headcount.privacy",
}
FORBIDDEN = {
    "schema/bad.py": "def f():\n    from headcount.population import x",
    "population/bad.py": "import headcount.tabulate",
    "noise/bad.py": "import headcount.release",
    "solve/bad.py": "import headcount.release",
    "release/bad.py": "import headcount.mechanisms",
    "attacks/worse.py": "import headcount.topdown",
    "topdown/measurements/bad.py": "import headcount.mechanisms",
    "topdown/linear/bad.py": "import headcount.release",
    "mechanisms/bad.py": "import headcount.attacks",
    "mechanisms/worse.py": "from headcount.engines import spark",
    "attacks/bad.py": "import headcount.evaluation",
    "evaluation/bad.py": "import headcount.comparison",
    "report/bad.py": "import headcount.comparison",
    "config/bad.py": "import headcount.run",
    "comparison/bad.py": "import headcount.run",
    "comparison/worse.py": "import headcount.engines.spark",
    "run/bad.py": "import headcount.cli",
    "studio/bad.py": "import headcount.cli",
    "cli/bad.py": "import headcount.testing",
}


def write_package(folder: Path, modules: dict[str, str]) -> None:
    """Write a package with every room and the given modules."""
    for room in ROOMS:
        (folder / "headcount" / room).mkdir(parents=True, exist_ok=True)
        (folder / "headcount" / room / "__init__.py").touch()
    for name in ("__init__", *FILES):
        (folder / "headcount" / f"{name}.py").touch()
    for name, source in modules.items():
        (folder / "headcount" / name).write_text(source + "\n")
    shutil.copy(ROOT / "pyproject.toml", folder)


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter with the project's own contracts on the package in the folder."""
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache", "--no-logo"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )


def test_import_contracts_allow_the_design(tmp_path: Path) -> None:
    write_package(tmp_path, ALLOWED)
    result = lint_imports(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_import_contracts_fire_on_every_wrong_direction(tmp_path: Path) -> None:
    write_package(tmp_path, ALLOWED | FORBIDDEN)
    result = lint_imports(tmp_path)
    assert result.returncode == 1
    reported = set(re.findall(r"headcount\.([\w.]+\.(?:bad|worse)) ->", result.stdout))
    assert reported == {name.removesuffix(".py").replace("/", ".") for name in FORBIDDEN}


def test_a_room_or_file_without_a_place_breaks_the_contract(tmp_path: Path) -> None:
    write_package(tmp_path, ALLOWED | {"attic.py": ""})
    result = lint_imports(tmp_path)
    assert result.returncode == 1
    assert "attic" in result.stdout


def truth_imported_by_attacks(graph: grimp.ImportGraph) -> set[tuple[str, str]]:
    """Return each direct import of the population room by the attacks room."""
    return {
        (importer, imported)
        for importer in graph.modules
        if f"{importer}.".startswith("headcount.attacks.")
        for imported in graph.find_modules_directly_imported_by(importer)
        if f"{imported}.".startswith("headcount.population.")
    }


def test_attacks_never_import_population() -> None:
    graph = grimp.build_graph("headcount", cache_dir=None)
    assert len(graph.modules) > len(SOURCES) / 2, "the graph is not that of the source tree"
    assert truth_imported_by_attacks(graph) == set()


def test_attacks_importing_population_would_be_seen() -> None:
    graph = grimp.ImportGraph()
    for importer in ("headcount.attacks", "headcount.attacks.linkage", "headcount.evaluation"):
        graph.add_import(importer=importer, imported="headcount.population.microdata")
    assert truth_imported_by_attacks(graph) == {
        ("headcount.attacks", "headcount.population.microdata"),
        ("headcount.attacks.linkage", "headcount.population.microdata"),
    }


def packages_imported(source: str) -> set[str]:
    """Return the first two parts of every name that a module imports, wherever it does."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom) and node.module in ("tests", "benchmarks"):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = getattr(node.func, "id", getattr(node.func, "attr", ""))
            names = [str(node.args[0].value)] if function == "import_module" else []
        found |= {".".join(name.split(".")[:2]) for name in names}
    return found


def imports_outside(folder: Path, *, allowed: tuple[str, ...]) -> dict[str, set[str]]:
    """Return for each module of a folder what it imports of tests and benchmarks, but for some."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        lab = {
            name
            for name in packages_imported(path.read_text(encoding="utf-8"))
            if name.split(".")[0] in ("benchmarks", "tests") and not name.startswith(allowed)
        }
        if lab:
            found[path.relative_to(folder).as_posix()] = lab
    return found


def test_what_is_installed_imports_neither_tests_nor_benchmarks() -> None:
    assert imports_outside(ROOT / "src", allowed=()) == {}
    wheel = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"packages": ["src/headcount"]}


def test_benchmarks_import_of_tests_only_what_is_shared() -> None:
    assert imports_outside(ROOT / "benchmarks", allowed=("benchmarks", "tests.support")) == {}
    assert imports_outside(ROOT / "tests/support", allowed=("tests.support",)) == {}


def test_no_test_but_those_of_benchmarks_imports_them() -> None:
    found = imports_outside(ROOT / "tests", allowed=("tests.",))
    assert {name for name in found if not name.startswith("benchmarks/")} == set()
    assert "benchmarks/test_bench.py" in found


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("import benchmarks", "benchmarks"),
        ("import tests.fuzz.base", "tests.fuzz"),
        ("from tests import conftest", "tests.conftest"),
        ("def f():\n    from benchmarks.noise import LAWS", "benchmarks.noise"),
        ("import_module('benchmarks.noise')", "benchmarks.noise"),
    ],
)
def test_an_import_of_tests_or_benchmarks_is_seen(line: str, seen: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(line)
    (tmp_path / "good.py").write_text("from headcount.testing import contracts, warm")
    assert imports_outside(tmp_path, allowed=()) == {"bad.py": {seen}}


# --- a light import --------------------------------------------------------------------------


def loaded_by(statement: str) -> set[str]:
    """Return the top-level modules present after the statement in a fresh interpreter."""
    program = f"{statement}; import sys; sys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_import_headcount_loads_nothing_heavy() -> None:
    assert "jinja2" in loaded_by("import headcount, jinja2"), "the probe must see a heavy import"
    assert loaded_by("import headcount") & HEAVY == set()


# --- the two commands ------------------------------------------------------------------------


def run_make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of the Makefile in an empty folder."""
    shutil.copy(ROOT / "Makefile", folder)
    return subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True)


def test_make_names_its_targets(tmp_path: Path) -> None:
    listed = re.findall(r"^  make (\w+)", run_make(tmp_path).stdout, re.M)
    assert {"demo", "test", "lint", "docs", "bench", "fuzz", "lock", "sbom", "clean"} <= set(listed)


def test_make_refuses_an_old_python(tmp_path: Path) -> None:
    old = tmp_path / "python3.10"
    program = "import sys; sys.version_info = (3, 10, 9); exec(sys.argv[1])"
    old.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{program}" "$2"\n')
    old.chmod(0o755)
    result = run_make(tmp_path, ".venv/.created", f"PYTHON={old}")
    assert result.returncode != 0
    assert "headcount needs Python 3.11 or newer" in result.stderr
    assert not (tmp_path / ".venv").exists()


def test_make_says_when_there_is_no_python(tmp_path: Path) -> None:
    result = run_make(tmp_path, ".venv/.created", "PYTHON=")
    assert result.returncode != 0
    assert "found none on the path" in result.stderr


def test_ci_refuses_to_skip_the_browser(tmp_path: Path) -> None:
    bash, dirname = shutil.which("bash"), shutil.which("dirname")
    assert bash is not None
    assert dirname is not None
    (tmp_path / "dirname").symlink_to(dirname)
    result = subprocess.run(
        [bash, str(ROOT / ".ci/run")], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert result.returncode == 1
    assert "missing: make chromium" in result.stderr
    assert os.access(ROOT / ".ci/run", os.X_OK)


@pytest.mark.parametrize(
    ("reason", "mark", "outcome"),
    [
        ("spark: no PySpark", None, "failed"),
        ("browser: report not opened: no browser on the path", "spark", "failed"),
        ("spark: no PySpark", "spark", "skipped"),
        ("file modes are POSIX", None, "skipped"),
    ],
)
def test_what_is_skipped_for_want_of_a_browser_or_spark_is_marked(
    request: pytest.FixtureRequest, reason: str, mark: str | None, outcome: str
) -> None:
    if mark is not None:
        request.node.add_marker(mark)
    call = pytest.CallInfo.from_call(lambda: pytest.skip(reason), "call")
    report = pytest.TestReport.from_item_and_call(request.node, call)
    assert report.skipped
    judged = conftest.pytest_runtest_makereport(request.node, call)
    next(judged)
    with pytest.raises(StopIteration) as ended:
        judged.send(report)
    assert ended.value.value.outcome == outcome
