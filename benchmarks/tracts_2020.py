"""Real tracts with what the Bureau's system made of them, put side by side in one made-up county.

A pair of files, ``persons_NAME.parquet`` and ``persons_NAME_das.parquet``: a row for each person
with the codes of tract and block, age, race (1 to 63) and whether Hispanic, as tabulated and as
protected.

The tracts of a file are from many states, often one from each, and the total of a state is exact.
So they become the tracts of one county, beside a second county of the same state and a second
state, which are those of a small made-up nation (``nation_people``). The tracts' blocks are those
of the first file. Everybody lives in a household: one home stands in every block, so that the
bounds of the preset say that nobody is in group quarters, and no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.nation_people import SEED, nation_2020
from benchmarks.nation_spine import NO_PLACE
from headcount.arrays import Flags, Ints
from headcount.errors import InputError
from headcount.geography.spine import NO_AREA
from headcount.population import Population
from headcount.population.redistricting_2020 import ADULT, read_persons_2020
from headcount.tabulate import Tabulated

COLUMNS = ("tract", "block", "age", "race", "hispanic")
SHAPE = (2, 2, 63)
CELLS = 252
"""Cells of people in households: voting age, Hispanic origin, race."""
COUNTY, MADE_UP = "01001", ("01002", "02001")
NEIGHBOURS = 0.001
"""The made-up nation's share of the real one: 84 tracts."""
TRACT_CODE, BLOCK_CODE = 11, 15
IN_BLOCK = 4
"""Characters of a block's code after that of its tract."""


@dataclass(frozen=True, eq=False, repr=False)
class TractPair:
    """Tracts as tabulated, in their made-up nation, and as the Bureau's system released them.

    where
        data     everybody, made-up neighbours too
        real     which of its blocks are the file's
        block    the Bureau's counts, real blocks x cells; people of other blocks are left out
        tract    the Bureau's totals of tracts, people of all blocks
    """

    name: str
    data: Tabulated
    real: Flags
    block: Ints
    tract: Ints

    @property
    def truth(self) -> Ints:
        """Tabulated counts, real blocks x cells."""
        return np.asarray(self.data.counts.matrix[self.real, :CELLS].toarray(), dtype=np.int64)

    @property
    def of_tract(self) -> Ints:
        """For each real block the number of its tract."""
        tract = self.data.counts.geography.ancestors("tract")[self.real]
        return np.asarray(tract, dtype=np.int64) - int(tract[0])


def read_pairs(directory: Path) -> Iterator[TractPair]:
    """Every pair of files in a folder, by name."""
    if not directory.is_dir():
        raise InputError(str(directory), found="no such folder", expected="a folder with pairs")
    files = sorted(directory.glob("persons_*_das.parquet"))
    if not files:
        raise InputError(
            str(directory),
            found="no file persons_NAME_das.parquet",
            expected="pairs persons_NAME.parquet and persons_NAME_das.parquet",
        )
    for protected in files:
        name = protected.name.removeprefix("persons_").removesuffix("_das.parquet")
        yield read_pair(directory / f"persons_{name}.parquet", protected, name=name)


def read_pair(tabulated: Path, protected: Path, *, name: str) -> TractPair:
    """One pair of files; the protected one may have people in blocks that the other has not."""
    people, released = _persons(tabulated), _persons(protected)
    number = {code: k for k, code in enumerate(sorted(people["tract"].unique()), start=1)}
    strange = sorted(set(released["tract"]) - set(number))
    if strange:
        raise InputError(
            str(protected),
            place="column 'tract'",
            found=f"tract {strange[0]!r}",
            expected=f"one of the {len(number)} tracts of {tabulated.name}",
        )
    data = Tabulated.of(_side_by_side(people, number))
    geography = data.counts.geography
    real = geography.ancestors("county") == geography.find("county", np.array([COUNTY]))[0]
    codes = pl.DataFrame({"code": geography.units[-1][real].tolist()}).with_row_index("row")
    placed = _recoded(released, number, COUNTY).join(
        codes, left_on="block", right_on="code", how="left"
    )
    there = placed.filter(pl.col("row").is_not_null())
    block = np.zeros((codes.height, CELLS), dtype=np.int64)
    np.add.at(block, (there["row"].to_numpy(), _cell(there)), 1)
    of_tract = placed["tract"].replace_strict(
        {f"{COUNTY}{k:06}": k - 1 for k in number.values()}, return_dtype=pl.Int64
    )
    tract = np.bincount(of_tract.to_numpy(), minlength=len(number))
    return TractPair(name, data, real, block, tract.astype(np.int64))


