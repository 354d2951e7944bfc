"""What of a loss concerns one attribute, or a place within a larger one.

A change of one attribute alone moves only the queries that show it, at all levels; a move from one
leaf to another within a unit moves all queries, at the levels below that unit:

    loss(attribute) = largest sum along a path of the losses of queries that show the attribute
    loss(leaf within level) = largest sum along a path of the losses of levels below it

They are smaller than the whole loss, and state what an attacker can learn who knows all else of a
person. The certificates of the 2020 census list them as epsilons, for a tree without only children:
there every path has the losses of the levels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headcount.privacy.compose import along_paths
from headcount.privacy.loss import Loss


@dataclass(frozen=True, kw_only=True)
class MeasuredLoss:
    """The loss of a query at a level, and the paths that it lies on (compose.py)."""

    level: str
    query: str
    loss: Loss
    paths: frozenset[int] | None = None


def attribute_losses(
    measured: Sequence[MeasuredLoss], *, shows: Mapping[str, Collection[str]]
) -> dict[str, Loss]:
    """The loss of each attribute; ``shows`` has the attributes of each query, recoded ones too."""
    attributes = dict.fromkeys(one for some in shows.values() for one in some)
    found = {
        name: _together(one for one in measured if name in shows[one.query]) for name in attributes
    }
    return {name: loss for name, loss in found.items() if loss is not None}


def leaf_losses(measured: Sequence[MeasuredLoss], *, levels: Sequence[str]) -> dict[str, Loss]:
    """The loss of a leaf within a unit of each level above it, from the whole down."""
    found = {
        level: _together(one for one in measured if one.level in levels[depth:])
        for depth, level in enumerate(levels[:-1], start=1)
    }
    return {level: loss for level, loss in found.items() if loss is not None}


def _together(measured: Iterable[MeasuredLoss]) -> Loss | None:
    return along_paths((one.loss, one.paths) for one in measured)
