"""What the benchmark says of the study: how many numbers were judged, and every miss."""

from __future__ import annotations

import polars as pl

from headcount.bench.petti_flaxman_2020 import judged
from headcount.studies.petti_flaxman_2020.targets import ABOVE, COLUMNS, NEAR

SAME = {"mechanism": "topdown", "count_type": "TC", "level": "county", "parameter": 1.0}


def table(*rows: dict[str, object]) -> pl.DataFrame:
    full = [dict.fromkeys(COLUMNS) | SAME | row for row in rows]
    return pl.DataFrame(full, schema=COLUMNS)


def test_misses_are_counted_by_kind_and_named_with_what_was_asked():
    readings = judged(
        table(
            {"statistic": "rmse", "published": 40.0, "ours": 41.0, "tolerance": 2.0}
            | {"within": True, "rule": NEAR},
            {"statistic": "rmse", "published": 40.0, "ours": 45.0, "tolerance": 2.0}
            | {"within": False, "rule": NEAR},
            {"statistic": "max", "published": 40.0, "ours": 45.0, "rule": "not judged"},
            {"statistic": "bias above that at index 4", "published": -5.0, "ours": -6.0}
            | {"homogeneity_index": 8, "within": False, "rule": ABOVE},
            {"statistic": "bias above that at index 0", "published": -9.0, "ours": -5.0}
            | {"homogeneity_index": 4, "within": True, "rule": ABOVE},
        )
    )
    told = [(reading.what, reading.value, reading.unit, reading.note) for reading in readings]
    assert told == [
        ("numbers missed", 2, "of 4", ""),
        ("  topdown, county: order of bias, 0 < 4 < 8 < 12 < 16", 1, "of 2", ""),
        ("  topdown, county: rmse", 1, "of 2", ""),
        ("missed: topdown 1 TC county rmse", 45.0, "people", "asked: within 2 of 40"),
        (
            *("missed: topdown 1 TC county bias above that at index 4 at 8", -6.0),
            *("", "asked: above -5"),
        ),
    ]
