"""The figures of the study flaxman-2019."""

from __future__ import annotations

import polars as pl

from headcount.report.figures import (
    Axis,
    Control,
    Reference,
    band_chart,
    histogram_chart,
    line_chart,
    point_chart,
)
from headcount.report.model import Figure
from headcount.studies.flaxman_2019 import PUBLISHED, FlaxmanStudy
from headcount.studies.flaxman_2019.settings import FIGURE_1

VARIANT_NAMES = {"published": "as the paper's code draws it", "exact": "exact mechanism"}
NOISE = Control(column="noise", label="Noise")
ERROR = "Error: exact minus released count (people)"
_POINTS = 160  # a curve needs no more to look smooth
_SWEPT = {
    "epsilon": "ε",
    "people": "people, N",
    "depth": "levels, J",
    "mean": "people aimed at per area, μ",
    "range_percentile": "percentile of the range",
    "range_multiplier": "multiplier of the range",
    "kernel_factor": "kernel factor",
}


def named(mechanism: str = "mechanism", epsilon: str = "epsilon") -> pl.Expr:
    """A series name such as "raked, ε = 0.1"."""
    return pl.format("{}, ε = {}", pl.col(mechanism), pl.col(epsilon)).alias("series")


def variant_named() -> pl.Expr:
    """The variant in words."""
    return pl.col("variant").replace_strict(VARIANT_NAMES).alias("noise")


def residual_figure(study: FlaxmanStudy) -> Figure:
    """Figure 1 (a) of the paper."""
    frame = study.figure.residuals.select(variant_named(), named(), "residual")
    value = Axis(column="residual", title=ERROR, domain=(-200.0, 200.0))
    return Figure(
        name="figure-1a",
        caption="**How wrong the released counts are**, at the ε of each method for which the "
        "paper finds equal loss. Each outline is one method over "
        f"{study.settings.areas:,} areas, one run; bins are 5 people wide. *Choose the noise "
        "above; click a name to pick it out.* (The paper's figure 1 a.)",
        alt="Three histograms of errors centred on zero: geometric at 0.025 is the most peaked, "
        "averaged at 0.05 is rounder, and raked at 0.1 lies close to geometric.",
        chart=histogram_chart(
            frame, value=value, series="series", bin_width=5, controls=[NOISE],
            y_title="Share of areas (%)",
        ),
    )  # fmt: skip


def curve_figure(study: FlaxmanStudy) -> Figure:
    """Figure 1 (b) of the paper."""
    at_figure_1 = pl.concat(
        study.figure.curves.filter(
            (pl.col("mechanism") == name) & (pl.col("epsilon") == float(epsilon))
        )
        for name, epsilon in FIGURE_1.items()
    )
    return Figure(
        name="figure-1b",
        caption="**Estimated privacy loss at each size of error.** The further a curve is from "
        "zero, the more an error of that size tells about one person. Geometric and raked settle "
        "near ±0.025, averaged passes through it, though they promise 0.025, 0.1 and 0.05. The "
        "outer parts rest on few areas and wander. (The paper's figure 1 b, one run.)",
        alt="Three curves of loss, near minus 0.025 left of zero and plus 0.025 right of it, "
        "wandering at both ends.",
        chart=line_chart(
            _thin(at_figure_1).select(variant_named(), named(), "x", "loss").drop_nulls(),
            x=Axis(column="x", title=ERROR),
            y=Axis(column="loss", title="Empirical privacy loss at x", format=".3f"),
            series="series",
            controls=[NOISE],
            references=[Reference(label="0.025", y=0.025), Reference(label="−0.025", y=-0.025)],
        ),
    )


def explorer_figure(study: FlaxmanStudy) -> Figure:
    """The same curves at one epsilon of the reader's choice."""
    frame = _thin(study.figure.curves).select(variant_named(), "epsilon", "mechanism", "x", "loss")
    return Figure(
        name="curves-by-epsilon",
        caption="**The same promise for all three.** Choose ε: the methods now promise the same, "
        "and their curves lie at about ε, ε/2 and ε/4.",
        alt="Curves of loss for the three methods at one epsilon: geometric furthest from zero, "
        "averaged half as far, raked a quarter.",
        chart=line_chart(
            frame.drop_nulls(),
            x=Axis(column="x", title=ERROR),
            y=Axis(column="loss", title="Empirical privacy loss at x", format=".3f"),
            series="mechanism",
            controls=[Control(column="epsilon", label="Promise ε", initial=0.1), NOISE],
        ),
    )


