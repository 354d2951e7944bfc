"""Reconstruction from one release after another of the same places: what stays the same is reused.

A leaf's records depend on its own tables alone, so a leaf whose tables are those of an earlier
release has the records that were found from them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.attacks.knowledge import Knowledge, KnownTable
from headcount.attacks.reconstruction import Reconstruction, reconstruct
from headcount.errors import InputError
from headcount.geography import Geography


def reconstruct_again(knowledge: Knowledge, before: Knowledge, found: Reconstruction) -> Any:
    """Records as counts (leaf units x cells), leaf by leaf and without variability.

    ``found`` was reconstructed from ``before``, tables of the same places.
    """
    from scipy.sparse import csr_array, vstack

    changed = changed_leaves(knowledge, before)
    if not changed.any():
        return found.matrix
    again = reconstruct(only_leaves(knowledge, np.flatnonzero(changed)), variability=False)
    order = np.argsort(np.concatenate([np.flatnonzero(changed), np.flatnonzero(~changed)]))
    return csr_array(vstack([again.matrix, found.matrix[~changed]], format="csr")[order])


def changed_leaves(knowledge: Knowledge, before: Knowledge) -> Flags:
    """Leaf units of which one table or other says something else than before."""
    leaf = knowledge.geography.leaf
    names, expected = ([held.name for held in one.at(leaf)] for one in (knowledge, before))
    if names != expected:
        raise InputError("knowledge", found=f"tables {names}", expected=f"tables {expected}")
    changed = np.zeros(knowledge.geography.size(leaf), dtype=bool)
    for new, old in zip(knowledge.at(leaf), before.at(leaf), strict=True):
        changed |= _rows_differ(new.low, old.low)
        changed |= _rows_differ(_or_nothing(new.extra, new), _or_nothing(old.extra, old))
        changed |= _rows_differ(_or_nothing(new.value, new), _or_nothing(old.value, old))
        changed |= _known(new) != _known(old)
    return changed


def only_leaves(knowledge: Knowledge, leaves: Ints) -> Knowledge:
    """What is known of some leaf units, in a flat geography of these."""
    leaf = knowledge.geography.leaf
    flat = Geography(
        ("all", leaf),
        (np.array(["all"]), knowledge.geography.units[-1][leaves]),
        (np.empty(0, dtype=np.int32), np.zeros(len(leaves), dtype=np.int32)),
    )
    held = tuple(one.of_units(leaves) for one in knowledge.at(leaf))
    return Knowledge(knowledge.schema, flat, held)


def _rows_differ(one: Any, other: Any) -> Flags:
    difference = (one - other).tocsr()
    difference.eliminate_zeros()
    return np.asarray(np.diff(difference.indptr) > 0)


def _or_nothing(cells: Any, held: KnownTable) -> Any:
    return held.low * 0 if cells is None else cells


def _known(held: KnownTable) -> Flags:
    return np.ones(held.low.shape[0], dtype=bool) if held.known is None else held.known
