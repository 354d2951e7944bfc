"""How fast, how sure and how right is the reconstruction attack?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.figures import Reading, timed
from headcount.arrays import Ints
from headcount.attacks.reconstruction import Reconstruction, reconstruct
from headcount.errors import InputError
from headcount.schema import Schema, load_schema
from tests.support.persons import (
    BlockPeople,
    agreement,
    block_people,
    blocks_geography,
    knowledge_of,
)

BLOCKS = 1000
TRACT_BLOCKS = 80
SEED = 8  # the first whose blocks hold 43,000-45,000 people and the largest nearly 600
SCHEMA = "persons-2010"


def measure(persons: Path | None = None) -> list[Reading]:
    """CPU seconds of one thread, from published tables to records and proven variability.

    Without ``persons`` on synthetic blocks (see ``block_people``); with it on the user's own
    person records (columns block, sex, age, race 1-63, hispanic, and tract if there is one).
    """
    _warm()
    if persons is not None:
        return _measure_file(read_people(persons, load_schema(SCHEMA)))
    blocks = block_people(load_schema(SCHEMA), blocks=BLOCKS, seed=SEED)
    tract = block_people(load_schema(SCHEMA), blocks=TRACT_BLOCKS, seed=SEED + 1)
    return [
        *_blocks(f"{BLOCKS:,} synthetic blocks", blocks),
        *_joint(f"tract of {TRACT_BLOCKS} synthetic blocks", tract),
        _redistricting(blocks),
    ]


def _warm() -> None:
    """Compile on a few people, so that no compiler is measured."""
    people = block_people(load_schema(SCHEMA), blocks=12, seed=1)
    reconstruct(knowledge_of(people, ("sf1",)), together="tract")
    reconstruct(knowledge_of(people, ("sf1",), joint=False))


def _measure_file(people: BlockPeople) -> list[Reading]:
    readings = _blocks("blocks of the file", people)
    if people.has_tracts:
        readings += _joint("tracts of the file", people)
    return readings


def _blocks(name: str, people: BlockPeople) -> list[Reading]:
    knowledge = knowledge_of(people, ("sf1",), joint=False)
    found, _, seconds = timed(lambda: reconstruct(knowledge))
    return [
        Reading(
            f"{name}: records and variability",
            seconds,
            "s CPU",
            f"{people.size:,} people, median {np.median(people.sizes):.0f} and at most "
            f"{people.sizes.max()} a block; {people.source}; {_methods(found)}",
        ),
        *_sureness(people, found),
    ]


def _joint(name: str, people: BlockPeople) -> list[Reading]:
    knowledge = knowledge_of(people, ("sf1",))
    found, _, seconds = timed(lambda: reconstruct(knowledge, together="tract"))
    return [
        Reading(
            f"{name}, jointly, single years of age",
            seconds,
            "s CPU",
            f"{people.size:,} people; {people.source}; {_methods(found)}",
        ),
        *_sureness(people, found),
    ]


def _sureness(people: BlockPeople, found: Reconstruction) -> list[Reading]:
    exactly, binned, missed = agreement(people, found)
    certain = found.certain
    here = people.sizes > 0
    held = people.sizes[certain].sum() / people.size
    return [
        Reading("  blocks proven", 100 * found.proven[here].mean(), "%"),
        Reading(
            "  blocks whose records are certain",
            100 * certain[here].mean(),
            "%",
            f"{100 * held:.1f} % of people",
        ),
        Reading(
            "  certain blocks not recovered exactly (binned age)",
            float((missed[certain] > 0).sum()),
            "blocks",
            at_most=0,
        ),
        Reading(
            "  people recovered, binned age",
            100 * binned,
            "%",
            f"{100 * exactly:.1f} % with the exact age",
        ),
    ]


def _redistricting(people: BlockPeople) -> Reading:
    knowledge = knowledge_of(people, ("pl94-171",))
    found, _, seconds = timed(lambda: reconstruct(knowledge))
    algebra = float((found.method == "algebra").mean())
    return Reading(
        f"{BLOCKS:,} blocks from P.L. 94-171 P1-P4",
        seconds,
        "s CPU",
        f"{100 * algebra:.0f} % by algebra alone, "
        f"{int((agreement(people, found)[2] > 0).sum())} blocks wrong",
    )


def _methods(found: Reconstruction) -> str:
    names, counts = np.unique(found.method, return_counts=True)
    return ", ".join(f"{count:,} by {name}" for name, count in zip(names, counts, strict=True))


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
    geography = blocks_geography(
        places["block"].to_numpy().astype(np.str_),
        parent.astype(np.int32),
        tracts.to_numpy().astype(np.str_),
    )
    return BlockPeople(schema, geography, block.astype(np.int64), cell, path.name, has_tracts)


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
