"""What the report of petti-flaxman-2020 shows: the views behind its figures and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from headcount.comparison.study import Findings
from headcount.comparison.template import cell
from headcount_papers.frame.claims import Tables
from headcount_papers.petti_flaxman_2020 import report_charts
from headcount_papers.petti_flaxman_2020.empty_choices import with_anchors
from headcount_papers.petti_flaxman_2020.report_facts import (
    FEWEST_PLACES,
    LEVEL_NAMES,
    LEVELS,
    OWN,
    compared,
    headline,
    judged,
    shown_epsilons,
)
from headcount_papers.petti_flaxman_2020.report_facts import FILTERS as FILTERS
from headcount_papers.petti_flaxman_2020.report_facts import facts as facts

COUNT_NAMES = {"SC": "By age, race and ethnicity", "TC": "All people"}
SAMPLES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95)
POINTS = 140  # a curve needs no more to look smooth


_place = pl.col("level").replace_strict(LEVEL_NAMES).alias("place")
_counts = pl.col("count_type").replace_strict(COUNT_NAMES).alias("counts")


def _shortly(column: str, *, times: float = 1) -> pl.Expr:
    """Numbers as text without needless zeros."""
    return (pl.col(column) * times).map_elements(lambda value: f"{value:g}", pl.String)


_promise = pl.format("ε = {}", _shortly("epsilon")).alias("promise")


def _in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort by count type and level, smallest places first, and keep the rest as it is."""
    keys = []
    if "count_type" in frame.columns:
        keys.append(pl.col("count_type").replace_strict({"SC": 0, "TC": 1}))
    keys.append(pl.col("level").replace_strict({name: i for i, name in enumerate(LEVELS)}))
    return frame.sort(*keys, maintain_order=True)


def _lines(
    frame: pl.DataFrame, names: Mapping[str, str], index: list[str], value: str
) -> pl.DataFrame:
    """Some columns under each other, each a line with a name."""
    long = frame.unpivot(list(names), index=index, variable_name="line", value_name=value)
    return long.with_columns(pl.col("line").replace_strict(names))


def _errors(found: Findings) -> pl.DataFrame:
    words = {"mae": "half of all counts are nearer", "p95": "19 of 20 are nearer"}
    keys = ["count_type", "level", "epsilon"]
    frame = _lines(_in_order(found.tables["topdown"]), words, keys, "error")
    return frame.select(_counts, _place, "epsilon", "line", "error")


def _samples(found: Findings) -> pl.DataFrame:
    """Which sample TopDown is like, for every epsilon and kind of count."""
    words = {
        "SC county": "age × race: counties",
        "SC enumeration_district": "age × race: districts",
        "TC county": "totals of counties",
        "TC enumeration_district": "totals of districts",
    }
    kind = pl.format("{} {}", "count_type", "level")
    return (
        compared(found.tables)
        .filter("alike", kind.is_in(list(words)))
        .select(
            kind.replace_strict(words).alias("counts"),
            "epsilon",
            (pl.col("fraction_interpolated") * 100).alias("sample"),
        )
    )


