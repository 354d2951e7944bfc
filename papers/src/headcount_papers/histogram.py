"""The noisy histogram that Christ, Radway & Bellovin (2022, 4.3) set beside swapping.

Geometric noise on every cell of age bucket x Hispanic x race x household size, summed to the
query that is scored. Negative answers become 0 in one of two ways, and the difference is large:

    query   sum the noisy cells of a group first, then max(0, sum): the default
    cell    max(0, cell) for each cell, then sum: every empty cell adds phantom people, hundreds or
            thousands of them when there are many cells
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise, product, takewhile
from typing import Literal, get_args

import numpy as np

from headcount.arrays import Ints
from headcount.errors import ConfigError
from headcount.mechanisms import Context, CountsOutcome, Design, Geometric
from headcount.noise import Noise
from headcount.release.release import CLIP_NOTE, CLIPPED_AFTER_SUMMING
from headcount.schema import Attribute, Recode, Schema
from headcount.schema.schema import Combination
from headcount.tabulate import Counts, Query

Clip = Literal["query", "cell"]
CLIP_WORDS: dict[str, str] = {
    "query": CLIPPED_AFTER_SUMMING,
    "cell": "cells set to 0 where negative, then summed",
}
LARGEST_HOUSEHOLD = 4


@dataclass(frozen=True, kw_only=True, repr=False)
class Histogram(Geometric):
    """Geometric noise on every leaf cell, and how negative numbers are treated.

    The cells are those of the schema: ``coarsen`` counts to ``histogram_query`` first for the
    paper's. With ``clip="query"`` cells are published as they come, negative ones too, and
    ``answers`` clips after summing. Clipping is post-processing.
    """

    clip: Clip = "query"
    name = "histogram"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_clip(self.clip)

    def check(self, design: Design, counts: Counts) -> tuple[str, ...]:
        """Say how negative numbers are treated."""
        return (f"negative counts: {CLIP_WORDS[self.clip]}",)

    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        """Leaf cells plus noise, clipped here if that is done cell by cell."""
        made = super().run(design, counts, noise, runs=runs, context=context)
        tables = {level: made.dense(level) for level in made.tables}
        if self.clip == "cell":
            tables = {level: np.maximum(cells, 0) for level, cells in tables.items()}
        return CountsOutcome(tables, {CLIP_NOTE: CLIP_WORDS[self.clip]})


def answers(cells: Ints, schema: Schema, query: Query, *, clip: Clip) -> Ints:
    """Answers to a query from noisy cells (..., cells), clipped at 0 as ``clip`` says."""
    _check_clip(clip)
    kept = np.maximum(cells, 0) if clip == "cell" else cells
    flat = kept.reshape(-1, schema.size) @ query.matrix(schema)
    return np.asarray(np.maximum(flat, 0)).reshape(*cells.shape[:-1], -1)


def histogram_query(schema: Schema, *, buckets: int) -> Query:
    """The paper's histogram: age bucket x Hispanic x race x household size 1, 2, 3, 4+.

    Household size is left out where the schema has none; people in group quarters, who have no
    household size, stay apart where a level says so.
    """
    for name in ("age", "hispanic", "race"):
        schema.attribute(name)
    by: list[str | Recode] = [age_buckets(schema.attribute("age"), buckets), "hispanic", "race"]
    if "household_size" in schema.names:
        by.append(_up_to(schema.attribute("household_size"), LARGEST_HOUSEHOLD))
    return Query(f"{buckets} age buckets x hispanic x race x household size", tuple(by))


def age_buckets(age: Attribute, buckets: int) -> Recode:
    """Ages in buckets of floor(ages / buckets) years, the last one with what remains."""
    if type(buckets) is not int or not 1 <= buckets <= age.size:
        raise ConfigError(
            "histogram", place="buckets", found=repr(buckets), expected=f"1 to {age.size}"
        )
    width = age.size // buckets
    starts = [number * width for number in range(buckets)]
    return _grouped(age, "age_bucket", [*starts, age.size])


def coarsen(counts: Counts, query: Query) -> Counts:
    """The same people on the coarser schema of a query's attributes.

    A coarse cell is a structural zero if all that it gathers are.
    """
    fine = counts.schema
    attributes = query.attributes(fine)
    possible = np.zeros(query.size(fine), dtype=bool)
    possible[query.groups(fine)[fine.possible]] = True
    zeros: tuple[Combination, ...] = ()
    if not possible.all():
        named = product(*([(a.name, (level,)) for level in a.levels] for a in attributes))
        zeros = tuple(cell for cell, lives in zip(named, possible, strict=True) if not lives)
    schema = Schema(attributes, zeros)
    matrix = (counts.matrix @ query.matrix(fine)).tocsr()
    domain = replace(counts.domain, schema=schema)
    return replace(counts, domain=domain, matrix=matrix, quarters=None)


def _up_to(size: Attribute, largest: int) -> Recode:
    """Levels one by one, the last with all larger ones; "none" and the like stay by themselves."""
    counted = len(list(takewhile(lambda level: level[:1].isdigit(), size.levels)))
    starts = [*range(min(largest, counted)), *range(counted, size.size + 1)]
    return _grouped(size, "household_size_up_to_4", starts)


def _grouped(attribute: Attribute, name: str, starts: list[int]) -> Recode:
    groups = {}
    for low, high in pairwise(starts):
        levels = attribute.levels[low:high]
        label = levels[0] if len(levels) == 1 else f"{levels[0]} to {levels[-1]}"
        groups[label] = levels
    return Recode.of(attribute, name, groups)


def _check_clip(clip: str) -> None:
    if clip not in get_args(Clip):
        raise ConfigError("histogram", place="clip", found=repr(clip), expected="query or cell")
