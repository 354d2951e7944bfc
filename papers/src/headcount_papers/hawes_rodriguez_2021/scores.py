"""From replicates to tables: means with intervals, and both guesses beside every rate."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, sqrt

import numpy as np
import polars as pl

from headcount.evaluation.reidentified import MODAL, PERFECT, PROPORTIONAL, RECORDS
from headcount_papers.hawes_rodriguez_2021.methods import NONE

KEYS = ("method", "attacker", "universe")
Spread = tuple[float | None, float | None, float | None]


def reid_table(matches: pl.DataFrame) -> pl.DataFrame:
    """Re-identification by every method, attacker and universe.

    Columns: method, attacker, universe; putative and confirmed in people (means over replicates);
    precision (confirmed over putative) with its 95 % interval, in percent; people in the
    attacker's file, and putative_percent and confirmed_percent of them; the same in percent of
    the population (putative_of_population, confirmed_of_population); modal_guess and
    proportional_guess (precision in percent of guesses on the same matches, from the shares of the
    same release); above_proportional with its interval in points (paired by replicate);
    replicates. The guesses from exact counts are methods of their own.
    """
    exact = matches.filter(method=NONE)
    guesses = [
        exact.filter(by=by).with_columns(pl.lit(by).alias("method"), pl.lit(RECORDS).alias("by"))
        for by in (MODAL, PROPORTIONAL)
    ]
    wide = _with_guesses(pl.concat([matches, *guesses]))
    rows = [
        dict(zip(KEYS, key, strict=True)) | _row(group)
        for key, group in wide.group_by(KEYS, maintain_order=True)
    ]
    return _of_population(pl.DataFrame(rows, infer_schema_length=None))


def _of_population(reid: pl.DataFrame) -> pl.DataFrame:
    """With shares of the population: the perfect attacker has everybody in the file."""
    by = ["method", "universe"]
    everybody = reid.filter(attacker=PERFECT).select(*by, pl.col("people").alias("everybody"))
    found = reid.join(everybody, on=by, how="left", maintain_order="left")
    whole = pl.when(pl.col("everybody") > 0).then("everybody")
    return found.with_columns(
        (100 * pl.col(part) / whole).alias(f"{part}_of_population")
        for part in ("putative", "confirmed")
    ).drop("everybody")


def _with_guesses(matches: pl.DataFrame) -> pl.DataFrame:
    """One row a method, attacker, universe and replicate, with what both guesses get right."""
    by = [*KEYS, "replicate"]
    own = matches.filter(by=RECORDS).drop("by")
    for name, guess in (("modal", MODAL), ("proportional", PROPORTIONAL)):
        beside = matches.filter(by=guess).select(*by, pl.col("confirmed").alias(name))
        own = own.join(beside, on=by, how="left", maintain_order="left")
    return own


def _row(group: pl.DataFrame) -> dict[str, float | int | None]:
    numbers = ("people", "putative", "confirmed")
    mean = {name: float(group[name].to_numpy().mean()) for name in numbers}
    putative, confirmed = group["putative"], group["confirmed"]
    precision = within(percent(confirmed, putative), 0, 100)
    above = percent(confirmed - group["proportional"], putative)
    people = mean["people"]
    return {
        "putative": mean["putative"],
        "confirmed": mean["confirmed"],
        "precision": precision[0],
        "precision_low": precision[1],
        "precision_high": precision[2],
        "people": people,
        "putative_percent": 100 * mean["putative"] / people if people else None,
        "confirmed_percent": 100 * mean["confirmed"] / people if people else None,
        "modal_guess": percent(group["modal"], putative)[0],
        "proportional_guess": percent(group["proportional"], putative)[0],
        "above_proportional": above[0],
        "above_low": above[1],
        "above_high": above[2],
        "replicates": len(group),
    }


def percent(part: pl.Series, whole: pl.Series) -> Spread:
    """The ratio of two sums over replicates, and its 95 % interval, in percent.

        r = sum part / sum whole,   se = sd(part - r whole) / (sqrt(n) mean whole)

    A replicate with few matches weighs little; the mean of ratios would be ruled by those.
    """
    if part.null_count() or not whole.sum():
        return None, None, None
    a, b = part.to_numpy().astype(float), whole.to_numpy().astype(float)
    found = float(a.sum() / b.sum())
    if len(a) == 1:
        return 100 * found, None, None
    reach = _student(len(a)) * float((a - found * b).std(ddof=1)) / (sqrt(len(a)) * b.mean())
    return 100 * found, float(100 * (found - reach)), float(100 * (found + reach))


def _student(n: int) -> float:
    from scipy.stats import t

    return float(t.ppf(0.975, n - 1))


def spread(values: Sequence[float | None] | pl.Series) -> Spread:
    """Mean and the ends of its 95 % interval by Student's t; None where there are no values."""
    kept = np.array([value for value in values if value is not None and isfinite(value)])
    if not len(kept):
        return None, None, None
    mean = float(kept.mean())
    if len(kept) == 1:
        return mean, None, None
    reach = _student(len(kept)) * float(kept.std(ddof=1)) / sqrt(len(kept))
    return mean, mean - reach, mean + reach


def within(found: Spread, least: float, most: float | None) -> Spread:
    """An interval cut to what the quantity can be."""
    mean, low, high = found
    return (
        mean,
        None if low is None else max(low, least),
        high if high is None or most is None else min(high, most),
    )


def mae_table(errors: pl.DataFrame) -> pl.DataFrame:
    """Mean absolute error in people, with its 95 % interval over draws, and areas on average."""
    keys = ("method", "area", "size_category", "statistic")
    rows = []
    for key, group in errors.group_by(keys, maintain_order=True):
        mean, low, high = within(spread(group["mae"]), 0, None)
        rows.append(
            dict(zip(keys, key, strict=True))
            | {"mae": mean, "mae_low": low, "mae_high": high}
            | {"units": round(float(group["units"].to_numpy().mean()))}
        )
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return frame.select(
        "method", "area", "size_category", "statistic", "mae", "mae_low", "mae_high", "units"
    )


def agreement_table(agreed: pl.DataFrame) -> pl.DataFrame:
    """Records that are those of real people of the block, in percent of the people there."""
    keys = ("method", "blocks")
    rows = []
    for key, group in agreed.group_by(keys, maintain_order=True):
        people = round(float(group["people"].to_numpy().mean()))
        mean, low, high = spread(100 * group["agreeing"] / group["people"] if people else [])
        rows.append(
            dict(zip(keys, key, strict=True))
            | {"people": people, "records": float(group["records"].to_numpy().mean())}
            | {"agreement": mean, "agreement_low": low, "agreement_high": high}
        )
    return pl.DataFrame(rows, infer_schema_length=None)
