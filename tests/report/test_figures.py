"""Charts hold the data asked for, in colours that everyone can tell apart."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.errors import InputError
from headcount.report.figures import (
    Axis,
    Control,
    Reference,
    _bin_values,
    band_chart,
    checked_as_a_whole,
    histogram_chart,
    line_chart,
    point_chart,
)
from headcount.report.heat import _shades, heat_chart
from headcount.report.model import Column, Figure
from headcount.report.specs import (
    STATIC_WIDTH,
    chart_spec,
    legend_of,
    save_figure,
    shown_series,
    svg_of,
)
from headcount.report.theme import (
    DARK,
    DARK_PAPER,
    HEAT,
    INK,
    MECHANISM_LOOKS,
    MUTED,
    OTHER_LOOKS,
    RULE,
    looks_for,
    ordered_series,
)
from tests.report.sample import level_frame

X = Axis(column="epsilon", title="Loss", scale="log")
Y = Axis(column="error", title="Error (people)")

# Machado, Oliveira and Fernandes (2009): how full colour blindness sees linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "protan": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deutan": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritan": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}


def linear_rgb(colour: str) -> np.ndarray:
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(linear: np.ndarray) -> np.ndarray:
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ np.clip(linear, 0, 1) / np.array([0.9505, 1, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def nearest(colours: list[str]) -> float:
    """The smallest CIE76 distance between two colours under any kind of sight."""
    return min(
        float(np.linalg.norm(lab(m @ linear_rgb(a)) - lab(m @ linear_rgb(b))))
        for m in SIGHT.values()
        for a, b in itertools.combinations(colours, 2)
    )


def test_mechanisms_can_be_told_apart_by_everyone():
    colours = [look.colour for look in MECHANISM_LOOKS.values()]
    assert nearest(colours) > 18
    # The check can fail: pure red and green of one lightness are the classic confusion.
    assert nearest([*colours, "#CB5200", "#7A7A00"]) < 18


def test_colours_stand_out_from_paper():
    for look in MECHANISM_LOOKS.values():
        luminance = linear_rgb(look.colour) @ [0.2126, 0.7152, 0.0722]
        assert 1.05 / (0.05 + luminance) > 2.2


def test_colours_on_a_dark_screen_stand_out_and_can_be_told_apart_by_everyone():
    dark = [DARK[look.colour] for look in MECHANISM_LOOKS.values()]
    assert nearest(dark) > 18
    every = [look.colour for look in (*MECHANISM_LOOKS.values(), *OTHER_LOOKS)]
    weights = [0.2126, 0.7152, 0.0722]
    paper = linear_rgb(DARK_PAPER) @ weights
    for colour in [*every, RULE]:
        assert (0.05 + linear_rgb(DARK[colour]) @ weights) / (0.05 + paper) > 3
    for text in (INK, MUTED):
        assert (0.05 + linear_rgb(DARK[text]) @ weights) / (0.05 + paper) > 7


def test_the_mechanisms_of_the_design_have_a_look_of_their_own():
    names = ["geometric", "raked", "averaged", "topdown"]
    names += ["sampling", "swapping", "suppression", "cell-key", "rounding", "identity"]
    assert list(MECHANISM_LOOKS) == names
    assert len({look.colour for look in MECHANISM_LOOKS.values()}) == len(names)
    assert len({look.symbol for look in MECHANISM_LOOKS.values()}) == len(names)


def test_a_series_looks_like_its_mechanism():
    series = ["own", "raked, ε = 0.1", "geometric"]
    assert ordered_series([*series, "own"]) == ["geometric", "raked, ε = 0.1", "own"]
    own, raked, geometric = looks_for(series)
    assert (raked, geometric) == (MECHANISM_LOOKS["raked"], MECHANISM_LOOKS["geometric"])
    assert own not in MECHANISM_LOOKS.values()
    assert looks_for(["rounding, base 3"])[0] == MECHANISM_LOOKS["rounding"]
    assert looks_for(["cell-key, D = 3"])[0] == MECHANISM_LOOKS["cell-key"]
    # Not a mechanism, though it begins like one; and a second raked needs another look.
    assert looks_for(["rakedness"])[0] != MECHANISM_LOOKS["raked"]
    assert len(set(looks_for(["raked, ε = 1", "raked, ε = 2"]))) == 2


def data_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The largest dataset of a specification: that of the chart itself."""
    return max(spec["datasets"].values(), key=len)


def test_charts_hold_the_rows_and_fill_their_column():
    frame = level_frame()
    low = frame.with_columns(low=pl.col("error") * 0.9, high=pl.col("error") * 1.1)
    for chart in (
        line_chart(frame, x=X, y=Y, series="mechanism", points=True),
        point_chart(frame, x=X, y=Y, series="mechanism"),
        band_chart(low, x=X, y=Y, low="low", high="high", series="mechanism"),
    ):
        spec = chart_spec(chart, alt_text="what it shows")
        assert len(data_of(spec)) == frame.height
        assert spec["width"] == "container"
        assert spec["description"] == "what it shows"
        assert chart_spec(chart, static=True)["width"] == STATIC_WIDTH


