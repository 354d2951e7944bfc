"""Content is checked when it is made."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import polars as pl
import pytest

from headcount.errors import InputError
from headcount.report.model import (
    Callout,
    Column,
    Figure,
    KeyNumber,
    KeyNumbers,
    Prose,
    Provenance,
    Report,
    Section,
    Table,
    table_from_frame,
)
from tests.report.sample import PROVENANCE, sample_report

NUMBER = Column(key="n", label="People", format=",.0f")
PLACE = Column(key="place", label="Place")


def small_table(**changes) -> Table:
    values = {"name": "t", "caption": "c", "columns": (PLACE, NUMBER), "rows": (("A", 1),)}
    return Table(**{**values, **changes})


def test_limits_and_confidential_have_no_default():
    values = {f.name: getattr(sample_report(), f.name) for f in fields(Report)}
    for name in ("limits", "confidential"):
        rest = {key: value for key, value in values.items() if key != name}
        with pytest.raises(TypeError, match=f"missing 1 required keyword-only argument: '{name}'"):
            Report(**rest)


def test_limits_may_not_be_empty_or_a_string():
    for limits in ((), "none"):
        with pytest.raises(InputError, match=r"report limits: found .*, expected at least one"):
            replace(sample_report(), limits=limits)  # type: ignore[arg-type]


def test_content_is_frozen():
    with pytest.raises(FrozenInstanceError):
        sample_report().title = "other"  # type: ignore[misc]


def test_a_block_must_be_a_block():
    with pytest.raises(InputError, match="section 'S': found str, expected a Prose"):
        Section(title="S", blocks=("text",))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Prose(" "), "prose: text: found ' ', expected some text"),
        (lambda: Callout("note", ""), "callout: text"),
        (lambda: Callout("alarm", "x"), "kind: found 'alarm', expected 'note', 'warning'"),  # type: ignore[arg-type]
        (lambda: KeyNumbers(()), "key numbers: found none"),
        (lambda: KeyNumber(value="1", label=""), "key number '1': label"),
        (lambda: Figure(name="f", caption="c", alt="", chart=None), "figure 'f': alt"),  # type: ignore[arg-type]
        (lambda: Figure(name="f", caption="", alt="a", chart=None), "figure 'f': caption"),  # type: ignore[arg-type]
        (lambda: small_table(name="Big Table"), "name: found 'Big Table', expected lower-case"),
        (lambda: small_table(name="limits"), "name: found 'limits', expected lower-case"),
        (lambda: small_table(rows=(("A", 1), ("B",))), "row 2: found 1 values, expected 2"),
        (lambda: small_table(rows=(("A", "x"),)), "row 1, column 'n': found text, expected a num"),
        (lambda: replace(PROVENANCE, recipe=""), "provenance: recipe"),
    ],
)
def test_each_check_says_what_is_wrong(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_name_is_used_once():
    table = small_table()
    with pytest.raises(InputError, match="found 't' twice, expected each name once"):
        replace(sample_report(), summary=(table, table))


def test_section_titles_are_used_once():
    section = Section(title="What we did", blocks=(Prose("x"),))
    with pytest.raises(InputError, match="found 'What we did' twice"):
        replace(sample_report(), sections=(section, section))


def test_numbers_are_shown_as_their_column_says():
    assert NUMBER.show(1234567) == "1,234,567"
    assert NUMBER.show(-5) == "\N{MINUS SIGN}5"
    assert NUMBER.show(None) == NUMBER.show(float("nan")) == "\N{EN DASH}"
    assert PLACE.show("south-east") == "south-east"


def test_a_table_takes_columns_of_a_frame_in_the_order_asked():
    frame = pl.DataFrame({"n": [3, None], "other": [0, 0], "place": ["A", "B"]})
    table = table_from_frame(frame, name="t", caption="c", columns=[PLACE, NUMBER])
    assert table.rows == (("A", 3), ("B", None))
    with pytest.raises(InputError, match="column 'x': found a frame with n, other, place"):
        table_from_frame(frame, name="t", caption="c", columns=[Column(key="x", label="X")])


def test_provenance_survives_its_repr():
    assert eval(repr(PROVENANCE), {"Provenance": Provenance}) == PROVENANCE
