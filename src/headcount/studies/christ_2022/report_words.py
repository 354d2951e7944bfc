"""Numbers and names that the report of christ-2022 puts into words."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from headcount.studies.christ_2022.settings import DP, RACE, SIMILAR, SWAPPERS

Tables = Mapping[str, pl.DataFrame]

CLIPPED = {
    "query": "after summing",
    "cell": "cell by cell",
}
GROUPS = {"everyone": "everyone", "minorities": "minorities only"}
READINGS = {
    "slot": "the row in the person's place",
    "person": "the person's own record",
    "value": "anybody's, if it tells the truth",
}
FIGURE_COUNTIES = ("Alameda", "Fayette", "Jefferson")
"""Of high, medium and low diversity: those that the paper plots."""
PAPER_MU = 1e-4


def series_named() -> pl.Expr:
    """Mechanisms as legends name them."""
    noise = pl.format("noise, {} age buckets", "buckets")
    return pl.when(pl.col("mechanism") == DP).then(noise).otherwise(pl.col("mechanism"))


def accuracy(
    tables: Tables, *, metric: str, query: str = RACE, attributes: int = 6
) -> pl.DataFrame:
    """One metric at the paper's mu, with rate or epsilon in a column of its own."""
    frame = tables["accuracy"].filter(
        pl.col("mu").is_null() | (pl.col("mu") == PAPER_MU),
        metric=metric, query=query, attributes=attributes,
    )  # fmt: skip
    dp = pl.col("mechanism") == DP
    return frame.with_columns(
        pl.when(~dp).then(pl.col("parameter")).alias("rate"),
        pl.when(dp).then(pl.col("parameter")).alias("epsilon"),
    )


def thin(frame: pl.DataFrame, column: str, *, most: int = 50) -> pl.DataFrame:
    """Fewer values of a column, the first and last among them: a line needs no more."""
    values = frame[column].drop_nulls().unique().sort()
    step = max(1, -(-len(values) // most))
    kept = [*values[::step], *values[-1:]]
    return frame.filter(pl.col(column).is_null() | pl.col(column).is_in(kept))


def shown_counties(tables: Tables) -> list[str]:
    """Three counties from diverse to homogeneous: the paper's, or the first there are."""
    known = tables["areas"]["county"].to_list()
    some = [name for name in FIGURE_COUNTIES if name in known]
    return some if len(some) == 3 else known[:3]


def first_county(tables: Tables, wanted: str) -> str:
    """A county to open a figure with."""
    known = tables["areas"]["county"].to_list()
    return wanted if wanted in known else known[0]


def identified(tables: Tables, *, group: str = "everyone", rule: str = "slot") -> pl.DataFrame:
    """Attacks on six attributes."""
    return tables["privacy"].filter(group=group, identity_rule=rule, attributes=6)


def at_rate(frame: pl.DataFrame, rate: float) -> pl.DataFrame:
    """The rows at the rate nearest to one."""
    away = (frame["rate"] - rate).abs()
    return frame.filter(away == away.min())


def most(frame: pl.DataFrame, column: str = "percent") -> float:
    """The largest value; 0 if there is none."""
    value = frame[column].drop_nans().max()
    return float(value) if isinstance(value, float | int) else 0.0


def held(tables: Tables) -> dict[str, int]:
    """How many claims hold, partly hold and do not."""
    counts = dict(tables["claims"]["holds"].value_counts().iter_rows())
    return {word: counts.get(word, 0) for word in ("yes", "partly", "no")}


def similar(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of the similar swappers."""
    return frame.filter(pl.col("mechanism").is_in(SIMILAR))


def swapping(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of all swappers."""
    return frame.filter(pl.col("mechanism").is_in(list(SWAPPERS)))


def noise_by_county(tables: Tables, metric: str) -> list[float]:
    """The mean of a metric of noise, 2 and 6 age buckets at epsilon 2 and above, by county."""
    frame = accuracy(tables, metric=metric).filter(
        pl.col("buckets").is_in([2, 6]), pl.col("epsilon") >= 2,
        mechanism=DP, clip="query", group="everyone",
    )  # fmt: skip
    return frame.group_by("county").agg(pl.col("mean").mean())["mean"].to_list()
