"""What the sentences of the report of petti-flaxman-2020 hang on, read off its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log
from typing import Any

import polars as pl

from headcount.comparison.study import Findings
from headcount.comparison.template import percent
from headcount_papers.frame.claims import Tables, read_claims
from headcount_papers.frame.verdict import NOT_JUDGED
from headcount_papers.petti_flaxman_2020.targets import met_by_kind

LEVELS = {"enumeration_district": "districts", "county": "counties", "state": "states"}
"""Smallest places first."""
LEVEL_NAMES = {
    "enumeration_district": "Enumeration districts",
    "county": "Counties",
    "state": "States",
}
KINDS = {
    ("SC", "county"): "counts by age, race and ethnicity in counties",
    ("SC", "enumeration_district"): "counts by age, race and ethnicity in districts",
    ("TC", "county"): "totals of counties",
    ("TC", "enumeration_district"): "totals of districts",
}
"""Kinds of counts that are compared with samples; the paper's own first."""
ALIKE = 1.5
"""TopDown is like a sample if error and loss are each apart by no more than this factor."""
FEWEST = 1000
"""Errors that a comparison with a sample must rest on."""
FEW_DISTRICTS = 20
"""Below so many a mean says nothing."""
FEWEST_PLACES = 5
"""An index of fewer is not drawn."""
FEW_ERRORS, ABOUT_THE_SAME = 30, 1.5
PAPER_EPSILONS = (0.5, 1.0, 2.0)


# --- words ------------------------------------------------------------------------------------


def headline(epsilons: Iterable[float]) -> float:
    """The epsilon to speak of first: 1, or the one nearest to it by ratio."""
    return min(epsilons, key=lambda e: max(e, 1.0) / min(e, 1.0))


