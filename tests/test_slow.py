"""The list of slow tests names tests that exist, and puts their files first."""

import re
from types import SimpleNamespace

import pytest

from tests import slow
from tests.conftest import pytest_collection_modifyitems
from tests.slow import ROOT, listed, slow_tests

JUNIT = """<testsuites><testsuite>
<testcase classname="tests.test_files" name="test_a" time="0.1"/>
<testcase classname="tests.test_slow" name="test_b[one::two]" time="40"/>
<testcase classname="tests.test_slow" name="test_b[three]" time="40"/>
<testcase classname="tests.test_slow" name="test_c" time="0.01"/>
<testcase classname="tests.papers.test_christ_2022_directory" name="test_d" time="9"/>
<testcase classname="tests.papers.test_christ_2022_directory" name="test_e" time="0"/>
</testsuite></testsuites>"""


def unknown(lines: list[str]) -> list[str]:
    """Which lines name no test."""
    return [
        line
        for line in lines
        for file, _, name in [line.partition("::")]
        if not (ROOT / file).is_file()
        or (name and not re.search(rf"def {name}\(", (ROOT / file).read_text(encoding="utf-8")))
    ]


def test_every_line_names_a_test_that_is_there():
    assert len(listed()) > 100
    assert unknown(listed()) == [], "write the list anew: python -m tests.slow JUNIT.xml"


def test_a_line_that_names_nothing_is_found():
    here = "tests/test_slow.py"
    assert unknown([f"{here}::test_gone", "tests/test_gone.py", here, f"{here}::unknown"]) == [
        f"{here}::test_gone",
        "tests/test_gone.py",
    ]


def test_the_list_is_made_from_the_times_of_a_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slow, "OF_ALL", 0.05)
    assert slow_tests(JUNIT) == [
        "tests/test_slow.py::test_b",
        "tests/papers/test_christ_2022_directory.py",
    ]


def test_slow_tests_are_marked_and_their_files_come_first(monkeypatch: pytest.MonkeyPatch):
    marked = []

    def item(name: str) -> SimpleNamespace:
        return SimpleNamespace(nodeid=name, add_marker=lambda mark: marked.append((name, mark)))

    monkeypatch.setattr("tests.conftest.listed", lambda: ["tests/b.py::test_x", "tests/c.py"])
    items = [
        item(name)
        for name in (
            *("tests/a.py::test_x", "tests/c.py::test_1", "tests/c.py::test_2[c]"),
            *("tests/b.py::test_x[a::b]", "tests/b.py::test_y"),
        )
    ]
    pytest_collection_modifyitems(items)  # type: ignore[arg-type]
    assert [one.nodeid for one in items] == [
        *("tests/b.py::test_x[a::b]", "tests/b.py::test_y"),
        *("tests/c.py::test_1", "tests/c.py::test_2[c]", "tests/a.py::test_x"),
    ]
    assert sorted(marked) == [
        (name, "slow")
        for name in ("tests/b.py::test_x[a::b]", "tests/c.py::test_1", "tests/c.py::test_2[c]")
    ]
