"""What was read, in a few numbers: true ones, for the curator's eyes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.population.reading import ReadSummary
from headcount.tabulate.counts import Counts


@dataclass(frozen=True, kw_only=True)
class LevelSummary:
    """Units of one level, how many of them have people, and the mean over all of them."""

    name: str
    units: int
    inhabited: int
    mean: float


@dataclass(frozen=True, kw_only=True)
class AttributeSummary:
    """Levels of one attribute: how many were read from the data, and how many nobody has."""

    name: str
    levels: tuple[str, ...]
    new: int
    empty: int


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Numbers that show whether a file was read as it was meant."""

    reading: ReadSummary
    people: int
    levels: tuple[LevelSummary, ...]
    attributes: tuple[AttributeSummary, ...]


def summarize(counts: Counts, reading: ReadSummary) -> Summary:
    """Sum up counts at the leaf, with what their reader met."""
    tree, schema, here = counts.geography, counts.schema, counts.totals()
    people = int(here.sum())
    levels = []
    for level in tree.levels:
        units = tree.size(level)
        inhabited = len(np.unique(tree.ancestors(level)[here > 0]))
        levels.append(
            LevelSummary(name=level, units=units, inhabited=inhabited, mean=people / units)
        )
    cells = np.asarray(counts.matrix.sum(axis=0)).reshape(schema.shape)
    attributes = []
    for axis, attribute in enumerate(schema.attributes):
        others = tuple(other for other in range(cells.ndim) if other != axis)
        # The reader owns up to levels that it took from the data; the list of them is public else.
        new = f"which levels of {attribute.name!r} exist" in counts.read_off
        attributes.append(
            AttributeSummary(
                name=attribute.name,
                levels=attribute.levels,
                new=attribute.size if new else 0,
                empty=int((cells.sum(axis=others) == 0).sum()),
            )
        )
    return Summary(
        reading=reading, people=people, levels=tuple(levels), attributes=tuple(attributes)
    )
