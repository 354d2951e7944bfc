"""What the benchmark says of the study: how many numbers were judged, and every miss."""

from __future__ import annotations

import polars as pl

from benchmarks.petti_flaxman_2020 import judged, tolerances
from headcount.studies.frame.claims import COLUMNS

SCHEMA = {**COLUMNS, "count_type": pl.String, "level": pl.String}


def table(*rows: dict[str, object]) -> pl.DataFrame:
    full = [dict.fromkeys(SCHEMA) | {"level": "county", "claim": row["id"]} | row for row in rows]
    return pl.DataFrame(full, schema=SCHEMA)


def test_misses_are_counted_by_kind_and_named_with_what_was_asked():
    near = {"id": "topdown rmse", "published": 40.0, "tolerance": 2.0, "rule": "within tolerance"}
    order = {"id": "topdown order of bias", "rule": "above"}
    readings = judged(
        table(
            near | {"ours": 41.0, "holds": "yes"},
            near | {"ours": 45.0, "holds": "no"},
            {"id": "topdown max", "published": 40.0, "ours": 45.0, "holds": "not judged"},
            order | {"published": -5.0, "ours": -6.0, "holds": "no"},
            order | {"published": -9.0, "ours": -5.0, "holds": "yes"},
        )
    )
    told = [(reading.what, reading.value, reading.unit, reading.note) for reading in readings]
    assert told == [
        ("published numbers: met", 1, "of 2", ""),
        ("signs and orders that the paper reports: met", 1, "of 2", ""),
        ("laws: met", 0, "of 0", ""),
        ("identities: met", 0, "of 0", ""),
        ("numbers missed", 2, "of 4", ""),
        ("  topdown rmse, county", 1, "of 2", ""),
        ("  topdown order of bias, county", 1, "of 2", ""),
        ("missed: topdown rmse", 45.0, "", "asked: within 2 of 40"),
        ("missed: topdown order of bias", -6.0, "", "asked: above -5"),
    ]


def test_wrong_builds_are_held_to_the_tolerances_of_the_study():
    assert tolerances() == {
        ("TC", "enumeration_district"): 0.03,
        ("TC", "county"): 0.05,
        ("SC", "enumeration_district"): 0.04,
        ("SC", "county"): 0.07,
        ("SC", "state"): 0.15,
    }
