"""Tables under complementary suppression as the curator sees them: every count with its reason.

Which withheld cells are primary is itself a secret. A withheld cell of which it were known that it
is primary holds 1 to the threshold; one that is not holds more. Either would undo what is promised
of the first: that it may be more than the threshold. So a release says "withheld" of both, and the
reason stands in ``internal/`` only.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import polars as pl

from headcount.files import make_folder, write_bytes_atomic
from headcount.mechanisms.suppression.rules import too_small
from headcount.release.layout import published_stem
from headcount.release.published import FLAG, PUBLISHED, PublishedCells, flagged_frame
from headcount.release.release import TablesRelease
from headcount.tabulate import Counts
from headcount.tabulate.linked_tables import table_values

FLAGGED = "flagged"
"""The folder of these tables."""
PRIMARY, COMPLEMENTARY = "primary", "complementary"


def curators_frame(counts: Counts, one: PublishedCells, *, most: int) -> pl.DataFrame:
    """A table with its true counts: unit, each attribute, n, and a flag.

    The flag is "published", "primary" (a count of 1 to ``most``) or "complementary" (withheld so
    that no sum gives a primary one away).
    """
    truth = table_values(counts.at(one.level), one.cells)
    why = np.where(too_small(truth, most), PRIMARY, COMPLEMENTARY)
    flag = np.where(one.withheld, why, PUBLISHED).ravel()
    return flagged_frame(one, counts.geography).with_columns(
        pl.Series("n", truth.ravel(), dtype=pl.Int64),
        pl.Series(FLAG, flag.tolist(), dtype=pl.String),
    )


def write_flagged(counts: Counts, release: TablesRelease, folder: Path) -> pl.DataFrame:
    """Write every protected table for the curator; how many cells have which flag."""
    most, rows = release.withholding.thresholds.cell, []
    make_folder(folder / FLAGGED)
    for one in release.published:
        if one.name not in release.rules.tables:
            continue  # published whole or not at all
        frame = curators_frame(counts, one, most=most)
        content = io.BytesIO()
        frame.write_parquet(content, compression="zstd")
        file = f"{published_stem(one.name, one.level)}.parquet"
        write_bytes_atomic(folder / FLAGGED / file, content.getvalue())
        flags = frame.group_by(FLAG).agg(pl.len(), pl.col("n").sum())
        number = dict(zip(flags[FLAG], flags["len"], strict=True))
        people = dict(zip(flags[FLAG], flags["n"], strict=True))
        rows.append(
            {
                "table": one.name,
                "level": one.level,
                "cells": frame.height,
                **{name: number.get(name, 0) for name in (PUBLISHED, PRIMARY, COMPLEMENTARY)},
                "people_withheld": people.get(PRIMARY, 0) + people.get(COMPLEMENTARY, 0),
            }
        )
    return pl.DataFrame(rows)
