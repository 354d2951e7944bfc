"""The tables of a comparison: means over replicates, and what stands out in them.

    people  = sum of |released - exact| / counts             the mean error of a count, in people
    percent = 100 x sum of |released - exact| / sum of exact   the same beside what is counted
    bias    = sum of (released - exact) / counts

where
    the sums run over the counts of one set, which is the same for every case, and over replicates
    se      of a percentage: standard deviation between replicates / sqrt(replicates)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from headcount.comparison.measures import EVERYBODY
from headcount.comparison.methods import NONE, Way
from headcount.evaluation.breakdown import EVERY_CELL, EVERYONE
from headcount.evaluation.empirical_privacy_loss import FEWEST
from headcount.evaluation.tally import SUMS, mean_errors
from headcount.mechanisms import Chain
from headcount.tabulate.query import CELLS
from headcount.typed import shaping

FEWEST_COUNTS = 10
"""Groups of fewer counts are not ranked by their percentage: it would be chance."""
MOST_HURT = 10


def case_table(ways: Sequence[Way], promised: Mapping[str, Any]) -> pl.DataFrame:
    """A row for each case: its method, its strength, and what it promises."""
    return pl.DataFrame(
        [
            {
                "case": way.name,
                "method": way.method,
                "strength": way.strength,
                "guarantee": promised[way.name].words,
                "epsilon": promised[way.name].epsilon,
                "settings": settings_words(way.mechanism),
            }
            for way in ways
        ],
        schema_overrides={"epsilon": pl.Float64},
    )


def settings_words(chain: Chain) -> str:
    """The steps of a chain with their keys, as a config has them."""
    said = []
    for part in chain.parts:
        if part.keeps_settings_secret:
            said.append(part.public_text)
            continue
        shown = shaping(part, secret=False)
        keys = [f"{key} = {json.dumps(value)}" for key, value in shown.items()]
        said.append(f"{part.called}: {', '.join(keys)}" if keys else part.called)
    return "; then ".join(said)


def errors_by_place(sums: pl.DataFrame, cases: pl.DataFrame) -> pl.DataFrame:
    """Errors by level, attribute, group and people in the unit; also for units of all sizes."""
    by = ["case", "level", "attribute", "group"]
    every = sums.group_by([*by, "replicate"], maintain_order=True).agg(pl.col(tuple(SUMS)).sum())
    every = every.with_columns(
        low=pl.lit(None, dtype=pl.Int64), high=pl.lit(None, dtype=pl.Int64), band=pl.lit(ALL_SIZES)
    )
    both = pl.concat([every, sums.with_columns(band=band_words())], how="diagonal")
    return _means(both, [*by, "band", "low", "high"], cases)


def errors_by_count(sums: pl.DataFrame, cases: pl.DataFrame) -> pl.DataFrame:
    """Errors by level, attribute and true size of the count itself."""
    named = sums.with_columns(band=band_words())
    return _means(named, ["case", "level", "attribute", "band", "low", "high"], cases)


ALL_SIZES = "all sizes"


def band_words() -> pl.Expr:
    """A band in words: "100 to 999", "10,000 or more"; a band of one number is that number."""
    low, last = _thousands(pl.col("low")), _thousands(pl.col("high") - 1)
    return (
        pl.when(pl.col("high").is_null())
        .then(pl.format("{} or more", low))
        .when(pl.col("high") - pl.col("low") == 1)
        .then(low)
        .otherwise(pl.format("{} to {}", low, last))
    )


def _thousands(number: pl.Expr) -> pl.Expr:
    return number.map_elements(lambda n: f"{n:,}", return_dtype=pl.String)


def _means(sums: pl.DataFrame, by: Sequence[str], cases: pl.DataFrame) -> pl.DataFrame:
    """Means over replicates and counts, in the order of the cases."""
    means = mean_errors()
    runs = pl.len().alias("replicates")
    spread = means["percent"].std() / pl.len().sqrt()
    made = (
        sums.group_by(by, maintain_order=True)
        .agg(runs, *(pl.col(name).mean() for name in SUMS), spread.alias("percent_se"))
        .with_columns(**means)
        .drop("absolute", "signed", "squared")
    )
    order = cases.select("case", "method").with_row_index("_order")
    return (
        made.join(order, on="case", maintain_order="left")
        .sort("_order", maintain_order=True)
        .drop("_order")
    )


def who_is_hurt(places: pl.DataFrame, *, levels: Sequence[str]) -> pl.DataFrame:
    """The groups whose counts are furthest off, in percent, for each case and level.

    Groups are those of each attribute, in units of one band of size; of fewer counts than ten, or
    with fewer people than counts, none are ranked: a percentage of next to nobody says little.
    """
    ranked = (
        places.filter(
            pl.col("attribute") != EVERY_CELL,
            pl.col("band") != ALL_SIZES,
            pl.col("counts") >= FEWEST_COUNTS,
            pl.col("people") >= pl.col("counts"),
            pl.col("percent") > 0,
            pl.col("level") != levels[0],
        )
        .sort("percent", descending=True, maintain_order=True)
        .group_by("case", "level", maintain_order=True)
        .head(MOST_HURT)
    )
    return ranked.select(
        *("case", "method", "level", "attribute", "group", "band"),
        *("counts", "mean_count", "error", "percent", "bias_percent"),
    )


def shortfalls(sums: pl.DataFrame, withheld: pl.DataFrame, cases: pl.DataFrame) -> pl.DataFrame:
    """Counts below 0, groups that are lost, and people withheld, by case and level."""
    by, names = ["case", "level"], sums["attribute"].unique(maintain_order=True).to_list()
    attributes = [name for name in names if name not in (EVERYONE, EVERY_CELL)]
    finest = EVERY_CELL if EVERY_CELL in names else (attributes or [EVERYONE])[-1]

    def mean_of(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
        """Means over replicates, and over attributes, each of which counts everybody once."""
        return (
            frame.group_by([*by, "replicate", "attribute"], maintain_order=True)
            .agg(pl.col(columns).sum())
            .group_by(by, maintain_order=True)
            .agg(pl.col(columns).mean())
        )

    groups = sums.filter(pl.col("attribute").is_in(attributes or [EVERYONE]))
    lost = mean_of(groups, "counts", "lost", "lost_people", "negative")
    cells = mean_of(sums.filter(attribute=finest), "counts", "negative")
    cells = cells.rename({"counts": "cells", "negative": "negative_cells"})
    gone = withheld.group_by(by, maintain_order=True).agg(
        withheld=pl.col("withheld").sum() + pl.col("zeroed").sum(),
        withheld_people_percent=pl.col("people_percent").max(),
    )
    found = lost.join(cells, on=by, how="left", maintain_order="left")
    both = found.join(gone, on=by, how="full", coalesce=True, maintain_order="left_right")
    order = cases.select("case").with_row_index("_order")
    return (
        both.join(order, on="case", maintain_order="left")
        .sort("_order", maintain_order=True)
        .drop("_order")
    )


def at_lowest(short: pl.DataFrame) -> pl.DataFrame:
    """The finest level of each case: rows of a case go from the whole down."""
    return short.group_by("case", maintain_order=True).last()


_OF_A_TABLE = ("case", "table", "level")


def changes_by_table(changes: pl.DataFrame) -> pl.DataFrame:
    """Changes of tables beside the true ones: means over replicates, and the largest of all."""
    largest = [name for name in changes.columns if name.endswith("largest")]
    means = pl.exclude(*_OF_A_TABLE, "replicate", *largest).mean()
    spread = (pl.col("d1").std() / pl.len().sqrt()).alias("d1_se")
    every = changes.group_by(_OF_A_TABLE, maintain_order=True)
    return every.agg(pl.len().alias("replicates"), means, spread, pl.col(largest).max())


def distribution_by_table(frames: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """How many cells of a table are changed by so much, on average over replicates."""
    runs = frames["table_changes"].group_by(_OF_A_TABLE).agg(replicates=pl.len())
    by = [*_OF_A_TABLE, "change"]
    summed = frames["table_distribution"].group_by(by, maintain_order=True).agg(pl.sum("cells"))
    return summed.join(runs, on=_OF_A_TABLE, maintain_order="left").select(
        *by, cells=pl.col("cells") / pl.col("replicates")
    )


def distances_by_table(distances: pl.DataFrame) -> pl.DataFrame:
    """Deciles of the three distances of cells, on average over replicates."""
    by = [*_OF_A_TABLE, "distance"]
    return distances.drop("replicate").group_by(by, maintain_order=True).mean()


def attack_table(attacks: pl.DataFrame, cases: pl.DataFrame) -> pl.DataFrame:
    """What each attack found, beside guesses, and beside what it finds without any protection."""
    key = ["attack", "who"]
    bare = attacks.filter(case=NONE).select(*key, unprotected_percent="right_percent")
    joined = attacks.drop("replicate").join(bare, on=key, how="left", maintain_order="left")
    return joined.join(cases.select("case", "method"), on="case", maintain_order="left")


def largest_errors(largest: pl.DataFrame) -> pl.DataFrame:
    """The largest errors of the first release of each case, largest first."""
    return largest.drop("replicate").filter(pl.col("error") != 0)


def memo_table(
    cases: pl.DataFrame,
    places: pl.DataFrame,
    *,
    hurt: pl.DataFrame,
    short: pl.DataFrame,
    attacks: pl.DataFrame,
    epl: pl.DataFrame,
    audit: pl.DataFrame,
    levels: Sequence[str],
) -> pl.DataFrame:
    """One row a case: what it promises, what it costs where people live, and what it gives away."""
    leaf, above = levels[-1], levels[-2] if len(levels) > 1 else levels[-1]
    totals = places.filter(attribute=EVERYONE, band=ALL_SIZES)
    at_leaf = totals.filter(level=leaf).select(
        "case", leaf_error="error", leaf_percent="percent", leaf_se="percent_se"
    )
    at_above = totals.filter(level=above).select(
        "case", above_error="error", above_percent="percent"
    )
    worst = hurt.filter(level=leaf).group_by("case", maintain_order=True).first()
    worst = worst.select(
        "case", worst_percent="percent", worst=pl.format("{}: {}", "attribute", "group")
    )
    missing = at_lowest(short).select(
        "case", "negative_cells", "lost_people", "withheld_people_percent"
    )
    losses = epl.filter(pl.col("level") == leaf, pl.col("n") >= FEWEST)
    finest = CELLS if CELLS in epl["query"] else "total"
    losses = losses.filter(query=finest).select("case", epl="epl_calibrated")
    found = audit.select("case", audit_at_least="at_least", audit_refuted="refuted")
    named = attacks.filter(attack="reidentification", who=EVERYBODY)
    named = named.select("case", found_percent="right_percent", guess_percent="guess_percent")
    memo = cases.drop("settings")
    for more in (at_leaf, at_above, worst, missing, losses, found, named):
        memo = memo.join(more, on="case", how="left", maintain_order="left")
    return memo