def promise_figure(study: FlaxmanStudy) -> Figure:
    """Promised against measured loss, with the spread of the replicates."""
    frame = (
        study.figure.replicates.group_by("variant", "mechanism", "epsilon", maintain_order=True)
        .agg(
            pl.col("median_abs_epl").mean().alias("measured"),
            pl.col("median_abs_epl").min().alias("lowest"),
            pl.col("median_abs_epl").max().alias("highest"),
        )
        .with_columns(variant_named())
        .drop("variant")
        .drop_nulls()
    )
    ticks = tuple(float(e) for e in study.settings.epsilons)
    return Figure(
        name="promise-and-measurement",
        caption="**Promised and measured loss**: mean over "
        f"{study.replicates} replicates of the median |EPL|; bands reach from the lowest "
        "to the highest replicate. Both axes are logarithmic. Raked at 0.025 has no stable value: "
        "see [](#raked-spread).",
        alt="Measured loss against promised loss: three rising lines, geometric on top, averaged "
        "at half of it, raked at a quarter and falling off at the smallest promise.",
        chart=band_chart(
            frame,
            x=Axis(column="epsilon", title="Promised loss ε (one person added or removed)",
                   scale="log", ticks=ticks, format="~g"),
            y=Axis(column="measured", title="Measured loss: median |EPL|", scale="log",
                   ticks=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1), format="~g"),
            low="lowest", high="highest", series="mechanism", controls=[NOISE],
        ),
    )  # fmt: skip


def spread_figure(study: FlaxmanStudy) -> Figure:
    """Why raked has no stable value at the smallest epsilon."""
    frame = (
        study.figure.replicates.filter(
            (pl.col("mechanism") == "raked") & (pl.col("variant") == PUBLISHED)
        )
        .select(named(), "kernel_sd", "median_abs_epl", "max_abs_residual")
        .drop_nulls()
    )
    return Figure(
        name="raked-spread",
        caption="**Raked, run by run.** Each mark is one replicate. At ε = 0.025 the noisy total "
        "by which counts are divided comes close to zero somewhere in most runs; a few areas are "
        "then wrong by tens of thousands. They widen the smoothing kernel, which follows the "
        "standard deviation, and a wide kernel flattens the curve: the wider it is, the smaller "
        "the loss it reports. The number says more about the smoothing than about privacy.",
        alt="Scatter of measured loss against kernel width for raked: tight clusters at epsilon "
        "0.1 and 0.05, a long falling band at 0.025.",
        chart=point_chart(
            frame,
            x=Axis(column="kernel_sd", title="Kernel standard deviation (people)", scale="log",
                   ticks=(10, 30, 100, 300, 1000, 3000), format=",~g"),
            y=Axis(column="median_abs_epl", title="Measured loss: median |EPL|", scale="log",
                   ticks=(0.0003, 0.001, 0.003, 0.01, 0.03), format="~g"),
            series="series",
        ),
    )  # fmt: skip


def law_figure(study: FlaxmanStudy) -> Figure:
    """What the pooled estimate hides about averaged."""
    epsilon = float(FIGURE_1["averaged"])
    estimated = study.figure.curves.filter(
        (pl.col("mechanism") == "averaged")
        & (pl.col("epsilon") == epsilon)
        & (pl.col("variant") == "exact")
        & (pl.col("x") >= 0)
    )
    frame = pl.concat(
        [
            _thin(estimated).select(pl.lit("averaged, estimated").alias("curve"), "x",
                                    "loss"),
            study.law.select(pl.lit("exact law").alias("curve"), "x", "loss"),
        ]
    )  # fmt: skip
    return Figure(
        name="averaged-law",
        caption=f"**What the estimate does not reach.** Averaged at ε = {epsilon:g}: its exact "
        "loss can be worked out. It climbs with the size of the error and nears the whole "
        "promise; the estimate ends where errors become rare. An area with a very large error "
        "gives away almost ε.",
        alt="The exact loss of averaged rises from zero towards epsilon; the estimated curve "
        "follows it over the first part and then stops.",
        chart=line_chart(
            frame.drop_nulls(),
            x=Axis(column="x", title="Size of the error (people)"),
            y=Axis(column="loss", title="Privacy loss at x", format=".3f", zero=True),
            series="curve",
            references=[Reference(label=f"promise, ε = {epsilon:g}", y=epsilon)],
        ),
    )


