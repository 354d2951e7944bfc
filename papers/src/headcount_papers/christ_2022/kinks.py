"""Where a curve bends: two straight lines that meet, fitted by least squares.

The fit finds the strongest bend, whichever way it goes. It is made twice: to all rates, as at
first, and to rates up to 0.5, the range that the text of the paper suggests. The second was added
*after* the first results were seen, because some curves level off and rise again late; so both are
reported, and claims about bends are judged by each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from headcount.arrays import Floats
from headcount.evaluation.representation import MU
from headcount_papers.christ_2022.settings import RACE, SWAPPERS

FLAT = 1e-9
"""A curve that moves less than this has no bend, and a side that rises less is level."""
RANGES = (0.5, 1.0)
"""The highest rate to which a curve is fitted."""


@dataclass(frozen=True, kw_only=True)
class Kink:
    """Where a curve bends, and its slopes on both sides.

    where
        explained   how much of the squared error of one straight line the bend takes away, 0 to 1
    """

    at: float
    before: float
    after: float
    explained: float


def find_kinks(x: ArrayLike, curves: ArrayLike) -> list[Kink | None]:
    """The kink of each curve (curves x points); None for a flat one, or one of two points.

        minimise sum (y - a - b x - c max(0, x - t))^2 over a, b, c and t

    where
        t   the bend, at a value of x other than the first and the last
    """
    xs, ys = np.asarray(x, dtype=np.float64), np.atleast_2d(np.asarray(curves, dtype=np.float64))
    if len(xs) < 3:
        return [None] * len(ys)
    straight = _explained(_broken(xs, None), ys)
    bends = np.stack([_explained(_broken(xs, place), ys) for place in xs[1:-1]], axis=1)
    where = xs[1:-1][bends.argmax(axis=1)]
    left = np.maximum(np.square(ys).sum(axis=1) - straight, FLAT**2)
    gained = np.clip((bends.max(axis=1) - straight) / left, 0, 1)
    return [_kink(xs, y, at, part) for y, at, part in zip(ys, where, gained, strict=True)]


def _kink(x: Floats, y: Floats, place: float, explained: float) -> Kink | None:
    if np.ptp(y) < FLAT:
        return None
    _, before, change = np.linalg.lstsq(_broken(x, place), y, rcond=None)[0]
    # A flat side comes out as some 1e-14, which every processor rounds in its own way.
    before, after = (0.0 if abs(s) < FLAT else float(s) for s in (before, before + change))
    return Kink(
        at=float(place),
        before=before,
        after=after,
        explained=float(explained),
    )


def _broken(x: Floats, place: float | None) -> Floats:
    bend = [] if place is None else [np.maximum(x - place, 0)]
    return np.column_stack([np.ones_like(x), x, *bend])


def _explained(columns: Floats, ys: Floats) -> Floats:
    """The part of each curve's squares that lies in the span of the columns."""
    basis = np.linalg.qr(columns)[0]
    return np.asarray(np.square(ys @ basis).sum(axis=1))


def kink_table(accuracy: pl.DataFrame, privacy: pl.DataFrame, areas: pl.DataFrame) -> pl.DataFrame:
    """Where KL, and the share identified at each age width, bend with the swap rate.

    Fitted to rates up to each of ``RANGES``; empty where there is no kink, as on a flat curve.
    """
    index = ["county", "draw", "attributes", "reading", "mechanism"]
    kl = accuracy.filter(
        pl.col("mechanism").is_in(list(SWAPPERS)), query=RACE, group="everyone", metric="kl", mu=MU
    ).select(
        *index,
        pl.lit("kl").alias("curve"),
        pl.lit(None, pl.Int64).alias("bucket_width"),
        pl.col("parameter").alias("rate"),
        pl.col("mean").alias("value"),
    )
    found = privacy.filter(
        pl.col("key") == pl.col("key").first(), identity_rule="slot", group="everyone"
    ).select(
        *index,
        pl.lit("identified").alias("curve"),
        "bucket_width",
        "rate",
        pl.col("percent").alias("value"),
    )
    fitted = [_fitted(pl.concat([kl, found]), index, to) for to in RANGES]
    shares = areas.select("county", "draw", "unique_share", pl.lit(6).alias("attributes"))
    by = ["county", "draw", "attributes"]
    typed = shares.with_columns(pl.col("attributes").cast(pl.Int64))
    return pl.concat(fitted).join(typed, on=by, how="left", maintain_order="left")


def _fitted(points: pl.DataFrame, index: list[str], to: float) -> pl.DataFrame:
    curves = (
        points.filter(pl.col("rate") <= to)
        .sort("rate", maintain_order=True)
        .group_by(*index, "curve", "bucket_width", maintain_order=True)
        .agg("rate", "value")
    )
    kinds = dict.fromkeys(("kink", "slope_before", "slope_after", "explained"), pl.Float64)
    parts = []
    # Curves of six and of fifteen attributes may stand on other rates.
    for _, some in curves.group_by("rate", maintain_order=True):
        kinks = find_kinks(some["rate"][0], some["value"].to_list())
        rows = [
            (None,) * 4 if kink is None else (kink.at, kink.before, kink.after, kink.explained)
            for kink in kinks
        ]
        made = pl.DataFrame(rows, schema=kinds, orient="row")
        parts.append(some.drop("rate", "value").with_columns(fitted_to=pl.lit(to)).hstack(made))
    return pl.concat(parts)
