"""Who gains and who loses: bias by mixture, by size and by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from headcount.report.figures import Axis, Control, band_chart, control_name, line_chart
from headcount.report.model import Block, Column, Figure, Prose, Section, Table, table_from_frame
from headcount.report.theme import MUTED, looks_for
from headcount.studies.petti_flaxman_2020.report_words import (
    Tables,
    count_named,
    headline,
    in_order,
    level_named,
    listed,
    promise_named,
    shown_epsilons,
)

if TYPE_CHECKING:
    from altair.typing import ChartType

PLACES = Control(column="place", label="Level")
COUNTS = Control(column="counts", label="Counts")
DEFINITIONS = {
    "code": "as the paper computes it",
    "words": "as the paper describes it",
}
"""Both definitions of the homogeneity index, the one behind the published numbers first."""


def bias_section(found: Tables) -> Section:
    """The section on bias."""
    blocks: tuple[Block, ...] = (
        Prose(
            "Noise alone is fair: it adds as often as it takes away. But a count below zero makes "
            "no sense, so TopDown lifts it to zero, and as totals must be kept, larger counts pay "
            f"for it. {_sentence(found['bias'])}"
        ),
        homogeneity_figure(found),
        Prose(
            "Two more questions that people ask: does the error depend on how large a count is, "
            f"and on whom it counts? {_group_sentence(found['group_bias'])}"
        ),
        size_figure(found),
        group_figure(found),
        group_table(found),
    )
    return Section(title="Who gains, who loses", blocks=blocks)


def _sentence(bias: pl.DataFrame) -> str:
    """What the most mixed and the most uniform districts gain or lose, at the headline epsilon."""
    epsilon = headline(bias["epsilon"])
    rows = bias.filter(
        (pl.col("level") == "enumeration_district")
        & (pl.col("index_definition") == "code")
        & (pl.col("epsilon") == epsilon)
        & (pl.col("units") >= _FEW)
    ).sort("homogeneity_index")
    if rows.height < 2:
        return "Too few districts are covered here to say by how much."
    first, last = rows.row(0, named=True), rows.row(-1, named=True)
    return (
        f"At ε = {epsilon:g} the most mixed enumeration districts (index "
        f"{first['homogeneity_index']}, {first['units']:,} of them) come out "
        f"**{_off(first['mean_error'])}** on average, the most uniform (index "
        f"{last['homogeneity_index']}, {last['units']:,}) **{_off(last['mean_error'])}**."
    )


def _group_sentence(group_bias: pl.DataFrame) -> str:
    """The largest bias of a group in districts, beside the size of its errors."""
    epsilon = headline(group_bias["epsilon"])
    rows = group_bias.filter(level="enumeration_district", epsilon=epsilon)
    worst = rows.sort(pl.col("mean_error").abs(), descending=True).row(0, named=True)
    return (
        f"At ε = {epsilon:g} the largest mean error of any group in enumeration districts is "
        f"{worst['mean_error']:+.2f} people ({worst['group']}), beside errors of "
        f"{worst['mean_absolute_error']:.1f} people in size."
    ).replace(" -", " \N{MINUS SIGN}")


_FEW = 20  # districts below which a mean says nothing
_FEWEST_PLACES = 5  # below which an index is not drawn


def _off(error: float) -> str:
    word = "too high" if error > 0 else "too low"
    return f"{abs(error):.1f} people {word}"


def homogeneity_figure(found: Tables) -> Figure:
    """Figure 3 of the paper, both definitions."""
    import altair as alt

    shown = shown_epsilons(found["bias"]["epsilon"])
    order = {name: number for number, name in enumerate(DEFINITIONS)}
    frame = (
        in_order(_shown_places(found["bias"], shown))
        .sort(pl.col("index_definition").replace_strict(order), maintain_order=True)
        .select(
            level_named(),
            pl.col("index_definition").replace_strict(DEFINITIONS).alias("definition"),
            promise_named(), "homogeneity_index", "mean_error", "p05", "p95",
        )
    )  # fmt: skip
    chart: Any = band_chart(
        frame,
        x=Axis(column="homogeneity_index", title="Homogeneity index: 0 mixed, 23 uniform",
               ticks=(0, 4, 8, 12, 16, 20, 23)),
        y=Axis(column="mean_error", title="Mean error of the total (people)", format="+,.1~f"),
        low="p05", high="p95", series="promise",
        controls=[PLACES, Control(column="definition", label="Index")],
    )  # fmt: skip
    spread = alt.param(
        name=control_name("spread"), value=True, bind=alt.binding_checkbox(name="Show the spread")
    )
    for column in ("p05", "p95"):
        kept = f"{control_name('spread')} ? datum.{column} : datum.mean_error"
        chart = chart.transform_calculate(**{column: kept})
    return Figure(
        name="figure-3",
        caption="**Bias by how mixed a place is.** Mean error of a place's "
        "total by its *homogeneity index*: how many of its 24 cells (age by race by ethnicity) are "
        "empty. The bands reach from the 5th to the 95th percentile of single errors"
        f"{_chance(found['bias'])}. The paper's numbers come from another index, 24 less "
        f"ages × races × ethnicities found in the place{_differs(found['bias'])}; choose either. "
        "Indices of "
        f"fewer than {_FEWEST_PLACES} places are left out. *Choose level and index; hide the "
        "spread to see the bias alone; click an ε to pick it out.* (The paper's figure 3.)",
        alt="Mean error against the homogeneity index for each epsilon, inside bands.",
        chart=chart.add_params(spread),
    )


def _chance(bias: pl.DataFrame) -> str:
    """Whether single errors spread wider than the bias, wherever there are places enough."""
    rows = bias.filter(pl.col("level") != "state", pl.col("units") >= _FEW)
    wider = (rows["p95"] - rows["p05"]) / 2 > rows["mean_error"].abs()
    if not wider.len() or not wider.all():
        return ""
    return ": for any one place chance matters more than bias"


def _differs(bias: pl.DataFrame) -> str:
    """For how many places, at the least, the two indices differ: as far as their numbers show."""
    by = ["level", "homogeneity_index"]
    units = bias.filter(pl.col("epsilon") == pl.col("epsilon").first()).select(
        *by, "index_definition", "units"
    )
    both = units.filter(index_definition="code").join(
        units.filter(index_definition="words"), on=by, how="full", coalesce=True, suffix="_words"
    )
    code, words = pl.col("units").fill_null(0), pl.col("units_words").fill_null(0)
    share = both.group_by("level").agg(((code - words).abs().sum() / 2 / code.sum()).alias("off"))
    off = {level: value for level, value in share.iter_rows() if level in _PLURAL}
    told = [f"at least {100 * off[at]:.0f} % of {_PLURAL[at]}" for at in _PLURAL if at in off]
    return f" (it differs for {listed(told)})" if told else ""


_PLURAL = {"enumeration_district": "districts", "county": "counties"}


def _shown_places(bias: pl.DataFrame, epsilons: list[float]) -> pl.DataFrame:
    """Places that can err, in numbers that allow a mean if there are any such."""
    rows = bias.filter(pl.col("epsilon").is_in(epsilons), pl.col("level") != "state")
    enough = rows.filter(pl.col("units") >= _FEWEST_PLACES)
    return enough if enough.height else rows


def size_figure(found: Tables) -> Figure:
    """Bias by the exact size of a count."""
    shown = shown_epsilons(found["size_bias"]["epsilon"])
    frame = in_order(found["size_bias"].filter(pl.col("epsilon").is_in(shown))).select(
        count_named(), level_named(), promise_named(), "size_from", "mean_error"
    )
    return Figure(
        name="bias-by-size",
        caption="**Bias by the size of a count.** Mean error by the exact count: a point at 10 "
        "stands for counts of 10 to 99. One at 0 stands for empty cells that came out with people "
        "in them, so it is above zero by definition; those people are missing from other cells.",
        alt="Mean error against the exact count for each epsilon.",
        chart=line_chart(
            frame,
            x=Axis(column="size_from", title="Exact count (people), from", scale="symlog",
                   ticks=(0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000), format=",d"),
            y=Axis(column="mean_error", title="Mean error (people)", format="+,.1~f"),
            series="promise", points=True, controls=[COUNTS, PLACES], height=280,
        ),
    )  # fmt: skip


def group_figure(found: Tables) -> Figure:
    """Bias by group of people."""
    shown = shown_epsilons(found["group_bias"]["epsilon"])
    frame = in_order(found["group_bias"].filter(pl.col("epsilon").is_in(shown))).select(
        level_named(), promise_named(), "group", "mean_error", "mean_absolute_error", "n"
    )
    return Figure(
        name="bias-by-group",
        caption="**Which groups are counted too high or too low?** Mean error of the number of "
        "people of a group in a place, over places where the group is found before or after. As "
        "totals of states are kept, what some groups gain others lose.",
        alt="Mean error for each age group, ethnicity and race, for three values of epsilon.",
        chart=_dots(frame, frame["promise"].unique(maintain_order=True).to_list()),
    )


def _dots(frame: pl.DataFrame, promises: list[str]) -> ChartType:
    """One row for each group, one symbol for each epsilon."""
    import altair as alt

    places = frame["place"].unique(maintain_order=True).to_list()
    level = alt.param(
        name=control_name("place"), value=places[0],
        bind=alt.binding_select(options=places, name=PLACES.label),
    )  # fmt: skip
    looks = looks_for(promises)
    base = alt.Chart(frame).transform_filter(alt.datum.place == level)
    colour = alt.Scale(domain=promises, range=[look.colour for look in looks])
    symbol = alt.Scale(domain=promises, range=[look.symbol for look in looks])
    groups = frame["group"].unique(maintain_order=True).to_list()
    pick = alt.selection_point(fields=["promise"], bind="legend")
    legend = alt.Legend(symbolOpacity=1)
    dots = base.mark_point(size=90).encode(
        x=alt.X(
            "mean_error:Q", title="Mean error (people)", axis=alt.Axis(format="+,.2~f", tickCount=6)
        ),
        y=alt.Y("group:N", title=None, sort=groups, axis=alt.Axis(grid=True, labelFontSize=13)),
        color=alt.Color("promise:N", title=None, scale=colour, legend=legend),
        shape=alt.Shape("promise:N", title=None, scale=symbol, legend=legend),
        opacity=alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.1)),
        tooltip=[
            alt.Tooltip("group:N"),
            alt.Tooltip("promise:N"),
            alt.Tooltip("mean_error:Q", title="mean error (people)", format="+,.2f"),
            alt.Tooltip("mean_absolute_error:Q", title="mean size of error", format=",.2f"),
        ],
    )
    zero = alt.Chart(pl.DataFrame({"at": [0.0]})).mark_rule(color=MUTED, tooltip=None)
    chart = alt.LayerChart(layer=[zero.encode(x="at:Q"), dots.add_params(pick)])
    drawn: ChartType = chart.add_params(level).properties(
        width="container", height=26 * len(groups)
    )
    return drawn


def group_table(found: Tables) -> Table:
    """Bias by group at every level, with people."""
    epsilon = headline(found["group_bias"]["epsilon"])
    frame = in_order(found["group_bias"].filter(epsilon=epsilon))
    return table_from_frame(
        frame.with_columns(level_named()),
        name="group-table",
        caption=f"Errors by group at ε = {epsilon:g}.",
        columns=[
            Column(key="group", label="Group"),
            Column(key="place", label="Level"),
            Column(key="people", label="People in all", format=",d"),
            Column(key="mean_error", label="Mean error", unit="people", format="+,.2f"),
            Column(key="mean_absolute_error", label="Mean size of error", unit="people",
                   format=",.1f"),
            Column(key="n", label="Places", unit="all runs", format=",d"),
        ],
        folded=True,
    )  # fmt: skip
