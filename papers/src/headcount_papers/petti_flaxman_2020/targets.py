"""What the published numbers are set beside: this run's tables, and laws and orders in them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from headcount_papers.frame.claims import MeasuredClaim, Tables, verdicts
from headcount_papers.frame.verdict import (
    COMPATIBLE,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
)
from headcount_papers.petti_flaxman_2020.appendix import published_data

ORDERED = (0, 4, 8, 12, 16)
"""Indices of counties over which the bias rises."""


def judge(tables: Tables, *, judged: bool, examined: bool = False) -> dict[str, pl.DataFrame]:
    """The tables ``abstract``, ``paper`` and ``targets``: what is published beside ours.

    ``judged`` says whether this run is one that the targets are about: a nation, four replicates
    pooled. Otherwise only what is exact by construction is judged. ``examined`` is that of
    ``verdicts``.
    """
    total = pl.lit("TC").alias("count_type")  # the bias is that of total counts
    coded = tables["bias"].filter(index_definition="code").with_columns(total)
    answers = tables["equivalence"].drop_nulls("fraction")
    runs = int(tables["topdown"]["runs"][0])
    return verdicts(
        __package__,
        {
            **tables,
            "bias as coded": _with_errors(coded, tables["topdown"]),
            "order of bias": _order(coded),
            "sums of errors": _sums(coded),
            "defined losses": tables["topdown"].drop_nulls("epl"),
            "slopes": _slopes(tables["topdown"]),
            "losses": _losses(tables["topdown"]),
            "answers": answers.with_columns(
                count_type=pl.lit("SC"),
                level=pl.lit("county"),
                spread=pl.col("standard_error") * runs**0.5,
                runs=pl.lit(runs),
            ),
        },
        measures={"largest_error_of_states": _largest_error_of_states},
        judged=judged,
        examined=examined,
    )


PUBLISHED, SIGNS = "published numbers", "signs and orders that the paper reports"
LAWS, IDENTITIES = "laws", "identities"


def met_by_kind(targets: pl.DataFrame) -> dict[str, tuple[int, int]]:
    """How many of the judged rows are reproduced or compatible, and of how many, by kind.

    Published numbers are errors, losses, biases and fractions that the paper or its notebooks
    print. A law or an identity holds in any run that is built rightly, whatever the paper found;
    the published 0 of totals of states is one.
    """
    source, kind = pl.col("source"), pl.col("id")
    states = (pl.col("count_type") == "TC") & (pl.col("level") == "state")
    exact = states & (pl.col("published") == 0)  # those of samples err
    named = (
        pl.when(source.is_in(["the promise", "theory"]))
        .then(pl.lit(LAWS))
        .when((source == "by construction") | exact.fill_null(value=False))
        .then(pl.lit(IDENTITIES))
        .when(kind.is_in(["topdown sign of bias", "topdown order of bias"]))
        .then(pl.lit(SIGNS))
        .otherwise(pl.lit(PUBLISHED))
    )
    met = pl.col("outcome").is_in([REPRODUCED, COMPATIBLE])
    tested = met | pl.col("outcome").is_in([UNDECIDED, NOT_REPRODUCED])
    judged = targets.filter(tested).with_columns(named.alias("kind"))
    found = judged.group_by("kind").agg(met.sum(), pl.len().alias("judged"))
    counts = {row[0]: (row[1], row[2]) for row in found.iter_rows()}
    return {name: counts.get(name, (0, 0)) for name in (PUBLISHED, SIGNS, LAWS, IDENTITIES)}


def _largest_error_of_states(tables: Tables) -> MeasuredClaim:
    largest = tables["topdown"].filter(count_type="TC", level="state")["max"].max()
    return MeasuredClaim(values=[float(largest)] if isinstance(largest, float | int) else [])


def _losses(topdown: pl.DataFrame) -> pl.DataFrame:
    """EPL beside epsilon, and medians of errors beside those of districts, with their spread."""
    kinds = topdown.drop_nulls("epl").filter(pl.col("level") != "state")
    return kinds.with_columns(ratio=pl.col("epsilon") / pl.col("epl"))


def _with_errors(coded: pl.DataFrame, topdown: pl.DataFrame) -> pl.DataFrame:
    """The bias with its standard error: the RMSE of total counts over the root of their number."""
    rmse = topdown.filter(count_type="TC").select("level", "epsilon", "rmse", "runs")
    return coded.join(
        rmse, on=["level", "epsilon"], how="left", maintain_order="left"
    ).with_columns(
        (pl.col("rmse") / pl.col("n").sqrt()).alias("standard_error"),
        (1 / pl.col("epsilon")).alias("one_over_epsilon"),
        (pl.col("rmse") * (pl.col("runs") / pl.col("n")).sqrt()).alias("spread"),
    )


def _sums(coded: pl.DataFrame) -> pl.DataFrame:
    """Errors of totals added up; whole numbers of people, which n x mean is but for its digits."""
    people = (pl.col("n") * pl.col("mean_error")).round().sum().alias("people")
    return coded.group_by("count_type", "level", "epsilon", maintain_order=True).agg(people)


def _slopes(topdown: pl.DataFrame) -> pl.DataFrame:
    """Slope of log RMSE on log epsilon, theirs and ours, over published epsilons that were run."""
    rows: list[dict[str, Any]] = []
    by = ["count_type", "level"]
    both = published_data("topdown").join(topdown, on=[*by, "epsilon"], suffix="_ours")
    for (kind, level), cell in both.filter(pl.col("rmse") > 0).group_by(by, maintain_order=True):
        if cell.height > 1:
            x = np.log(cell["epsilon"].to_numpy())
            theirs, ours = (
                float(np.polyfit(x, np.log(cell[column].to_numpy()), 1)[0])
                for column in ("rmse", "rmse_ours")
            )
            rows.append({"count_type": kind, "level": level, "theirs": theirs, "ours": ours})
    schema = {"count_type": pl.String, "level": pl.String, "theirs": pl.Float64, "ours": pl.Float64}
    return pl.DataFrame(rows, schema=schema)


def _order(coded: pl.DataFrame) -> pl.DataFrame:
    """The bias of counties at each index beside that at the index below it."""
    counties = coded.filter(level="county")
    below = counties.select(
        *("level", "epsilon", pl.col("homogeneity_index").alias("lower")),
        pl.col("mean_error").alias("below"),
    )
    lower = pl.col("homogeneity_index").replace_strict(
        {higher: lower for lower, higher in pairwise(ORDERED)}, default=None, return_dtype=pl.Int64
    )
    return (
        counties.with_columns(lower.alias("lower"))
        .drop_nulls("lower")
        .join(below, on=["level", "epsilon", "lower"], maintain_order="left")
    )
