"""A made-up census of 2020 in few blocks: published as headcount does it, and as the Bureau does.

``as_the_bureau_has_it`` makes of our files what the Bureau publishes: partition folders, spine
codes, its names of queries, columns of its own, rows in any order, and nothing that describes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headcount.mechanisms import Context, protect
from headcount.population import Population
from headcount.population.redistricting_2020 import read_persons_2020
from headcount.processes import silent
from headcount.release import CountsRelease
from headcount.topdown.mechanism import TopDown

LEVELS = ("us", "state", "county", "tract", "block_group", "block")
FOLDERS = dict(zip(LEVELS, ("US", "State", "County", "Tract", "Block_Group", "Block"), strict=True))
SHARES = dict(zip(LEVELS, ("1/16", "3/16", "1/8", "1/8", "1/4", "1/4"), strict=True))
NAMES = {
    "cells_dpq": "detailed_dpq",
    "votingage_hispanic_dpq": "votingage * hispanic_dpq",
    "hhgq_lb_con": "hhgq_total_lb_con",
    "hhgq_ub_con": "hhgq_total_ub_con",
}
TRACTS = ("44001000100", "44001000200", "44003000100", "50001000100", "50001000200")
BLOCKS = [
    f"{tract}{group}{group}{block:03d}" for tract in TRACTS for group in "12" for block in range(2)
]
"""Codes of 16 digits: state, county, tract, block group, block."""

KEYS: dict[str, Any] = {
    "rho": 2,
    "levels": SHARES,
    "queries": {
        "total": {"by": [], "share": "1/4"},
        "hhgq": {"by": ["hhgq"], "share": "1/4"},
        "votingage_hispanic": {"by": ["votingage", "hispanic"], "share": "1/4"},
        "cells": {"share": "1/4"},
    },
    "level_queries": {"us": {"hhgq": "1/3", "votingage_hispanic": "1/3", "cells": "1/3"}},
    "invariant": [{"query": "total", "level": "state"}],
    "bounds": [
        {
            "query": "hhgq",
            "caps": [99_999] * 8,
            "total_level": "state",
            "floors": [0, 1, 1, 1, 1, 1, 1, 1],
            "vacant": True,
            "tighter": True,
        }
    ],
    "passes": {"county": {"fit": [["total"], ["hhgq", "votingage_hispanic", "cells"]]}},
    "spine": True,
    "bypass": "county",
}
MECHANISM = TopDown(**KEYS)


def people(*, inside: tuple[str, ...] = ()) -> Population:
    """Some people in every block, and one home at least; blocks ``inside`` are in a reservation."""
    chance = np.random.default_rng(20)
    blocks = pl.DataFrame(
        {
            "block": BLOCKS,
            "state": [code[:2] for code in BLOCKS],
            "county": [code[:5] for code in BLOCKS],
            "tract": [code[:11] for code in BLOCKS],
            "area": ["0012" if code in inside else "9999" for code in BLOCKS],
            "place": ["00001"] * len(BLOCKS),
            "subdivision": ["00001"] * len(BLOCKS),
        }
    )
    units = pl.DataFrame(
        [(code, "000", 1, 5) for code in BLOCKS] + [(BLOCKS[0], "301", 1, 1)],
        schema=["block", "gqtype", "occupied", "count"],
        orient="row",
    )
    rows = [
        (
            code,
            "000",
            int(chance.integers(90)),
            int(chance.integers(1, 3)),
            int(chance.integers(1, 9)),
        )
        for code in BLOCKS
        for _ in range(chance.integers(4, 30))
    ]
    persons = pl.DataFrame(
        [*rows, (BLOCKS[0], "301", 80, 1, 7)],
        schema=["block", "gqtype", "age", "cenhisp", "cenrace"],
        orient="row",
    )
    return read_persons_2020(persons, blocks=blocks, units=units)


def published(
    folder: Path, *, inside: tuple[str, ...] = (), mechanism: TopDown = MECHANISM, seed: int = 4
) -> CountsRelease:
    """The release of a run, whose measurements are then in the folder."""
    release = protect(
        people(inside=inside), mechanism, seed=seed, context=Context(measurements=folder)
    )
    offered = mechanism.publications()["measurements"]
    offered.write(release, folder, quarters=None, progress=silent)
    return release.as_counts()


@dataclass(frozen=True)
class BureauFiles:
    """The files of a level by their places, to be changed one by one."""

    folder: Path

    def parts(self, level: str, table: str) -> list[Path]:
        return sorted((self.folder / f"{FOLDERS[level]}.parquet" / table).rglob("*.parquet"))

    def change(self, level: str, table: str, how: object) -> None:
        """Rewrite each part by a function from a frame to a frame."""
        for path in self.parts(level, table):
            how(pl.read_parquet(path)).write_parquet(path)  # type: ignore[operator]


def as_the_bureau_has_it(
    ours: Path, folder: Path, *, levels: tuple[str, ...] = LEVELS
) -> BureauFiles:
    """The same measurements as the Bureau publishes them."""
    group_of = {
        row["block"]: row["block_group"]
        for row in pl.read_parquet(ours / "spine.parquet").iter_rows(named=True)
    }
    for level in levels:
        for table in ("DPQuery", "Constraint"):
            parts = sorted((ours / f"{level}.parquet" / table).glob("*.parquet"))
            frame = pl.concat([pl.read_parquet(part) for part in parts])
            if level == "state" and table == "Constraint":
                frame = pl.concat([frame, *_totals_of_whole_states(ours)])
            if level == "block":  # the code of the group, then the 16 digits of the block
                codes = [group_of[code] + code for code in frame["geocode"]]
                frame = frame.with_columns(pl.Series("geocode", codes))
            state = pl.lit("all") if level == "us" else pl.col("geocode").str.slice(1, 2)
            county = pl.col("geocode").str.slice(3, 3)
            frame = frame.with_columns(
                pl.col("query_name").replace(NAMES),
                pl.lit("0123").alias("budget_id"),
                state.alias("State"),
                (county if LEVELS.index(level) > 1 else pl.lit("all")).alias("County"),
            ).sample(fraction=1, shuffle=True, seed=1)
            place = folder / f"{FOLDERS[level]}.parquet" / table
            place.mkdir(parents=True)
            for (state_code, county_code), rows in frame.group_by("State", "County"):
                part = place / f"State={state_code}" / f"County={county_code}"
                part.mkdir(parents=True)
                rows.drop("State", "County").write_parquet(part / "part-0.parquet")
            (place / "_SUCCESS").touch()
    return BureauFiles(folder)


def _totals_of_whole_states(ours: Path) -> list[pl.DataFrame]:
    """Of a state that the spine has in one part the Bureau has a plain total."""
    part = ours / "state.parquet/Together/part-00000.parquet"
    if not part.is_file():
        return []
    nodes = pl.read_parquet(ours / "spine.parquet")["state"].unique()
    state = pl.DataFrame({"node": nodes, "geocode": nodes.str.slice(1)})
    whole = state.filter(pl.len().over("geocode") == 1)
    rows = pl.read_parquet(part)
    joined = rows.join(whole, on="geocode").with_columns(pl.col("node").alias("geocode"))
    return [joined.select(rows.columns)]
