"""What the report of flaxman-2019 shows: the views behind its figures and tables, and facts."""

from __future__ import annotations

from typing import Any

import polars as pl

from headcount.comparison.study import Findings
from headcount.comparison.template import cell
from headcount_papers.flaxman_2019.settings import EXACT, PUBLISHED, Settings

_NOISE = {PUBLISHED: "as the paper's code draws it", EXACT: "exact mechanism"}
_EVENTS = {"ge": "error is at least k", "eq": "error is k"}
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


def facts(found: Findings) -> dict[str, Any]:
    """What the longer audit proved of raked, and what a move could cost if it lost only the share
    of epsilon that is spent on the two areas; both empty if raked is not run."""
    settings = found.settings
    assert isinstance(settings, Settings)
    epsilon = float(settings.audit_epsilon)
    return {
        "proved": cell(
            found.tables["audit"].filter(pl.col("looks_at").str.contains("every level")),
            "audit_epsilon_lower",
            mechanism="raked",
            control=False,
            epsilon=epsilon,
        ),
        "areas_show": 2 * epsilon / settings.parts,
        "figure_1": {name: float(epsilon) for name, epsilon in settings.figure_1.items()},
        "measured": {
            name: loss / float(epsilon)
            for name, epsilon in settings.figure_1.items()
            if (loss := _median_loss(found, name, float(epsilon))) is not None
        },
        "people": int(settings.counted_people().count.sum()),  # type: ignore[union-attr]
    }


def _median_loss(found: Findings, mechanism: str, epsilon: float) -> float | None:
    at = {"mechanism": mechanism, "epsilon": epsilon}
    loss: float | None = cell(found.tables["epl"], "median_abs_epl", **at)
    return loss


_series = pl.format("{}, ε = {}", pl.col("mechanism"), pl.col("epsilon")).alias("series")
_noise = pl.col("variant").replace_strict(_NOISE).alias("noise")


def _thin(curves: pl.DataFrame) -> pl.DataFrame:
    """Keep about ``_POINTS`` points of each curve."""
    by = ["variant", "mechanism", "epsilon"]
    every = (pl.len().over(by) // _POINTS).clip(lower_bound=1)
    return curves.filter(pl.int_range(pl.len()).over(by) % every == 0)


def _residuals(found: Findings) -> pl.DataFrame:
    return found.frames["residuals"].select(_noise, _series, "residual")


def _curves_of_figure_1(found: Findings) -> pl.DataFrame:
    curves = found.tables["epl_curves"]
    shown = pl.concat(
        curves.filter(mechanism=name, epsilon=epsilon)
        for name, epsilon in found.facts["figure_1"].items()
    )
    return _thin(shown).select(_noise, _series, "x", "loss").drop_nulls()


def _curves(found: Findings) -> pl.DataFrame:
    curves = _thin(found.tables["epl_curves"])
    return curves.select(_noise, "epsilon", "mechanism", "x", "loss").drop_nulls()


def _measured(found: Findings) -> pl.DataFrame:
    """Promised against measured loss, with the spread of the replicates."""
    loss = pl.col("median_abs_epl")
    return (
        found.tables["epl_replicates"]
        .group_by("variant", "mechanism", "epsilon", maintain_order=True)
        .agg(loss.mean().alias("measured"), loss.min().alias("low"), loss.max().alias("high"))
        .with_columns(_noise)
        .drop("variant")
        .drop_nulls()
    )


def _spread(found: Findings) -> pl.DataFrame:
    """Raked, run by run: why it has no stable value at the smallest epsilon."""
    rows = found.tables["epl_replicates"].filter(mechanism="raked", variant=PUBLISHED)
    return rows.select(_series, "kernel_sd", "median_abs_epl", "max_abs_residual").drop_nulls()


def _law(found: Findings) -> pl.DataFrame:
    """What the pooled estimate hides about averaged."""
    epsilon = found.facts["figure_1"]["averaged"]
    at = {"mechanism": "averaged", "epsilon": epsilon, "variant": EXACT}
    estimated = _thin(found.tables["epl_curves"].filter(pl.col("x") >= 0, **at))
    both = {"averaged, estimated": estimated, "exact law": found.tables["averaged_law"]}
    return pl.concat(
        frame.select(pl.lit(name).alias("curve"), "x", "loss") for name, frame in both.items()
    ).drop_nulls()


def _named(frame: pl.DataFrame) -> pl.DataFrame:
    """The null test under a name of its own."""
    null = pl.format("null test ({})", pl.col("mechanism"))
    name = pl.when("control").then(null).otherwise(pl.col("mechanism"))
    return frame.with_columns(name.alias("mechanism"))


def _direct(found: Findings) -> pl.DataFrame:
    ratio, error = pl.col("log_ratio"), pl.col("standard_error")
    return (
        _named(found.tables["direct_detail"])
        .select(
            pl.col("event").replace_strict(_EVENTS),
            *("mechanism", "k", "log_ratio"),
            (ratio - 2 * error).alias("low"),
            (ratio + 2 * error).alias("high"),
        )
        .drop_nulls()
    )


def _sweep(found: Findings) -> pl.DataFrame:
    order = {name: number for number, name in enumerate(_SWEPT)}
    frame = found.tables["sweep"]
    return (
        frame.sort(pl.col("parameter").replace_strict(order), maintain_order=True)
        .select(
            pl.col("parameter").replace_strict(_SWEPT).alias("setting"),
            *("mechanism", "value"),
            pl.col("epl_over_epsilon").alias("ratio"),
            (pl.col("lowest_median_abs_epl") / pl.col("epsilon")).alias("low"),
            (pl.col("highest_median_abs_epl") / pl.col("epsilon")).alias("high"),
        )
        .drop_nulls()
    )


def _epl(found: Findings) -> pl.DataFrame:
    """Error and empirical loss of both variants."""
    both = {PUBLISHED: found.tables["epl"], EXACT: found.tables["epl_exact"]}
    named = (frame.with_columns(pl.lit(name).alias("noise")) for name, frame in both.items())
    ratio = (pl.col("median_abs_epl") / pl.col("epsilon")).alias("ratio")
    return pl.concat(named).with_columns(ratio).sort("mechanism", "epsilon", maintain_order=True)


def _claims(found: Findings) -> pl.DataFrame:
    relative = pl.col("ours") / pl.col("published") - 1
    return found.tables["claims"].with_columns(
        (relative * 100).alias("relative_difference"), pl.col("tolerance") * 100
    )


VIEWS = {
    "figure-1a": _residuals,
    "figure-1b": _curves_of_figure_1,
    "curves-by-epsilon": _curves,
    "promise-and-measurement": _measured,
    "raked-spread": _spread,
    "averaged-law": _law,
    "direct-estimate": _direct,
    "sweep": _sweep,
    "epl": _epl,
    "claims": _claims,
    "true-losses": lambda found: found.tables["losses"].filter(variant=PUBLISHED),
    "audit": lambda found: _named(found.tables["audit"]),
    "sweep-table": lambda found: found.tables["sweep"],
}
