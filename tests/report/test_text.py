"""A report as plain text: everything that it says, without marks and in narrow lines."""

from __future__ import annotations

from dataclasses import replace

from headcount.report.model import (
    Callout,
    Column,
    KeyNumber,
    KeyNumbers,
    Prose,
    Provenance,
    Report,
    Section,
    Subheading,
    Table,
)
from headcount.report.text import render_text

COLUMNS = (
    Column(key="what", label="What is counted here"),
    Column(key="n", label="People", unit="of all ages", format=",d"),
)
TABLE = Table(
    name="some",
    caption="**Some** numbers.",
    columns=COLUMNS,
    rows=(("a", 7), ("bb", 1234), ("c", None)),
    groups=("first", "first", "second"),
    notes="Read *this*, with `code`.",
)
REPORT = Report(
    title="A title",
    subtitle="and more",
    summary=(
        KeyNumbers((KeyNumber(value="7", unit="%", label="of it"),)),
        Callout("warning", "**Look** out " + "word " * 30),
        Callout("key finding", "Found."),
    ),
    sections=(Section(title="First", blocks=(Subheading("inside"), Prose("- one\n- two"), TABLE)),),
    limits=(Prose("An end of 2*3*4 and snake_case."),),
    provenance=Provenance(recipe="r", versions=(), seeds=(), date="d", machine="m"),
    confidential=False,
)


def test_all_that_is_said_is_there_without_marks():
    text = render_text(REPORT)
    assert text.startswith("A title\n=======\n\nand more\n\n7 %: of it\n")
    assert "  | WARNING: Look out word" in text
    assert "  | Found." in text
    assert "INSIDE\n\n- one\n- two\n\nSome numbers." in text
    assert "2*3*4 and snake_case." in text
    assert "Read this, with code." in text
    assert max(map(len, text.splitlines())) <= 80


def test_numbers_stand_under_each_other_below_their_group():
    lines = render_text(REPORT).splitlines()
    start = lines.index("first:")
    assert lines[start - 3 : start + 5] == [
        "What is counted  People (of all",
        "here                      ages)",
        "---------------  --------------",
        "first:",
        "a                             7",
        "bb                        1,234",
        "second:",
        "c                             –",
    ]


def test_what_is_confidential_says_so_first():
    first = render_text(replace(REPORT, confidential=True)).splitlines()[0]
    assert first == "CONFIDENTIAL: computed from confidential data, not protected, do not publish."