MUCH: Any = "much"
"""No opacity."""


def test_a_chart_is_checked_when_it_is_written_and_not_before():
    @checked_as_a_whole
    def wrong() -> Any:
        return alt.Chart(level_frame()).mark_point(opacity=MUCH).encode(x="error:Q")

    chart = wrong()
    with pytest.raises(alt.utils.schemapi.SchemaValidationError, match="much"):
        chart_spec(chart)
    with pytest.raises(alt.utils.schemapi.SchemaValidationError, match="much"):
        alt.MarkDef(type="point", opacity=MUCH)  # others' charts are checked part by part


def test_a_figure_is_written_once_for_its_page_and_its_files():
    chart = point_chart(level_frame(), x=X, y=Y, series="mechanism")
    figure = Figure(name="one", caption="**Errors fall.** All.", alt="points", chart=chart)
    assert figure.spec is figure.spec
    for words in ({}, {"alt_text": "points"}, {"static": True, "title": "Errors fall"}):
        assert chart_spec(figure.spec, **words) == chart_spec(chart, **words)
    assert figure.spec == chart_spec(chart)  # and is not changed by it


def test_the_theme_stays_with_headcount():
    before = (alt.theme.active, dict(alt.data_transformers.options))
    spec = chart_spec(point_chart(level_frame(), x=X, y=Y, series="mechanism"))
    assert spec["config"]["legend"]["orient"] == "top"
    assert (alt.theme.active, dict(alt.data_transformers.options)) == before


def test_more_rows_than_altair_allows_by_default():
    frame = pl.DataFrame({"epsilon": np.arange(1.0, 6001.0), "error": 1.0, "mechanism": "raked"})
    spec = chart_spec(point_chart(frame, x=X, y=Y, series="mechanism"))
    assert len(data_of(spec)) == 6000


def test_a_control_offers_the_values_in_their_order():
    control = Control(column="level", label="Level", initial="county")
    spec = chart_spec(point_chart(level_frame(), x=X, y=Y, series="mechanism", controls=[control]))
    parameter = next(p for p in spec["params"] if p["name"] == "choose_level")
    assert parameter["bind"] == {
        "input": "select",
        "name": "Level",
        "options": ["state", "county", "district"],
    }
    assert parameter["value"] == "county"
    assert spec["transform"] == [{"filter": "(datum['level'] === choose_level)"}]


@settings(max_examples=30, deadline=None)
@given(
    values=st.lists(st.integers(-40, 40), min_size=1, max_size=60),
    width=st.sampled_from([1, 3, 5]),
)
def test_a_histogram_counts_every_value(values: list[int], width: int):
    frame = pl.DataFrame({"mechanism": "raked", "residual": [float(v) for v in values]})
    rows = _bin_values(frame, column="residual", bin_width=width, by=["mechanism"]).to_dicts()
    assert sum(row["share"] for row in rows) == pytest.approx(100)
    assert rows[0]["share"] == rows[-1]["share"] == 0
    for row in rows:
        # By brute force; odd widths and whole values leave no value on an edge.
        inside = sum(abs(value - row["middle"]) < width / 2 for value in values)
        assert row["share"] == pytest.approx(100 * inside / len(values))


def test_a_histogram_keeps_shares_of_what_its_domain_leaves_out():
    frame = pl.DataFrame({"mechanism": "raked", "residual": [0.0, 0.0, 0.0, 99.0]})
    axis = Axis(column="residual", title="Residual", domain=(-5, 5))
    rows = data_of(chart_spec(histogram_chart(frame, value=axis, series="mechanism", bin_width=1)))
    assert max(row["share"] for row in rows) == 75
    assert all(-5 <= row["middle"] <= 5 for row in rows)


def test_svg_and_png_are_written_and_say_what_they_show(tmp_path: Path):
    chart = line_chart(level_frame(), x=X, y=Y, series="mechanism")
    save_figure(chart, tmp_path / "deep" / "fig-1.2", alt_text="two lines that fall")
    assert (tmp_path / "deep" / "fig-1.2.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "deep" / "fig-1.2.svg").read_text()
    assert svg.startswith("<svg")
    assert MECHANISM_LOOKS["topdown"].colour in svg
    assert 'aria-label="two lines that fall"' in svg


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda f: point_chart(f, x=X, y=Axis(column="no", title=""), series="mechanism"),
            "point chart: column 'no': found a frame with level, mechanism, epsilon, error",
        ),
        (
            lambda f: line_chart(f.clear(), x=X, y=Y, series="mechanism"),
            "line chart: found an empty frame, expected at least one row",
        ),
        (
            lambda f: histogram_chart(f, value=Y, series="mechanism", bin_width=0),
            "bin_width: found 0, expected more than 0",
        ),
        (
            lambda f: point_chart(
                f,
                x=X,
                y=Y,
                series="mechanism",
                controls=[Control(column="level", label="L", initial="moon")],
            ),
            "control 'level': initial: found 'moon', expected one of 'state', 'county'",
        ),
        (
            lambda f: point_chart(
                f, x=X, y=Y, series="mechanism", references=[Reference(label="r")]
            ),
            "reference 'r': found neither x nor y, expected one of them",
        ),
    ],
)
def test_each_check_fires(make, message: str):
    with pytest.raises(InputError, match=message):
        make(level_frame())