def _curves(found: Findings) -> pl.DataFrame:
    """Thinned curves of TopDown and of some samples."""
    tables, by = found.tables, ["count_type", "level", "mechanism", "parameter"]
    every = (pl.len().over(by) // POINTS).clip(lower_bound=1)
    epsilons = tables["topdown"]["epsilon"].unique().to_list()
    kept = (pl.col("mechanism") == "topdown") & pl.col("parameter").is_in(epsilons)
    kept |= (pl.col("mechanism") == "sampling") & pl.col("parameter").round(4).is_in(SAMPLES)
    # Where TopDown has no curve one point stands in for it, too short a line to be seen.
    lacking = (
        tables["topdown"]
        .filter(pl.col("epl").is_null())
        .select(
            "count_type",
            "level",
            mechanism=pl.lit("topdown"),
            parameter="epsilon",
            x=pl.lit(0.0),
            density=pl.lit(0.0),
            epl=pl.lit(0.0),
        )
    )
    return (
        _in_order(pl.concat([tables["curves"].filter(kept), lacking]))
        .filter(pl.int_range(pl.len()).over(by) % every == 0)
        .select(
            _counts,
            _place,
            pl.col("mechanism").alias("method"),
            pl.col("parameter").round(4),
            pl.col("x").round(2),
            (pl.col("density") * 100).round_sig_figs(4).alias("share"),
            pl.col("epl").fill_nan(None).round_sig_figs(4).alias("loss"),
        )
    )


def _tradeoff(found: Findings) -> pl.DataFrame:
    """Both methods in the plane of error and loss, with a label for each setting."""
    tables, columns = found.tables, ["count_type", "level", "mae", "epl"]
    topdown = tables["topdown"].select(
        *columns,
        pl.lit("topdown").alias("method"),
        _promise.alias("setting"),
        pl.lit(True).alias("named"),
        pl.col("epsilon").alias("step"),
    )
    sampling = tables["sampling"].select(
        *columns,
        pl.lit("sampling").alias("method"),
        pl.format("{} %", _shortly("fraction", times=100)).alias("setting"),
        pl.col("fraction").round(4).is_in(SAMPLES).alias("named"),
        pl.col("fraction").alias("step"),
    )
    both = pl.concat([topdown, sampling]).filter((pl.col("mae") > 0) & pl.col("epl").is_not_null())
    first = pl.col("level").replace_strict({"county": 0, "enumeration_district": 1, "state": 2})
    frame = both.sort(pl.col("count_type") == "TC", first, maintain_order=True).select(
        _counts, _place, "method", "setting", "mae", "epl", "named", "step"
    )
    return with_anchors(frame, ["counts", "place"], places={"mae": (1.0, 10.0), "epl": (0.1, 1.0)})


def _homogeneity(found: Findings) -> pl.DataFrame:
    """Bias by index, both definitions, of places that can err, in numbers that allow a mean."""
    # The definition behind the published numbers comes first.
    names = {"code": "as the paper computes it", "words": "as the paper describes it"}
    bias = found.tables["bias"]
    rows = bias.filter(
        pl.col("epsilon").is_in(shown_epsilons(bias["epsilon"])), pl.col("level") != "state"
    )
    enough = rows.filter(pl.col("units") >= FEWEST_PLACES)
    definition = pl.col("index_definition")
    order = {name: number for number, name in enumerate(names)}
    return (
        _in_order(enough if enough.height else rows)
        .sort(definition.replace_strict(order), maintain_order=True)
        .select(
            _place,
            definition.replace_strict(names).alias("definition"),
            _promise,
            "homogeneity_index",
            "mean_error",
            "p05",
            "p95",
        )
    )


def _sizes(found: Findings) -> pl.DataFrame:
    frame = found.tables["size_bias"]
    rows = frame.filter(pl.col("epsilon").is_in(shown_epsilons(frame["epsilon"])))
    return _in_order(rows).select(_counts, _place, _promise, "size_from", "mean_error")


def _groups(found: Findings) -> pl.DataFrame:
    frame = found.tables["group_bias"]
    rows = frame.filter(pl.col("epsilon").is_in(shown_epsilons(frame["epsilon"])))
    columns = ("group", "mean_error", "mean_absolute_error", "n")
    return _in_order(rows).select(_place, _promise, *columns)


def _group_table(found: Findings) -> pl.DataFrame:
    frame = found.tables["group_bias"]
    return _in_order(frame.filter(epsilon=headline(frame["epsilon"]))).with_columns(_place)


def _corrected(found: Findings) -> pl.DataFrame:
    """EPL beside its calibrated value and the promise."""
    names = {
        "epl": "EPL as published",
        "epl_calibrated": "corrected for few errors",
        "epsilon": "promise ε",
    }
    rows = found.tables["topdown"].filter(pl.col("epl").is_not_null())
    frame = _in_order(rows).with_columns(pl.col("epsilon").alias("at"))
    long = _lines(frame, names, ["count_type", "level", "at"], "loss").drop_nulls()
    return with_anchors(
        long.select(_counts, _place, "at", "line", "loss"),
        ["counts", "place"],
        places={"at": (0.25, 8.0), "loss": (0.1, 1.0)},
    )


def _pure_noise(found: Findings) -> pl.DataFrame:
    number = pl.col("n").map_elements(lambda n: f"{n:,} errors", pl.String)
    return (
        found.tables["appendix_pure_noise"]
        .drop_nulls()
        .select(
            number.alias("errors"),
            "z",
            "ratio",
            (pl.col("p05") / pl.col("z")).alias("low"),
            (pl.col("p95") / pl.col("z")).alias("high"),
        )
    )


def _appendix_epl(found: Findings) -> pl.DataFrame:
    names = {
        "replayed_mean": "EPL of 2,663 errors",
        "mean_at_large_n": "EPL of 539,428 errors",
        "true_loss": "true loss of the noise",
    }
    long = _lines(found.tables["appendix_epl_vs_epsilon"], names, ["epsilon"], "loss").drop_nulls()
    return long.select("epsilon", "line", (pl.col("loss") / pl.col("epsilon")).alias("ratio"))


def _sensitivity(found: Findings) -> pl.DataFrame:
    names = {"published_mean": "setting ignored, as published", "honoured_mean": "setting used"}
    settings = {
        "bandwidth": "width of the kernel",
        "percentile": "percentile of the range",
        "multiplier": "multiplier of the range",
    }
    frame = found.tables["appendix_sensitivity"]
    long = _lines(frame, names, ["parameter", "value"], "epl").drop_nulls()
    setting = pl.col("parameter").replace_strict(settings).alias("setting")
    return long.select(setting, "value", "line", "epl")


def _composition(found: Findings) -> pl.DataFrame:
    """Two measurements combined: the pairs of epsilon that were printed."""
    keys = ["epsilon_total", "epsilon_strata", "epsilon_sum"]
    both = found.tables["appendix_composition"]
    printed = both.filter(pl.col("published").is_not_null()).select(*keys, "published", "epl")
    weighed = both.filter(weights="1 / variance").select(*keys, pl.col("epl").alias("weighed"))
    return printed.join(weighed, on=keys, how="left", maintain_order="left")


def _meaning(found: Findings) -> pl.DataFrame:
    """The size of an error beside the size of a count."""
    by = ["count_type", "level"]
    frame = _in_order(found.tables["sizes"].select(*by, pl.col("median").alias("typical")))
    for epsilon in shown_epsilons(found.tables["topdown"]["epsilon"]):
        mae = f"mae {epsilon:g}"
        rows = found.tables["topdown"].filter(epsilon=epsilon).select(*by, pl.col("mae").alias(mae))
        share = (pl.col(mae) * 100 / pl.col("typical")).alias(f"share {epsilon:g}")
        frame = frame.join(rows, on=by, how="left", maintain_order="left").with_columns(share)
    return frame.with_columns(_counts, _place)


def _columns_of_meaning(found: Findings) -> list[dict[str, Any]]:
    mae, share = {"unit": "people", "format": ",.3g"}, {"label": "", "unit": "%", "format": ".2g"}
    return [
        column
        for epsilon in shown_epsilons(found.tables["topdown"]["epsilon"])
        for column in (
            {"key": f"mae {epsilon:g}", "label": f"ε = {epsilon:g}", **mae},
            {"key": f"share {epsilon:g}", **share},
        )
    ]


def same_error(tables: Tables, *, count_type: str, level: str, epsilon: float) -> float | None:
    """The sample whose median error is nearest to TopDown's by ratio; the middle one of equals."""
    where = {"count_type": count_type, "level": level}
    mae = cell(tables["topdown"], "mae", epsilon=epsilon, **where)
    samples = tables["sampling"].filter(**where).filter(pl.col("mae") > 0)
    if not mae or samples.is_empty():
        return None
    gap = (pl.col("mae") / mae).log().abs().round(6)
    nearest = samples.filter(gap == gap.min())["fraction"].sort()
    return float(nearest[len(nearest) // 2])


def _table_1(found: Findings) -> pl.DataFrame:
    """Table 1 of the paper, with the method that it does without."""
    where = {"count_type": "SC", "level": "county"}
    rows = compared(found.tables).filter(**where).sort("epsilon")
    same = [same_error(found.tables, epsilon=epsilon, **where) for epsilon in rows["epsilon"]]
    printed = found.tables["paper"].filter(id="table 1").select("epsilon", paper="published")
    percents = ("paper", "fraction", "fraction_low", "fraction_high", "same_error")
    return (
        rows.join(printed, on="epsilon", how="left", maintain_order="left")
        .with_columns(
            pl.Series("same_error", same, dtype=pl.Float64),
            pl.when("alike").then(pl.lit("yes")).otherwise(pl.lit("no")).alias("word"),
        )
        .with_columns(pl.col(percents) * 100)
    )


def _agreement(found: Findings) -> pl.DataFrame:
    """How many quoted numbers agree, by kind."""
    ratio = pl.when(pl.col("published") != 0).then(pl.col("ours") / pl.col("published"))
    return (
        judged(found.tables["paper"])
        .filter(OWN)
        .group_by("kind", maintain_order=True)
        .agg(
            pl.len().alias("quoted"),
            pl.col("ours").count().alias("there"),
            pl.col("near", "roughly").sum(),
            ratio.median().alias("ratio"),
        )
    )


def _fit(found: Findings) -> pl.DataFrame:
    word = (
        pl.when(pl.col("within").is_null())
        .then(pl.lit("not judged"))
        .when("within")
        .then(pl.lit("yes"))
        .otherwise(pl.lit("no"))
    )
    place = pl.col("level").replace(LEVEL_NAMES).alias("place")
    return found.tables["fit"].with_columns(word.alias("kept"), place)


def _named(table: str) -> Any:
    """A table by count type and level, both in words."""
    return lambda found: _in_order(found.tables[table]).with_columns(_counts, _place)


VIEWS = {
    "errors-by-epsilon": _errors,
    "samples": _samples,
    "figure-1a": lambda found: _curves(found).drop("loss"),
    "figure-1b": lambda found: _curves(found).drop("share").drop_nulls(),
    "figure-2": _tradeoff,
    "figure-3": _homogeneity,
    "bias-by-size": _sizes,
    "bias-by-group": _groups,
    "group-table": _group_table,
    "small-samples": _corrected,
    "pure-noise": _pure_noise,
    "appendix-epl": _appendix_epl,
    "appendix-sensitivity": _sensitivity,
    "appendix-composition": _composition,
    "meaning": _meaning,
    "table-1": _table_1,
    "agreement": _agreement,
    "paper-numbers": lambda found: found.tables["paper"],
    "fit": _fit,
    "topdown-table": _named("topdown"),
    "sampling-table": lambda found: _named("sampling")(found).with_columns(
        pl.col("fraction") * 100
    ),
}
COLUMNS = {"meaning": _columns_of_meaning}
CHARTS = {
    "of a setting": report_charts.of_a_setting,
    "trade-off": report_charts.trade_off,
    "with a spread": report_charts.with_a_spread,
    "groups": report_charts.groups,
    "with empty choices": report_charts.with_empty_choices,
}
