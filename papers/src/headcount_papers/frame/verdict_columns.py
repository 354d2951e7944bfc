"""Columns of a table of verdicts."""

from __future__ import annotations

import polars as pl

COLUMNS = {
    "id": pl.String,
    "section": pl.String,
    "source": pl.String,
    "claim": pl.String,
    "paper": pl.String,
    "finding": pl.String,
    "published": pl.Float64,
    "ours": pl.Float64,
    "difference": pl.Float64,
    "tolerance": pl.Float64,
    "rule": pl.String,
    "holds": pl.String,
    "share": pl.Float64,
    "cause": pl.String,
    "reason": pl.String,
    "figure": pl.String,
    "covered_by": pl.String,
}
"""Of every table of verdicts; the keys of its rows follow."""