def test_a_file_says_what_is_shown_and_what_was_chosen():
    controls = [Control(column="level", label="Level", initial="county")]
    chart = line_chart(level_frame(), x=X, y=Y, series="mechanism", controls=controls)
    spec = chart_spec(chart, static=True, title="Errors fall as epsilon grows. " * 5)
    assert spec["title"]["subtitle"] == ["Level: county"]
    assert len(spec["title"]["text"]) == 2
    assert "title" not in chart_spec(chart, title="on a page the caption says it")
    plain = point_chart(level_frame(), x=X, y=Y, series="mechanism")
    assert "title" not in chart_spec(plain, static=True)


def test_a_choice_in_words_is_written_as_its_label():
    import altair as alt

    sizes = alt.binding_select(options=[0.0, 0.5], labels=["none", "50 %"], name="Sample")
    chart: Any = point_chart(level_frame(), x=X, y=Y, series="mechanism")
    chart = chart.add_params(alt.param(name="size", value=0.5, bind=sizes))
    assert chart_spec(chart, static=True)["title"]["subtitle"] == ["Sample: 50 %"]


def widths_of(chart: Any) -> list[float]:
    width = chart_spec(chart)["layer"][0]["encoding"].get("size")
    return [case["value"] for case in (*width["condition"], width)] if width else []


def test_solid_lines_on_each_other_are_drawn_one_narrower_than_the_other():
    frame = level_frame()
    assert widths_of(line_chart(frame, x=X, y=Y, series="mechanism", points=True)) == []
    same = frame.filter(mechanism="topdown").with_columns(mechanism=pl.lit("sampling"))
    both = pl.concat([frame.filter(mechanism="topdown"), same]).filter(level="state")
    drawn = line_chart(both, x=X, y=Y, series="mechanism", points=True)
    assert widths_of(drawn) == [7.0, 1.5]
    assert {"7", "1.5"} <= set(re.findall(r'stroke-width="([0-9.]+)"', svg_of(drawn)))
    assert widths_of(line_chart(both, x=X, y=Y, series="mechanism")) == []
    level = [Control(column="level", label="Level")]
    only_in_states = pl.concat([frame.filter(mechanism="topdown"), same.filter(level="state")])
    some = line_chart(only_in_states, x=X, y=Y, series="mechanism", points=True, controls=level)
    assert widths_of(some) != []


def test_a_legend_has_as_many_columns_as_its_names_leave_room_for():
    short = legend_of(["a", "b", "c"], strokes=True).to_dict()
    assert "columns" not in short
    long = legend_of(["a name of some thirty letters...."] * 5, strokes=True).to_dict()
    assert long["columns"] == 2
    assert legend_of(["x" * 200, "y"], strokes=False).to_dict()["columns"] == 1


def test_what_a_choice_lacks_is_left_out_of_its_legend():
    frame = pl.DataFrame(
        {"level": ["a", "a", "b"], "step": [1.5, 2.0, 2.0], "series": ["one", "two", "two"]}
    )
    assert shown_series(frame.filter(level="a"), series="series", chosen={"level": "x"}) == ""
    assert shown_series(frame, series="series", chosen={"level": "x", "step": "y"}) == (
        '[["one"], ["two"], [], ["two"]]'
        '[((0) * 2 + indexof(["a", "b"], x)) * 2 + indexof([1.5, 2.0], y)]'
    )


def test_fields_are_shaded_by_the_range_that_their_percentage_is_in():
    frame = pl.DataFrame(
        {
            "case": ["a", "a", "b", "b"],
            "group": ["x", "y", "x", "y"],
            "percent": [0.0, 0.1, 29.9, 4000.0],
        }
    )
    chart = heat_chart(
        frame,
        x=Axis(column="group", title="Group"),
        y=Axis(column="case", title="Case"),
        value=Axis(column="percent", title="Error (%)"),
    )
    spec = chart_spec(chart)
    (rows,) = spec["datasets"].values()
    assert [row["shade"] for row in rows] == ["below 0.1", "0.1 to 1", "10 to 30", "100 or more"]
    assert spec["encoding"]["color"]["scale"]["domain"] == _shades()
    assert spec["encoding"]["color"]["scale"]["range"] == list(HEAT)
    column = Column(key="percent", label="Error", format=".1f", shows="heat")
    assert [column.warmth(value) for value in frame["percent"]] == [0, 1, 4, 6]
    assert column.warmth(None) is None
    assert Column(key="percent", label="Error", format=".1f").warmth(5.0) is None
    with pytest.raises(InputError, match="found a frame with case, group, percent"):
        heat_chart(
            frame,
            x=Axis(column="nobody", title="Group"),
            y=Axis(column="case", title="Case"),
            value=Axis(column="percent", title="Error (%)"),
        )