def _persons(path: Path) -> pl.DataFrame:
    """The columns that are used, and whether codes are such as blocks of 2010 and 2020 have."""
    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="the other file of the pair")
    schema = pl.read_parquet_schema(path)
    for column in COLUMNS:
        if column not in schema:
            raise InputError(
                str(path),
                place=f"column {column!r}",
                found=f"columns {list(schema)[:12]}",
                expected=f"the columns {', '.join(COLUMNS)}",
            )
    table = pl.read_parquet(path, columns=list(COLUMNS))
    fits = (pl.col("block").str.len_chars() == BLOCK_CODE) & (
        pl.col("block").str.slice(0, TRACT_CODE) == pl.col("tract")
    )
    wrong = table.filter(~fits.fill_null(False))
    if wrong.height:
        raise InputError(
            str(path),
            place="column 'block'",
            found=f"{wrong['block'][0]!r} in tract {wrong['tract'][0]!r}",
            expected=f"{BLOCK_CODE} characters that begin with the {TRACT_CODE} of the tract",
        )
    return table


def _recoded(people: pl.DataFrame, number: dict[str, int], county: str) -> pl.DataFrame:
    """The same people in tracts of a county that are numbered in the order of the real ones."""
    codes = {code: f"{county}{k:06}" for code, k in number.items()}
    tract = pl.col("tract").replace_strict(codes, return_dtype=pl.String)
    return people.with_columns(tract, (tract + pl.col("block").str.tail(IN_BLOCK)).alias("block"))


def _cell(people: pl.DataFrame) -> Ints:
    """Voting age x Hispanic origin x race, in the order of the schema."""
    adult = (people["age"] >= ADULT).to_numpy()
    hispanic, race = people["hispanic"].to_numpy(), people["race"].to_numpy()
    return np.asarray(np.ravel_multi_index((adult * 1, hispanic * 1, race - 1), SHAPE))


def _side_by_side(people: pl.DataFrame, number: dict[str, int]) -> Population:
    """The tracts in one county, beside a made-up county and a made-up state."""
    real = _recoded(people, number, COUNTY).select(
        "tract",
        "block",
        pl.col("age").cast(pl.Int64),
        (pl.col("hispanic").cast(pl.Int64) + 1).alias("cenhisp"),
        pl.col("race").cast(pl.Int64).alias("cenrace"),
        pl.lit(1, pl.Int64).alias("count"),
    )
    everybody = pl.concat([real, _made_up()]).with_columns(pl.lit("000").alias("gqtype"))
    blocks = everybody.select("block", "tract").unique().sort("block")
    blocks = blocks.with_columns(
        pl.col("block").str.slice(0, 2).alias("state"),
        pl.col("block").str.slice(0, 5).alias("county"),
        pl.lit(NO_AREA).alias("area"),
        pl.lit(NO_PLACE).alias("place"),
        pl.lit(NO_PLACE).alias("subdivision"),
    )
    homes = blocks.select("block", pl.lit("000").alias("gqtype"), pl.lit(1).alias("occupied"))
    return read_persons_2020(everybody.drop("tract"), blocks=blocks, units=homes)


def _made_up() -> pl.DataFrame:
    """People of the two states of a small nation: those of the first become a county."""
    counts = nation_2020(NEIGHBOURS, seed=SEED)
    place, entries = counts.geography, counts.matrix.tocoo()
    state, tract = place.ancestors("state"), place.ancestors("tract")
    codes = np.array(
        [
            f"{MADE_UP[s]}{t + 1:06}{code[-IN_BLOCK:]}"
            for s, t, code in zip(state, tract, place.units[-1].tolist(), strict=True)
        ]
    )
    adult, hispanic, race = np.unravel_index(entries.col % CELLS, SHAPE)
    return pl.DataFrame(
        {
            "block": codes[entries.row],
            "age": adult * ADULT,
            "cenhisp": hispanic + 1,
            "cenrace": race + 1,
            "count": entries.data.astype(np.int64),
        }
    ).select(pl.col("block").str.slice(0, TRACT_CODE).alias("tract"), pl.all())