def direct_figure(study: FlaxmanStudy) -> Figure:
    """The direct estimate with its uncertainty."""
    events = {"ge": "error is at least k", "eq": "error is k"}
    name = pl.when("control").then(pl.lit("null test (raked)"))
    frame = study.direct.select(
        pl.col("event").replace_strict(events).alias("event"),
        name.otherwise(pl.col("mechanism")).alias("method"),
        "k",
        "log_ratio",
        (pl.col("log_ratio") - 2 * pl.col("standard_error")).alias("low"),
        (pl.col("log_ratio") + 2 * pl.col("standard_error")).alias("high"),
    )
    epsilon = float(study.settings.direct_epsilon)
    return Figure(
        name="direct-estimate",
        caption="**Moving one person, and looking at the area she left.** Log ratio of the chance "
        f"of the event before and after the move, from {study.settings.direct_runs} runs on each "
        "database; bands are two standard errors. Neighbouring k share most of their runs, so a "
        "curve that keeps to one side is one accident, not many. In the null test nobody moved: "
        "whatever it shows is chance. *Choose the event; click names to compare.*",
        alt="Log ratios for the three methods and for a null test, all within wide overlapping "
        "bands around zero.",
        chart=band_chart(
            frame.drop_nulls(),
            x=Axis(column="k", title="k: released minus exact count (people)"),
            y=Axis(column="log_ratio", title="Log ratio of chances", format=".2f"),
            low="low", high="high", series="method", points=False,
            controls=[Control(column="event", label="Event", initial=events["ge"])],
            references=[Reference(label=f"ε = {epsilon:g}", y=epsilon)],
        ),
    )  # fmt: skip


def sweep_figure(study: FlaxmanStudy) -> Figure:
    """The pooled estimate with one setting moved at a time."""
    order = {name: number for number, name in enumerate(_SWEPT)}
    frame = (
        study.sweep.sort(pl.col("parameter").replace_strict(order), maintain_order=True)
        .select(
            pl.col("parameter").replace_strict(_SWEPT).alias("setting"),
            "mechanism",
            "value",
            pl.col("epl_over_epsilon").alias("ratio"),
            (pl.col("lowest_median_abs_epl") / pl.col("epsilon")).alias("lowest"),
            (pl.col("highest_median_abs_epl") / pl.col("epsilon")).alias("highest"),
        )
        .drop_nulls()
    )
    return Figure(
        name="sweep",
        caption="**Does the 1, ½, ¼ hold elsewhere?** Measured loss as a part of the promise, "
        "with one setting moved and the others as in the paper (ε = "
        f"{float(study.settings.direct_epsilon):g}, exact mechanism). Choose the setting. Bands "
        "reach from the lowest to the highest replicate.",
        alt="Measured loss over epsilon for three methods as one chosen setting varies.",
        chart=band_chart(
            frame,
            x=Axis(column="value", title="Value of the setting", scale="log", format=",~g"),
            y=Axis(column="ratio", title="Measured loss / ε", format=".2f", zero=True),
            low="lowest", high="highest", series="mechanism",
            controls=[Control(column="setting", label="Setting")],
        ),
    )  # fmt: skip


def level_figure(study: FlaxmanStudy) -> Figure:
    """Errors at every level."""
    frame = study.levels.select("epsilon", "mechanism", "mean_people", "median_abs_residual")
    return Figure(
        name="error-by-level",
        caption="**What raking buys.** Median error of a unit against how many people live in it: "
        "areas on the left, the whole on the right. Raked is measured at every level and keeps "
        "the same error from top to bottom; the others are added up from areas, and their errors "
        "add up too. Choose ε; exact mechanism.",
        alt="Median error against size of unit: flat for raked, rising for geometric and "
        "averaged, which start lower for small areas.",
        chart=line_chart(
            frame,
            x=Axis(column="mean_people", title="People per unit (mean)", scale="log",
                   ticks=(100, 1000, 10_000, 100_000, 1_000_000), format=",~g"),
            y=Axis(column="median_abs_residual", title="Median error (people)", scale="log",
                   ticks=(10, 30, 100, 300, 1000, 3000, 10_000), format=",~g"),
            series="mechanism", points=True,
            controls=[Control(column="epsilon", label="Promise ε", initial=0.1)],
        ),
    )  # fmt: skip


def _thin(curves: pl.DataFrame) -> pl.DataFrame:
    """Keep about ``_POINTS`` points of each curve."""
    by = ["variant", "mechanism", "epsilon"]
    every = (pl.len().over(by) // _POINTS).clip(lower_bound=1)
    return curves.filter(pl.int_range(pl.len()).over(by) % every == 0)
