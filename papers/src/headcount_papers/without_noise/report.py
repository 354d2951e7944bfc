"""What the report shows: views behind figures and tables, facts for the text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from headcount.comparison.study import Findings
from headcount.mechanisms.coarsening.search import NOWHERE, WITH_AREAS
from headcount.report.figures import point_chart
from headcount_papers.without_noise.settings import LADDERS, PART, SURE

if TYPE_CHECKING:
    from altair.typing import ChartType

BY = ("people", "detail", "method", "family")
WANTED = {"redistricting": "of age, race and origin", "age": "sex, 23 ages, race and origin"}
COUNTED = {"known": "what is known of persons", "race and origin": "race and origin"}


def facts(found: Findings) -> dict[str, Any]:
    """What the text speaks of."""
    settings = found.settings.identity()
    proven = found.tables["proven"]
    everybody = proven.group_by("people", "detail", maintain_order=True).agg(
        pl.col("everybody").mean()
    )
    return {
        "own": bool(settings["digests"]),
        "draws": proven["replicate"].n_unique(),
        "of": [f"{row[0]} ({row[2]:,.0f} people)" for row in everybody.iter_rows()],
        "part": PART,
        "sure": round(100 * SURE),
        "ladders": ", ".join(map(str, LADDERS)),
        "first": next(iter(_named(proven)["wanted"])),
        "leaf": _leaf(found),
        "key": _key(proven),
    }


def _leaf(found: Findings) -> str:
    return str(
        found.tables["errors"].filter(people=found.tables["errors"]["people"][0])["level"][-1]
    )


def _key(proven: pl.DataFrame) -> list[dict[str, Any]]:
    """What the one plan proves of each of the people."""
    rows = proven.filter(pl.col("method").str.starts_with("leaves, apart, crossed at"))
    if rows["detail"].n_unique() > 1:
        rows = rows.filter(detail="age")
    rows = rows.group_by("people", "detail", maintain_order=True).agg(
        low=pl.col("unlike_percent").min(),
        high=pl.col("unlike_percent").max(),
    )
    return [
        {
            **row,
            "value": f"{row['low']:.2f}"
            if row["low"] == row["high"]
            else f"{row['low']:.2f} to {row['high']:.2f}",
        }
        for row in rows.to_dicts()
    ]


def _named(frame: pl.DataFrame) -> pl.DataFrame:
    """Whose and what is wanted, in one word for the reader's choice."""
    wanted = pl.format("{}: {}", "people", pl.col("detail").replace(WANTED))
    return frame.with_columns(wanted=wanted)


