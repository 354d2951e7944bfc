"""What the report of hawes-rodriguez-2021 takes from the study's tables: names and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from headcount.evaluate.attackers import COMMERCIAL, PERFECT
from headcount.evaluate.reidentified import ALL, TELLING
from headcount.studies.hawes_rodriguez_2021.methods import (
    COMPLEMENTARY,
    HI,
    NONE,
    SUPPRESSION,
    SWAPPING,
    TOPDOWN,
)

Tables = Mapping[str, pl.DataFrame]

ATTACKERS = {PERFECT: "perfect", COMMERCIAL: "commercial-like"}
UNIVERSES = {
    TELLING: "hard to guess",
    ALL: "everyone",
    "nonmodal": "unlike their block",
    "unique": "unique by sex and age",
    "nonmodal, zero variability": "unlike their block, certain",
}
"""Universes that figures offer, in few words: they stand in lists on telephones too."""

MEANT = (
    "*Unlike their block*: not of its commonest group. *Certain*: in blocks whose exact tables "
    "allow one solution only. *Hard to guess*: both, and unique by sex and age in the block."
)


@dataclass(frozen=True, kw_only=True)
class About:
    """What a run covers.

    where
        synthetic    a state that was made up; otherwise a file of the user's own
        public       whether it may be published about
    """

    synthetic: bool
    public: bool
    replicates: int


def one(frame: pl.DataFrame, column: str, **where: object) -> float:
    """The value in the only row of a kind; not a number if there is none."""
    found = frame.filter(**where)[column]
    return float("nan") if found.is_empty() or found[0] is None else float(found[0])


def precision(
    tables: Tables, method: str, attacker: str = PERFECT, universe: str = TELLING
) -> float:
    """Percent of matches that are right."""
    where = {"method": method, "attacker": attacker, "universe": universe}
    return one(tables["reid"], "precision", **where)


def confirmed(tables: Tables, method: str) -> float:
    """Percent of those hard to guess whom the perfect attacker matches and is right about."""
    where = {"method": method, "attacker": PERFECT, "universe": TELLING}
    return one(tables["reid"], "confirmed_percent", **where)


def percent(value: float) -> str:
    """A rate in words; a dash where nobody was matched."""
    return f"{value:.1f} %" if value == value else "\N{EN DASH}"


def topdown_names(tables: Tables) -> list[str]:
    """Runs of TopDown, pure first, by epsilon."""
    found = tables["methods"].filter(kind=TOPDOWN)
    return found["method"].to_list()


def main_methods(tables: Tables) -> list[str]:
    """The methods that figures show: swapping without noise at each rate, HI, and TopDown."""
    plain = tables["methods"].filter(
        kind=SWAPPING, size_perturbed_percent=0.0, tract_perturbed_percent=0.0
    )["method"]
    return [NONE, SUPPRESSION, COMPLEMENTARY, *plain, HI, *topdown_names(tables)]


def swapping_noise(tables: Tables) -> pl.DataFrame:
    """Swapping experiments with their noise in words: columns method, rate, noise."""
    size, tract = pl.col("size_perturbed_percent"), pl.col("tract_perturbed_percent")
    return tables["methods"].filter(kind=SWAPPING).select(
        "method",
        pl.col("swapped_percent").alias("rate"),
        pl.when((size == 0) & (tract == 0)).then(pl.lit("no noise"))
        .when(tract == 0).then(pl.format("size noise {} %", size.cast(pl.Int64)))
        .when(size == 0).then(pl.format("tract noise {} % ({} in county)", tract.cast(pl.Int64),
                                        pl.col("of_it_in_county_percent").cast(pl.Int64)))
        .otherwise(pl.format("size {} % and tract {} %", size.cast(pl.Int64),
                             tract.cast(pl.Int64)))
        .alias("noise"),
    )  # fmt: skip


def held(tables: Tables) -> dict[str, int]:
    """How many claims hold, do not, or are only reported."""
    found = dict(tables["claims"]["holds"].value_counts().iter_rows())
    return {verdict: int(found.get(verdict, 0)) for verdict in ("yes", "no", "reported")}
