"""To the spine and back: counts in the order of its leaves, and a release in that of its places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.errors import RunError
from headcount.geography import Geography
from headcount.storage import Storage
from headcount.tabulate import Counts
from headcount.tabulate.counts import add_up
from headcount.topdown.descend import Descent
from headcount.topdown.parts import reordered
from headcount.topdown.settings import TopDownSettings

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def along_spine(counts: Counts) -> Counts:
    """The same leaves under the spine, in its order."""
    order, spine, quarters = counts.geography.along_spine, counts.geography.spine, counts.quarters
    assert spine is not None
    if quarters is not None:
        quarters = replace(
            quarters,
            geography=spine,
            occupied=quarters.occupied[order],
            vacant=quarters.vacant[order],
        )
    domain = replace(counts.domain, geography=spine)
    return replace(
        counts, domain=domain, level=spine.leaf, matrix=counts.matrix[order], quarters=quarters
    )


def off_spine(
    made: Descent, geography: Geography, *, workspace: Storage | None
) -> dict[str, csr_array[Any, tuple[int, int]]]:
    """Counts of the spine's leaves in the order of the published ones, and all levels above.

    The leaf is mapped from a file in ``workspace``, if there is one.
    """
    back = np.empty_like(geography.along_spine)
    back[geography.along_spine] = np.arange(len(back))
    tables = {geography.leaf: reordered(made.tables[geography.leaf], back, workspace=workspace)}
    for depth in range(len(geography.levels) - 1, 0, -1):
        level, below = geography.levels[depth - 1], geography.levels[depth]
        tables[level] = add_up(tables[below], geography, level, of=below)
    return tables


def refuse_other_totals(
    settings: TopDownSettings, counts: Counts, tables: Mapping[str, csr_array[Any, Any]]
) -> None:
    """Check that what is published exactly is so in published places, whatever the spine's are."""
    for invariant in settings.invariant:
        query = settings.query(invariant.query).matrix(counts.schema)
        truth, released = counts.at(invariant.level).matrix, tables[invariant.level]
        wrong = abs((truth - released) @ query).sum(axis=1).nonzero()[0]
        if len(wrong):
            code = str(counts.geography.units[counts.geography.depth(invariant.level)][wrong[0]])
            raise RunError(
                f"topdown: level {invariant.level!r}, unit {code!r}: found another "
                f"{invariant.query!r} than is published exactly, expected the same"
            )
