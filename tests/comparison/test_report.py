"""A report from a template: every kind of block, and mistakes that are named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from headcount.comparison.study import Findings, Study, StudySettings
from headcount.comparison.template import _plural, cell, listed, shown, write_text
from headcount.errors import ConfigError, InputError
from headcount.report.model import (
    Callout,
    Figure,
    KeyNumbers,
    Prose,
    Report,
    Subheading,
    Table,
    gather_provenance,
)
from tests.comparison.made_up import NAME, PACKAGE, made_up_study

TEXT = """# A title of {{ facts.size }}

A subtitle
over two lines

## Summary

First {{ -1.5 | shown(".1f") }}
paragraph.

Second, with

- an item
  of two lines
- another

{{ number("1", "one", "people") }}
{{ number("2", "two") }}

> [!KEY FINDING]
> It **is**
> so.

## What was done

{{ figure("errors") }}

### Inside

{{ table("counts") }}

## Limits

> [!WARNING]
> None.

Prose after it.
"""
LIST = """
[columns]
name = "Name"
count = { label = "Count", unit = "people", format = ",d" }

[axes]
size = { column = "count", title = "People", ticks = [1, 10] }

[controls]
place = "Place"

[tables.counts]
caption = "Of {{ facts.size }}\\npeople."
columns = ["name", { key = "count", label = "Number" }]

[figures.errors]
frame = "view"
chart = "line"
x = { like = "size", scale = "log" }
y = { column = "error", title = "Error" }
series = "name"
controls = [{ column = "place", initial = "here" }]
references = [{ label = "ten", y = "{{ 10 }}" }]
caption = "A caption."
alt = "A line."
"""


VIEWS = """import polars as pl
VIEWS = {"view": lambda found: found.tables["counts"].with_columns(place=pl.lit("here"))}
"""


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Callable[..., Report]]:
    """Make the report of a study whose package is a few files."""
    with made_up_study(tmp_path, {"report.py": VIEWS}) as package:

        def made(text: str = TEXT, toml: str = LIST) -> Report:
            (package / "report.md").write_text(text, encoding="utf-8")
            (package / "report.toml").write_text(toml, encoding="utf-8")
            counts = pl.DataFrame({"name": ["a", "b"], "count": [1, 2000], "error": [1.0, 2.0]})
            return write_text(
                Study(name=NAME, package=PACKAGE, title="", about="", settings=StudySettings),
                Findings(
                    settings=StudySettings(),
                    tables={"counts": counts},
                    confidential=True,
                    facts={"size": 2001},
                ),
                provenance=gather_provenance(recipe="headcount study some-2000", seeds=[1]),
            )

        yield made


def test_a_template_becomes_typed_blocks(write):
    made = write()
    assert made.title == "A title of 2001"
    assert made.subtitle == "A subtitle over two lines"
    assert made.confidential
    prose, numbers, finding = made.summary
    assert prose == Prose(
        "First \N{MINUS SIGN}1.5 paragraph.\n\nSecond, with\n\n- an item of two lines\n- another"
    )
    assert [(n.value, n.label, n.unit) for n in numbers.numbers] == [
        ("1", "one", "people"),
        ("2", "two", ""),
    ]
    assert finding == Callout("key finding", "It **is** so.")
    (section,) = made.sections
    assert section.title == "What was done"
    assert [type(block) for block in section.blocks] == [Figure, Subheading, Table]
    assert [type(block) for block in made.limits] == [Callout, Prose]
    assert isinstance(numbers, KeyNumbers)


def test_tables_and_figures_come_from_the_list(write):
    figure, _, table = write().sections[0].blocks
    assert table.caption == "Of 2001 people."
    assert [(c.key, c.label, c.unit) for c in table.columns] == [
        ("name", "Name", ""),
        ("count", "Number", "people"),
    ]
    spec = figure.chart.to_dict()
    assert "here" in [one.get("value") for one in spec["params"]]
    scale = spec["layer"][0]["layer"][0]["encoding"]["x"]["scale"]
    assert scale["type"] == "log"


def test_limits_cannot_be_left_out(write):
    with pytest.raises(InputError, match="report limits: found"):
        write(TEXT.replace("## Limits", "## Others"))


@pytest.mark.parametrize(
    ("text", "toml", "said"),
    [
        ('figure("errors")', 'figure("error")', "figure: found 'error', expected one of errors"),
        ('frame = "view"', 'frame = "views"', "view or table: found 'views', expected one of view"),
        ('chart = "line"', 'chart = "pie"', "chart: found 'pie', expected one of line, point"),
    ],
)
def test_a_wrong_name_is_named(text: str, toml: str, said: str, write):
    with pytest.raises(ConfigError, match=f"some_2000/report.toml: {said}"):
        write(TEXT.replace(text, toml), LIST.replace(text, toml))


def test_words_for_numbers():
    assert shown(-1234.5, ",.1f") == "\N{MINUS SIGN}1,234.5"
    assert listed([]) == ""
    assert listed(["a", "b", "c"], "or") == "a, b or c"
    assert [_plural(n, "county", "counties") for n in (1, 2000)] == ["1 county", "2,000 counties"]


def test_one_cell_of_a_table():
    frame = pl.DataFrame({"id": ["a", "b", "b"], "holds": ["yes", "no", "not judged"]})
    assert cell(frame, "holds", id="a") == "yes"
    assert cell(frame, "holds", id="b") is None