def _means(frame: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    return frame.group_by(by, maintain_order=True).agg(pl.selectors.float().mean())


def _plate(found: Findings) -> pl.DataFrame:
    """Error of a level beside what is proven of the non-majority, and what is claimed rightly."""
    errors = _means(found.tables["errors"], [*BY, "counted", "level"])
    proven = _means(found.tables["proven"], [*BY, "everybody"])
    share = 100 / pl.col("everybody")
    proven = proven.with_columns(
        pl.col("unlike_percent").alias("proven of the non-majority"),
        pl.col("all_percent").alias("proven of everybody"),
        (share * pl.col("claimed_right")).alias("claimed rightly"),
        (share * (pl.col("claimed") - pl.col("claimed_right"))).alias("claimed wrongly"),
    )
    of = [
        *("proven of the non-majority", "proven of everybody"),
        *("claimed rightly", "claimed wrongly"),
    ]
    long = proven.unpivot(of, index=list(BY), variable_name="told", value_name="share")
    joined = errors.join(long, on=list(BY), maintain_order="left").drop_nulls("share")
    crossed = (
        pl.when(pl.col("method").str.contains("never"))
        .then(pl.lit("coarsening, never crossed"))
        .when(pl.col("method").str.contains("apart"))
        .then(pl.lit("coarsening, apart below tracts"))
        .otherwise(pl.lit("coarsening, crossed"))
    )
    family = pl.when(pl.col("family") == "coarsening").then(crossed).otherwise("family")
    label = pl.col("method").str.replace("areas of ", "").str.replace(", .*rossed.*$", "")
    label = label.str.replace("complementary suppression|TopDown, |rounded |swapping ", "")
    shown = _named(joined).with_columns(
        at=pl.format("{}, {}", pl.col("counted").replace(COUNTED), "level"),
        way=family,
        label=label,
    )
    # What comes first is chosen first: everything in detail, the finest level, and proofs.
    order = (
        pl.col("people").str.contains("cut into"),
        pl.col("detail") != "age",
        pl.col("told") != "proven of the non-majority",
    )
    return shown.reverse().sort(*order, maintain_order=True)


def _levels(found: Findings) -> pl.DataFrame:
    """Errors by level, wide, beside what is told."""
    errors = _means(found.tables["errors"], [*BY, "counted", "level"])
    levels = errors["level"].unique(maintain_order=True).to_list()
    shown = [
        level for level in (*levels[::-1],) if level in ("part", "block", "block_group", "tract")
    ]
    wide = errors.filter(pl.col("level").is_in(shown)).with_columns(
        column=pl.format("{} {}", pl.col("counted").replace({"race and origin": "secret"}), "level")
    )
    wide = wide.pivot("column", index=list(BY), values="percent", maintain_order=True)
    proven = _means(found.tables["proven"], [*BY, "everybody"])
    right = pl.when(pl.col("claimed") > 0).then(100 * pl.col("claimed_right") / pl.col("claimed"))
    proven = proven.with_columns(
        claimed_percent=100 * pl.col("claimed") / pl.col("everybody"), right_percent=right
    )
    columns = [
        f"{what} {level}" for what in ("secret", "known") for level in ("block", "block_group")
    ]
    missing = [pl.lit(None, dtype=pl.Float64).alias(c) for c in columns if c not in wide.columns]
    return _named(wide.with_columns(missing).join(proven, on=list(BY), maintain_order="left"))


def _given_up(found: Findings) -> pl.DataFrame:
    """The finest plan that keeps a limit, as the range over draws."""
    rows = found.tables["given_up"]
    by = ["people", "detail", "most", "joined", "crossed"]
    least, areas = pl.col("least_people"), pl.col("areas")
    made = rows.group_by(by, maintain_order=True).agg(
        kept=least.is_not_null().sum(),
        low=least.min(),
        high=least.max(),
        areas=areas.mean(),
        kept_secret=pl.col("kept_secret").mean(),
        kept_known=pl.col("kept_known").mean(),
        draws=pl.len(),
    )
    span = (
        pl.when(pl.col("kept") < pl.col("draws"))
        .then(pl.lit("no ladder that was tried"))
        .when(pl.col("low") == pl.col("high"))
        .then(pl.col("low").cast(pl.String))
        .otherwise(pl.format("{} to {}", "low", "high"))
    )
    level = ~pl.col("crossed").is_in([WITH_AREAS, NOWHERE])
    return _named(made).with_columns(
        least=pl.when((pl.col("kept") == pl.col("draws")) & (pl.col("high") == 0))
        .then(pl.lit("none: leaves as they are"))
        .otherwise(span),
        where=pl.when(level).then(pl.format("at {}", "crossed")).otherwise("crossed"),
        place=pl.format("{}; at most {} % proven; {}", "wanted", "most", "joined"),
    )


def _plans(found: Findings) -> pl.DataFrame:
    """Least people against what is proven, by crossing."""
    by = ["people", "detail", "crossed", "joined", "least_people"]
    made = _means(found.tables["plans"].with_columns(pl.col("areas").cast(pl.Float64)), by)
    level = ~pl.col("crossed").is_in([WITH_AREAS, NOWHERE])
    at = pl.when(level).then(pl.format("at {}", "crossed")).otherwise("crossed")
    names = pl.col("least_people").cast(pl.String).replace("0", "leaf")
    return _named(made).with_columns(plan=pl.format("crossed {}", at), least=names)


def labelled_points(frame: pl.DataFrame, *, findings: Findings, **about: Any) -> ChartType:
    """Points of each family of methods, with the strength beside them."""
    import altair as alt

    chart = point_chart(frame, **about)
    x, y = about["x"].column, about["y"].column
    label = (
        alt.Chart(frame)
        .mark_text(align="left", dx=7, dy=-6, fontSize=11)
        .encode(x=f"{x}:Q", y=f"{y}:Q", text="label:N")
    )
    chart.layer = [*chart.layer, label]
    return chart


CHARTS = {"labelled-points": labelled_points}
VIEWS = {
    "error-and-proof": _plate,
    "by-level": _levels,
    "given-up": _plans,
    "given-up-table": _given_up,
}
