"""The figures of the study christ-2022: 2 to 10 of the paper, on accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from headcount.report.figures import Axis, Control, line_chart, two_scale_chart
from headcount.report.model import Figure
from headcount.studies.christ_2022.report_words import (
    CLIPPED,
    GROUPS,
    Tables,
    accuracy,
    first_county,
    series_named,
    shown_counties,
    swapping,
    thin,
)
from headcount.studies.christ_2022.settings import BUCKETS, DP, FOUR, RACE, SWAPPERS

if TYPE_CHECKING:
    from altair.typing import ChartType

RATE = Axis(column="rate", title="Swap rate", format=".2~f", domain=(0, 1))
EPSILON = Axis(
    column="epsilon", title="Promise ε of noise (smaller is stronger)", format=".2~f",
    domain=(2, 10),
)  # fmt: skip
ALL_EPSILONS = Axis(
    column="epsilon", title="Promise ε (smaller is stronger)", format=".2~f", domain=(0, 10)
)
KL = Axis(column="mean", title="KL divergence (0 is exact)", format=".3~g", zero=True)
LOWEST = 2.0
"""The least epsilon of the paper's plots."""


def mu_figures(tables: Tables) -> tuple[Figure, Figure]:
    """Figure 2: what the smoothing does."""
    frame = tables["accuracy"].filter(query=RACE, metric="kl", group="everyone", attributes=6)
    frame = frame.sort("mu", maintain_order=True)
    named = pl.format("μ = {}", pl.col("mu").map_elements(lambda mu: f"{mu:g}", pl.String))
    county = Control(column="county", label="Block group", initial=first_county(tables, "Alameda"))
    swap = thin(
        frame.filter(mechanism="0-similar").select(
            "county", named.alias("smoothing"), pl.col("parameter").alias("rate"), "mean"
        ),
        "rate",
    )
    noise = frame.filter(mechanism=DP, buckets=BUCKETS[0], clip="query").select(
        "county", named.alias("smoothing"), pl.col("parameter").alias("epsilon"), "mean"
    )
    return (
        Figure(
            name="smoothing-swapping",
            caption="**The smaller μ, the more small groups weigh: 0-similar swapping.** (The "
            "paper's figure 2, left.)",
            alt="KL divergence against the swap rate, one line for each mu.",
            chart=line_chart(swap, x=RATE, y=KL, series="smoothing", controls=[county],
                             height=260),
        ),
        Figure(
            name="smoothing-noise",
            caption="**The same for noise** with two age buckets, negative counts set to 0 after "
            "summing. (The paper's figure 2, right.)",
            alt="KL divergence against epsilon, one line for each mu.",
            chart=line_chart(
                thin(noise, "epsilon", most=60),
                x=ALL_EPSILONS, y=Axis(column="mean", title=KL.title, format=".3~g", scale="sqrt",
                                       zero=True),
                series="smoothing", controls=[county], height=260,
            ),
        ),
    )  # fmt: skip


def diversity_swapping_figure(tables: Tables) -> Figure:
    """Figures 3 and 4: three block groups under one swapper."""
    frame = swapping(accuracy(tables, metric="kl")).filter(
        pl.col("county").is_in(shown_counties(tables)), group="everyone"
    )
    return Figure(
        name="diversity-swapping",
        caption="**Swapping in block groups of different diversity.** Choose how people are "
        "swapped. (The paper's figures 3 and 4.)",
        alt="KL divergence against the swap rate, one line for each of three block groups.",
        chart=line_chart(
            thin(_with_diversity(tables, frame), "rate").select(
                pl.col("mechanism").alias("swapper"), "place", "rate", "mean"
            ),
            x=RATE, y=KL, series="place", controls=[Control(column="swapper", label="Swapping")],
            height=300,
        ),
    )  # fmt: skip


def diversity_noise_figure(tables: Tables) -> Figure:
    """Figure 5: three block groups under noise."""
    frame = accuracy(tables, metric="kl").filter(
        pl.col("county").is_in(shown_counties(tables)), group="everyone", mechanism=DP
    )
    chosen = thin(_with_diversity(tables, frame.filter(pl.col("epsilon") >= 0.5)), "epsilon")
    return Figure(
        name="diversity-noise",
        caption="**Noise, for the same block groups.** The noise is the same everywhere; what it "
        "does to shares depends on how many small groups there are. Choose the number of age "
        "buckets, and when negative counts are set to 0. (The paper's figure 5.)",
        alt="KL divergence against epsilon, one line for each of three block groups.",
        chart=line_chart(
            chosen.select("place", "epsilon", "mean",
                          pl.format("{}", "buckets").alias("buckets"),
                          pl.col("clip").replace_strict(CLIPPED).alias("clip")),
            x=ALL_EPSILONS,
            y=Axis(column="mean", title=KL.title, format=".3~g", scale="sqrt", zero=True),
            series="place",
            controls=[Control(column="buckets", label="Age buckets"),
                      Control(column="clip", label="Negative counts set to 0")],
            height=300,
        ),
    )  # fmt: skip


