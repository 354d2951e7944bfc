"""Census-like tables of several sizes, on which suppression is measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from headcount.arrays import Floats, Ints
from headcount.draws import multinomial
from headcount.errors import InputError
from headcount.tabulate.additive import product_of_trees
from tests.support.additive_tables import SEED, AdditiveTable, levels_tree

GEOGRAPHY = ("county", "tract", "bg", "block")
RACES = np.array([0.70, 0.13, 0.06, 0.003, 0.012, 0.065, 0.03])
SIZES = (0.28, 0.33, 0.16, 0.13, 0.06, 0.03, 0.01)


def census_rows(households: int = 1_000_000) -> pl.DataFrame:
    """Block x race x Hispanic counts of a synthetic state.

    20 counties x 100 tracts x 3 block groups x 6 blocks; block weights gamma(1.2); households of 1
    to 7 in blocks by weight; a block's races Dirichlet(6 x shares), its Hispanic rate beta(.5,
    2.5); a member's race is drawn anew from the shares with chance .08, and Hispanic flips with
    chance .06. Blocks without anybody are left out.
    """
    rng = np.random.default_rng(SEED)
    blocks = 20 * 100 * 3 * 6
    weight = rng.gamma(1.2, size=blocks)
    mix = rng.dirichlet(6 * RACES, size=blocks).cumsum(axis=1)
    rate = rng.beta(0.5, 2.5, size=blocks)
    block = np.repeat(np.arange(blocks), multinomial(rng, households, weight / weight.sum()))
    size = rng.choice(np.arange(1, 8), size=households, p=SIZES)
    race, hispanic = _race(rng, mix[block]), rng.random(households) < rate[block]
    block, race = np.repeat(block, size), np.repeat(race, size)
    hispanic = np.repeat(hispanic, size)
    member = np.ones(len(block), dtype=bool)
    member[np.cumsum(size) - size] = False
    anew = member & (rng.random(len(block)) < 0.08)
    race[anew] = rng.choice(len(RACES), size=int(anew.sum()), p=RACES)
    hispanic ^= member & (rng.random(len(block)) < 0.06)
    counts = np.bincount((block * 7 + race) * 2 + hispanic, minlength=blocks * 14)
    counts = counts.reshape(blocks, 14)
    there = np.flatnonzero(counts.sum(axis=1))
    at = np.repeat(there, 14)
    cell = np.tile(np.arange(14), len(there))
    return pl.DataFrame(
        {
            "county": at // 1800,
            "tract": at // 18,
            "bg": at // 6,
            "block": at,
            "race": cell // 2,
            "hisp": cell % 2,
            "freq": counts[there].ravel(),
        }
    )


def _race(rng: np.random.Generator, cumulative: Floats) -> Ints:
    drawn = (rng.random(len(cumulative))[:, None] > cumulative).sum(axis=1)
    return np.asarray(np.minimum(drawn, len(RACES) - 1), dtype=np.int64)


def census_table(rows: pl.DataFrame, name: str) -> AdditiveTable:
    """All margins of geography x race x Hispanic; geography is whichever levels are there."""
    wrong = [one for one in ("county", "race", "hisp", "freq") if one not in rows.columns]
    if wrong:
        raise InputError(name, found=f"columns {rows.columns}", expected=f"also {', '.join(wrong)}")
    levels = [rows[level].to_numpy() for level in GEOGRAPHY if level in rows.columns]
    geography, unit = levels_tree(levels)
    race, of_race = levels_tree([rows["race"].to_numpy()])
    hispanic, of_hispanic = levels_tree([rows["hisp"].to_numpy()])
    product = product_of_trees(geography, race, hispanic)
    values = product.fill([unit, of_race, of_hispanic], rows["freq"].to_numpy())
    return AdditiveTable(name=name, additive=product.additive, values=values)


def census_tables(households: int = 1_000_000) -> list[AdditiveTable]:
    """Four tables of one state, from some ten thousand cells to a million."""
    rows = census_rows(households)
    by_tract = rows.group_by("county", "tract", "race", "hisp").agg(pl.col("freq").sum())
    return [
        census_table(by_tract.filter(pl.col("county") < 4), "400 tracts of 4 counties"),
        census_table(by_tract.filter(pl.col("tract") % 5 == 0), "400 tracts of 20 counties"),
        census_table(rows.filter(pl.col("tract") % 10 == 0), "200 tracts with their blocks"),
        census_table(rows, "every block"),
    ]


def folder_tables(directory: Path) -> list[AdditiveTable]:
    """Tables of a folder: every Parquet file with a column ``freq``, the smallest first."""
    files = sorted(directory.glob("*.parquet"), key=lambda one: one.stat().st_size)
    found = [
        census_table(pl.read_parquet(one), one.stem)
        for one in files
        if "freq" in pl.read_parquet_schema(one)
    ]
    if not found:
        raise InputError(
            str(directory),
            found="no Parquet file with a column 'freq'",
            expected="files with county, ..., race, hisp and freq",
        )
    return sorted(found, key=lambda one: one.additive.size)
