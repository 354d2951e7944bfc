"""Tables on a terminal: nothing is cut, whatever its width."""

from __future__ import annotations

import polars as pl
import pytest

from headcount.cli.show import show_table


@pytest.mark.parametrize("width", ["40", "80", "200"])
def test_numbers_names_and_headings_are_whole(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("COLUMNS", width)
    frame = pl.DataFrame(
        {
            "level": ["enumeration_district", "nonmodal unique"],
            **{f"median_absolute_{n}": [123_456_789.0, 0.25] for n in range(4)},
            "counts": [123_456_789, None],
        }
    )
    show_table(frame, title="what is shown")
    said = capsys.readouterr().out
    assert said.count("123,456,789") == 5
    assert said.count("0.25") == 4
    for word in ("enumeration_district", "nonmodal", "unique", "median", "absolute", "counts"):
        assert word in said
    assert "\N{HORIZONTAL ELLIPSIS}" not in said