def shown_epsilons(epsilons: Iterable[float]) -> list[float]:
    """The paper's three epsilons if they were run, otherwise up to three spread over the run."""
    there = sorted(set(epsilons))
    if set(PAPER_EPSILONS) <= set(there):
        return list(PAPER_EPSILONS)
    return sorted({there[0], there[len(there) // 2], there[-1]})


def people(number: float) -> str:
    """A number of people with its noun: "1 person", "15 people", "2.5 people"."""
    text = f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"
    return f"{text} {'person' if text == '1' else 'people'}"


def off(error: float) -> str:
    """An error with its direction."""
    return f"{abs(error):.1f} people too {'high' if error > 0 else 'low'}"


def a_sample(one: Mapping[str, str]) -> str:
    """A sample with its article: "an 85 % sample for totals of counties"."""
    size = one["sample"]
    article = "an" if size.startswith("8") or size.split()[0] in ("11", "18") else "a"
    return f"{article} {size} sample for {one['counts']}"


FILTERS = {"people": people, "off": off, "a_sample": a_sample}


# --- facts ------------------------------------------------------------------------------------


def facts(found: Findings) -> dict[str, Any]:
    """What the sentences of the report hang on, read off the tables."""
    tables = found.tables
    topdown, nearest = tables["topdown"], compared(tables)
    epsilon = headline(topdown["epsilon"])
    alike = {e: samples_at(nearest, e) for e in topdown["epsilon"].unique()}
    one_cell = tables["sizes"].filter(count_type="TC", level="state")["cells"].to_list() == [1]
    return {
        "epsilon": epsilon,
        "epsilons": topdown["epsilon"].unique().sort().to_list(),
        "fractions": tables["sampling"]["fraction"].unique().sort().to_list(),
        "headline": alike[epsilon],
        "shown_alike": [alike[e] for e in shown_epsilons(topdown["epsilon"])],
        "any_alike": any(one["alike"] for one in alike.values()),
        "alike": ALIKE,
        "method": tables["equivalences"]["method"][0] if nearest.height else "none",
        "losses": _losses(topdown),
        "by_size": errors_by_size(tables["size_bias"]),
        "mixed": _mixed(tables["bias"]),
        "worst_group": _worst_group(tables["group_bias"]),
        "quoted": _quoted(tables["paper"]),
        "tails": _tails(tables["targets"]),
        "only_exact": _only_exact(tables["targets"]),
        "met": met_by_kind(tables["targets"]),
        "fit": _fit_judged(tables["fit"]),
        "one_state": one_cell,
        "place": tables["appendix_composition"]["place"][0],
        "fewest_places": FEWEST_PLACES,
        **_of_captions(tables, epsilon),
    }


def compared(tables: Tables) -> pl.DataFrame:
    """Every nearest sample with TopDown's error and loss over its own, and whether it is alike.

    Nothing is called alike on the strength of a few errors.
    """
    by = ["count_type", "level"]
    topdown = tables["topdown"].select(*by, "epsilon", "mae", "epl", "n")
    samples = tables["sampling"].select(*by, "fraction", "mae", "epl")
    ratios = {"error_ratio": "mae", "loss_ratio": "epl"}
    return (
        tables["equivalences"]
        .join(topdown, on=[*by, "epsilon"], how="left", maintain_order="left")
        .join(samples, on=[*by, "fraction"], how="left", maintain_order="left", suffix="_sample")
        .with_columns(
            (pl.col(column) / pl.col(f"{column}_sample")).alias(name)
            for name, column in ratios.items()
        )
        .with_columns(
            pl.all_horizontal(pl.col(name).log().abs() <= log(ALIKE) for name in ratios)
            .fill_null(False)
            .and_(pl.col("n") >= FEWEST)
            .alias("alike")
        )
        .drop("n", "mae", "epl", "mae_sample", "epl_sample")
    )


def samples_at(nearest: pl.DataFrame, epsilon: float) -> dict[str, Any]:
    """The sample that each kind of count is like at an epsilon, and the kinds like none."""
    found = []
    for (count_type, level), words in KINDS.items():
        for row in nearest.filter(
            "alike", epsilon=epsilon, count_type=count_type, level=level
        ).iter_rows(named=True):
            end = " or larger" if row["fraction"] > 0.5 else " or smaller"
            size = f"{percent(row['fraction'])}{end if row['at_end'] else ''}"
            found.append({"sample": size, "counts": words})
    matched = {one["counts"] for one in found}
    others = [words for words in KINDS.values() if words not in matched]
    return {"epsilon": epsilon, "alike": found, "others": others}


def errors_by_size(size_bias: pl.DataFrame) -> dict[str, Any] | None:
    """How the size of an error goes with the size of a count, and if it grows less than a sample's.

    Over counts by age, race and ethnicity in districts at the headline epsilon; a sample's error
    grows as the square root of the count. None if too few counts differ in size.
    """
    epsilon = headline(size_bias["epsilon"])
    rows = (
        size_bias.filter(count_type="SC", level="enumeration_district", epsilon=epsilon)
        .filter(pl.col("size_from") > 0, pl.col("n") >= FEW_ERRORS)
        .sort("size_from")
    )
    if rows.height < 2:
        return None
    small, large = rows.row(0, named=True), rows.row(-1, named=True)
    errors = large["mean_absolute_error"] / small["mean_absolute_error"]
    counts = large["size_from"] / small["size_from"]
    if errors >= counts:
        kind = "grow"
    elif errors > ABOUT_THE_SAME:
        kind = "less"
    else:
        kind = "same" if errors >= 1 / ABOUT_THE_SAME else "fall"
    less = errors < counts and (kind != "less" or errors < counts**0.5)
    return {"small": small, "large": large, "kind": kind, "less_than_samples": less}


def _losses(topdown: pl.DataFrame) -> dict[str, Any]:
    """Whether the empirical loss stays below the promise, and where it does not."""
    defined = topdown.filter(pl.col("epl").is_not_null())
    above = defined.filter(pl.col("epl") >= pl.col("epsilon"))
    return {
        "defined": defined.height,
        "above": above.height,
        "most": above["n"].max(),
        "share": defined.select((pl.col("epl") / pl.col("epsilon")).median()).item(),
    }


def _mixed(bias: pl.DataFrame) -> list[dict[str, Any]]:
    """The most mixed and the most uniform districts, at the headline epsilon."""
    rows = (
        bias.filter(level="enumeration_district", index_definition="code")
        .filter(pl.col("epsilon") == headline(bias["epsilon"]), pl.col("units") >= FEW_DISTRICTS)
        .sort("homogeneity_index")
    )
    if rows.height < 2:
        return []
    return [rows.row(0, named=True), rows.row(-1, named=True)]


def _worst_group(group_bias: pl.DataFrame) -> dict[str, Any]:
    """The largest bias of a group in districts."""
    epsilon = headline(group_bias["epsilon"])
    rows = group_bias.filter(level="enumeration_district", epsilon=epsilon)
    return rows.sort(pl.col("mean_error").abs(), descending=True).row(0, named=True)


OWN = pl.col("covered_by") == ""
"""A quoted number that is set beside ours in two ways is counted once."""


def judged(paper: pl.DataFrame) -> pl.DataFrame:
    """The quoted numbers with their kind, and whether ours is near or at least roughly so.

    Errors are whole numbers, so they may differ by one; table 1 goes by 5 points and has to agree.
    """
    wider = pl.max_horizontal(0.25 * pl.col("published").abs(), pl.col("tolerance"))
    kind = pl.col("id").str.split(":").list.first()
    what = (
        pl.when(pl.col("id").str.contains("error"))
        .then(pl.lit("errors"))
        .otherwise(pl.col("id").str.split(": ").list.last())
    )
    named = (
        pl.when(kind == "sizes")
        .then(pl.lit("sizes of exact counts"))
        .when(kind == "table 1")
        .then(kind)
        .otherwise(pl.format("{}: {}", kind, what))
    )
    known = pl.col("ours").is_not_null()
    return paper.with_columns(
        named.replace("TopDown: bias", "TopDown: bias by homogeneity").alias("kind"),
        pl.when(known).then(pl.col("difference").abs() <= pl.col("tolerance") + 1e-9).alias("near"),
        (pl.col("difference").abs() - 1e-9 <= wider).alias("roughly"),
    )


def _quoted(paper: pl.DataFrame) -> dict[str, Any]:
    """How many quoted numbers agree, and how TopDown's errors compare with the paper's."""
    found = judged(paper).filter(OWN)
    there = found.filter(pl.col("ours").is_not_null())
    errors = there.filter(pl.col("kind") == "TopDown: errors", pl.col("published") > 0)
    return {
        "numbers": found.height,
        "there": there.height,
        "near": there["near"].sum(),
        "roughly": there["roughly"].sum(),
        "ratio": (errors["ours"] / errors["published"]).median(),
    }


def _only_exact(targets: pl.DataFrame) -> bool:
    """Whether nothing but what must hold in any run was judged."""
    always = [claim.id for claim in read_claims(__package__) if claim.always]
    return targets.filter(pl.col("outcome") != NOT_JUDGED, ~pl.col("id").is_in(always)).is_empty()


def _tails(targets: pl.DataFrame) -> dict[str, Any] | None:
    """How TopDown's largest errors compare with the paper's, but for exact totals of states."""
    largest = targets.filter(pl.col("published") > 0, id="topdown max").drop_nulls("ours")
    if largest.is_empty():
        return None
    ratio = largest["ours"] / largest["published"]
    return {"smaller": int((ratio < 1).sum()), "of": len(ratio), "ratio": ratio.median()}


def _fit_judged(fit: pl.DataFrame) -> dict[str, int]:
    rows = fit.drop_nulls("within")
    return {"judged": rows.height, "within": int(rows["within"].sum())}


def _of_captions(tables: Tables, epsilon: float) -> dict[str, Any]:
    """What captions say only where the tables do."""
    topdown, bias = tables["topdown"], tables["bias"]
    falls = pl.col("rmse").sort_by("epsilon").diff().fill_null(0) <= 0
    exact = topdown.filter(count_type="TC", level="state")["max"]
    humps = tables["curves"].filter(
        mechanism="topdown", count_type="SC", level="enumeration_district", parameter=epsilon
    )
    wide = bias.filter(pl.col("level") != "state", pl.col("units") >= FEW_DISTRICTS)
    wider = (wide["p95"] - wide["p05"]) / 2 > wide["mean_error"].abs()
    left = topdown.select("level", (pl.col("epl_calibrated") / pl.col("epl")).alias("left"))
    median = dict(left.drop_nulls().group_by("level").median().iter_rows())
    return {
        "errors_fall": topdown["epsilon"].n_unique() > 1
        and topdown.group_by("count_type", "level").agg(falls.all())["rmse"].all(),
        "states_exact": bool(exact.len()) and (exact == 0).all(),
        "hump": not humps.is_empty() and -10 < humps.sort("density")["x"][-1] < 0,
        "chance": bool(wider.len()) and wider.all(),
        "differs": _differs(bias),
        "corrections": [
            f"{100 * median[level]:.0f} % for {LEVEL_NAMES[level].lower()}"
            for level in LEVELS
            if level in median
        ],
    }


def _differs(bias: pl.DataFrame) -> list[str]:
    """For how many places, at the least, the two indices differ: as far as their numbers show."""
    by = ["level", "homogeneity_index"]
    units = bias.filter(pl.col("epsilon") == pl.col("epsilon").first())
    code, words = (
        units.filter(index_definition=name).select(*by, pl.col("units").alias(name))
        for name in ("code", "words")
    )
    both = code.join(words, on=by, how="full", coalesce=True).fill_null(0)
    apart = (pl.col("code") - pl.col("words")).abs().sum() / 2 / pl.col("code").sum()
    share = dict(both.group_by("level").agg(apart).iter_rows())
    return [
        f"at least {100 * share[level]:.0f} % of {LEVELS[level]}"
        for level in ("enumeration_district", "county")
        if level in share
    ]
