"""People in blocks for the attack benchmarks: made from a seed, or read from a file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.schema import Schema

MEDIAN, SPREAD, LARGEST = 29, 0.92, 600
HOUSEHOLD_SIZE = (0.28, 0.33, 0.16, 0.13, 0.06, 0.03, 0.01)
RACES = (0.70, 0.13, 0.012, 0.06, 0.003, 0.065, 0.03)
"""White, black, American Indian, Asian, Pacific islander, other, two or more."""


@dataclass(frozen=True, eq=False)
class BlockPeople:
    """One entry a person: block number and cell of the schema."""

    schema: Schema
    geography: Geography
    block: Ints
    cell: Ints
    source: str
    has_tracts: bool = True

    @property
    def size(self) -> int:
        """Number of people."""
        return len(self.block)

    @cached_property
    def sizes(self) -> Ints:
        """People in each block."""
        return np.bincount(self.block, minlength=self.geography.size("block"))

    def counts(self, level: str) -> Any:
        """Counts (units of a level x cells), sparse."""
        from scipy.sparse import coo_array

        unit = self.geography.ancestors(level)[self.block]
        shape = (self.geography.size(level), self.schema.size)
        return coo_array((np.ones(self.size, np.int64), (unit, self.cell)), shape=shape).tocsr()


def block_people(schema: Schema, *, blocks: int, seed: int) -> BlockPeople:
    """Synthetic people of one tract, in households.

    Block sizes are lognormal (median 29, sigma 0.92, at most 600). Households have 1 to 7 members
    (mean 2.49). A block's race mix is Dirichlet(6 x national shares) over seven groups, a member
    differs from the householder with probability 0.08; two or more races are combination k of 57
    with probability in proportion to 1 / k^2. A block's Hispanic share is Beta(0.5, 2.5), a member
    differs with probability 0.06. Householders are 18-89 years old, others 0-84, uniform.
    """
    rng = np.random.default_rng(seed)
    sizes = np.clip(np.rint(rng.lognormal(np.log(MEDIAN), SPREAD, blocks)), 1, LARGEST).astype(int)
    block = np.repeat(np.arange(blocks), sizes)
    n = len(block)
    head = _householders(rng, block, sizes)
    mixes, shares = rng.dirichlet(6 * np.array(RACES), blocks), rng.beta(0.5, 2.5, blocks)
    own = (mixes[block].cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=6)
    weights = 1 / np.arange(1.0, 58.0) ** 2
    several = rng.choice(np.arange(6, 63), n, p=weights / weights.sum())
    race = np.where(own < 6, own, several)
    race = np.where(rng.random(n) < 0.08, race, race[head])
    hispanic = rng.random(n) < shares[block]
    hispanic = hispanic[head] ^ (rng.random(n) < 0.06) & (head != np.arange(n))
    age = np.where(head == np.arange(n), rng.integers(18, 90, n), rng.integers(0, 85, n))
    sex = rng.integers(0, 2, n)
    cell = np.ravel_multi_index((sex, age, race, hispanic.astype(np.int64)), schema.shape)
    codes = np.array([f"b{i:05d}" for i in range(blocks)])
    geography = _geography(codes, np.zeros(blocks, dtype=np.int32), np.array(["t0"]))
    return BlockPeople(schema, geography, block, cell, f"seed {seed}, {block_people.__name__}")


def _householders(rng: np.random.Generator, block: Ints, sizes: Ints) -> Ints:
    """For each person the householder: the first of a household, within the block."""
    n = len(block)
    head = np.empty(n, dtype=np.int64)
    start = 0
    for size in sizes:
        end = start + int(size)
        while start < end:
            members = min(int(rng.choice(7, p=HOUSEHOLD_SIZE)) + 1, end - start)
            head[start : start + members] = start
            start += members
    return head


def read_people(path: Path, schema: Schema) -> BlockPeople:
    """Person records: columns block, sex, age, race (1-63), hispanic, and tract if there is one."""
    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="a .parquet or .csv file")
    table = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
    if missing := {"block", "sex", "age", "race", "hispanic"} - set(table.columns):
        raise InputError(str(path), found=f"no column {sorted(missing)[0]!r}", expected="one")
    has_tracts = "tract" in table.columns
    tract = pl.col("tract").cast(pl.String) if has_tracts else pl.lit("all").alias("tract")
    table = table.with_columns(pl.col("block").cast(pl.String), tract).sort("tract", "block")
    codes = {
        "sex": _code(path, table["sex"], {"male": 0, "female": 1}),
        "age": _numbers(path, table["age"], 0, 130).clip(max=schema.attribute("age").size - 1),
        "race": _numbers(path, table["race"], 1, 63) - 1,
        "hispanic": _code(
            path,
            table["hispanic"],
            {"false": 0, "true": 1, "0": 0, "1": 1, "not_hispanic": 0, "hispanic": 1},
        ),
    }
    cell = np.ravel_multi_index(tuple(codes[name] for name in schema.names), schema.shape)
    places = table.select("tract", "block").unique(maintain_order=True)
    tracts = places["tract"].unique(maintain_order=True)
    parent = places["tract"].replace_strict(tracts, pl.Series(range(len(tracts)))).to_numpy()
    address = table["tract"] + "\0" + table["block"]
    known = places["tract"] + "\0" + places["block"]
    block = address.replace_strict(known, pl.Series(range(len(known)))).to_numpy()
    geography = _geography(
        places["block"].to_numpy().astype(np.str_),
        parent.astype(np.int32),
        tracts.to_numpy().astype(np.str_),
    )
    return BlockPeople(schema, geography, block.astype(np.int64), cell, path.name, has_tracts)


def _geography(
    blocks: NDArray[np.str_], parent: NDArray[Any], tracts: NDArray[np.str_]
) -> Geography:
    nothing = np.empty(0, dtype=np.int32)
    return Geography(
        ("all", "tract", "block"),
        (np.array(["all"]), tracts, blocks),
        (nothing, np.zeros(len(tracts), dtype=np.int32), parent.astype(np.int32)),
    )


def _code(path: Path, values: pl.Series, known: dict[str, int]) -> Ints:
    text = values.cast(pl.String).str.to_lowercase()
    strange = text.filter(~text.is_in(list(known)) | text.is_null())
    if len(strange):
        raise InputError(
            str(path),
            place=f"column {values.name!r}",
            found=repr(strange[0]),
            expected=f"one of {', '.join(known)}",
        )
    return text.replace_strict(known).to_numpy().astype(np.int64)


def _numbers(path: Path, values: pl.Series, least: int, most: int) -> Ints:
    numbers = values.cast(pl.Int64, strict=False)
    strange = values.filter(~numbers.is_between(least, most).fill_null(False))
    if len(strange):
        raise InputError(
            str(path),
            place=f"column {values.name!r}",
            found=repr(strange[0]),
            expected=f"a whole number from {least} to {most}",
        )
    return numbers.to_numpy().astype(np.int64)
