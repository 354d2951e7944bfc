"""From replicates to tables: means with intervals, and both guesses beside every rate."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, sqrt

import numpy as np
import polars as pl

from headcount.attacks.guesses import MODAL, PROPORTIONAL
from headcount.evaluate.reidentified import RECORDS
from headcount.studies.hawes_rodriguez_2021.methods import NONE

KEYS = ("method", "attacker", "universe")
Spread = tuple[float | None, float | None, float | None]


def reid_table(matches: pl.DataFrame) -> pl.DataFrame:
    """Precision of every method, attacker and universe, in percent.

    Columns: method, attacker, universe, putative, confirmed, precision, precision_low,
    precision_high (95 % interval of the mean over replicates), people, putative_percent,
    confirmed_percent (of the people in the attacker's file), modal_guess and proportional_guess
    (precision of guesses on the same matches, from the shares of the same release),
    above_proportional, above_low, above_high (paired by replicate), replicates. The guesses from
    exact counts are methods of their own.
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
    return pl.DataFrame(rows, infer_schema_length=None)


def _with_guesses(matches: pl.DataFrame) -> pl.DataFrame:
    """One row a method, attacker, universe and replicate, with the precision of both guesses."""
    rate = 100 * pl.col("confirmed") / pl.col("putative")
    by = [*KEYS, "replicate"]
    own = matches.filter(by=RECORDS).with_columns(rate.alias("precision")).drop("by")
    for name, guess in (("modal", MODAL), ("proportional", PROPORTIONAL)):
        beside = matches.filter(by=guess).select(*by, rate.alias(name))
        own = own.join(beside, on=by, how="left", maintain_order="left")
    return own.with_columns((pl.col("precision") - pl.col("proportional")).alias("above"))


def _row(group: pl.DataFrame) -> dict[str, float | int | None]:
    mean = {
        name: float(group[name].to_numpy().mean()) for name in ("people", "putative", "confirmed")
    }
    precision, above = within(spread(group["precision"]), 0, 100), spread(group["above"])
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
        "modal_guess": spread(group["modal"])[0],
        "proportional_guess": spread(group["proportional"])[0],
        "above_proportional": above[0],
        "above_low": above[1],
        "above_high": above[2],
        "replicates": len(group),
    }


def spread(values: Sequence[float | None] | pl.Series) -> Spread:
    """Mean and the ends of its 95 % interval by Student's t; None where there are no values."""
    from scipy.stats import t

    kept = np.array([value for value in values if value is not None and isfinite(value)])
    if not len(kept):
        return None, None, None
    mean = float(kept.mean())
    if len(kept) == 1:
        return mean, None, None
    reach = float(t.ppf(0.975, len(kept) - 1) * kept.std(ddof=1) / sqrt(len(kept)))
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
    """Mean absolute error in people, with its 95 % interval over replicates."""
    keys = ("method", "area", "size_category", "statistic", "units")
    rows = []
    for key, group in errors.group_by(keys, maintain_order=True):
        mean, low, high = within(spread(group["mae"]), 0, None)
        rows.append(
            dict(zip(keys, key, strict=True)) | {"mae": mean, "mae_low": low, "mae_high": high}
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
        people = int(group["people"][0])
        mean, low, high = spread(100 * group["agreeing"] / people if people else [])
        rows.append(
            dict(zip(keys, key, strict=True))
            | {"people": people, "records": float(group["records"].to_numpy().mean())}
            | {"agreement": mean, "agreement_low": low, "agreement_high": high}
        )
    return pl.DataFrame(rows, infer_schema_length=None)