def both_figure(tables: Tables) -> Figure:
    """Figures 6 and 7: all mechanisms of one block group."""
    return Figure(
        name="swapping-and-noise",
        caption="**Swapping and noise at one height.** Swapping is read off the axis below, noise "
        "off the axis above. *The two axes have nothing to do with each other*: a swap rate is no "
        "ε. Some curves of swapping bend where the rows that are unique in the block group run "
        "out. (The paper's figures 6, Alameda, and 7, Washington.)",
        alt="KL divergence of five swappers against the swap rate and of three noisy histograms "
        "against epsilon, for one block group.",
        chart=_both(tables, metric="kl", y=KL, wanted="Alameda"),
    )


def four_figure(tables: Tables) -> Figure:
    """Figure 8: the query of four attributes."""
    short = accuracy(tables, metric="kl").filter(
        pl.col("clip").is_null() | (pl.col("clip") == "query"), group="everyone"
    )
    long = accuracy(tables, metric="kl", query=FOUR).filter(group="everyone")
    two = pl.col("buckets").is_null() | (pl.col("buckets") == BUCKETS[0])
    names = {RACE: "Hispanic × race", FOUR: "age × Hispanic × race × household size"}
    frame = pl.concat([short.filter(two), long.filter(two)]).with_columns(
        pl.col("query").replace_strict(names)
    )
    return Figure(
        name="four-attributes",
        caption="**The same with a finer question.** People by four attributes (two age buckets) "
        "instead of two. Choose the question. (The paper's figure "
        "8.)",
        alt="KL divergence of swappers and of the noisy histogram, for one of two queries.",
        chart=two_scale_chart(
            _sides(frame).select("county", pl.col("query").alias("question"), "series", "rate",
                                 "epsilon", "mean"),
            x=RATE, top=EPSILON, y=KL, series="series",
            controls=[_county(tables, "Alameda"), Control(column="question", label="People by")],
        ),
    )  # fmt: skip


def error_figure(tables: Tables) -> Figure:
    """Figure 9: squared error."""
    y = Axis(column="mean", title="Mean squared error (people²)", format=",.3~g", scale="symlog",
             zero=True, ticks=(0, 1, 3, 10, 30, 100, 300, 1000, 3000))  # fmt: skip
    return Figure(
        name="squared-error",
        caption="**Mean squared error of a group's count.** All 126 groups of Hispanic origin by "
        "race count, those of nobody too. Choose everyone, or the groups below 10 % of the block "
        "group. (The paper's figure 9.)",
        alt="Mean squared error of five swappers and three noisy histograms, for one block group.",
        chart=_both(tables, metric="mse", y=y, wanted="Cibola", by_group=True),
    )


def underallocation_figure(tables: Tables) -> Figure:
    """Figure 10: groups that lost a quarter of their people."""
    y = Axis(column="mean", title="Minority groups at or below 75 % of their size", format=".3~g",
             zero=True)  # fmt: skip
    return Figure(
        name="underallocation",
        caption="**How many minority groups lose a quarter of their people or more?** Where money "
        "follows counts, these are short-changed. Means over runs. (The paper's figure 10.)",
        alt="Number of minority groups with large losses, for five swappers and three noisy "
        "histograms.",
        chart=_both(tables, metric="underallocated", y=y, wanted="Cibola", group="minorities"),
    )


def _both(
    tables: Tables,
    *,
    metric: str,
    y: Axis,
    wanted: str,
    group: str = "everyone",
    by_group: bool = False,
) -> ChartType:
    """All mechanisms, negative counts clipped after summing."""
    frame = accuracy(tables, metric=metric).filter(
        pl.col("clip").is_null() | (pl.col("clip") == "query")
    )
    controls = [_county(tables, wanted)]
    columns = ["county", "series", "rate", "epsilon", "mean"]
    if by_group:
        frame = frame.with_columns(pl.col("group").replace_strict(GROUPS))
        controls.append(Control(column="group", label="Groups", initial=GROUPS["minorities"]))
        columns.append("group")
    else:
        frame = frame.filter(group=group)
    return two_scale_chart(
        _sides(frame).select(columns), x=RATE, top=EPSILON, y=y, series="series",
        controls=controls,
    )  # fmt: skip


def _sides(frame: pl.DataFrame) -> pl.DataFrame:
    """Swap rates, and the epsilons of the paper's plots."""
    kept = frame.filter(pl.col("epsilon").is_null() | (pl.col("epsilon") >= LOWEST))
    names = [*SWAPPERS, *(f"noise, {buckets} age buckets" for buckets in BUCKETS)]
    return (
        thin(thin(kept, "rate", most=52), "epsilon", most=42)
        .with_columns(series_named().alias("series"), pl.col("mean").round(6))
        .sort(pl.col("series").replace_strict(names, range(len(names))), maintain_order=True)
    )


def _county(tables: Tables, wanted: str) -> Control:
    return Control(column="county", label="Block group", initial=first_county(tables, wanted))


def _with_diversity(tables: Tables, frame: pl.DataFrame) -> pl.DataFrame:
    """Block groups named with their class of diversity."""
    named = tables["areas"].select(
        "county",
        pl.when(pl.col("diversity") == "")
        .then(pl.col("county"))
        .otherwise(pl.format("{} ({} diversity)", "county", "diversity"))
        .alias("place"),
    )
    return frame.join(named, on="county", maintain_order="left")
