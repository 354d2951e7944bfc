"""Guesses of race and origin from where someone lives: what needs no record of anybody.

Statistical inference is not a privacy violation. A rate of re-identification says something about
a release only beside what these guesses get right.
"""

from __future__ import annotations

import numpy as np

from headcount.arrays import Ints
from headcount.attacks.records import Records
from headcount.geography import Geography

MODAL, PROPORTIONAL = "modal guess", "proportional guess"


def block_modes(records: Records, geography: Geography) -> Ints:
    """The most frequent secret of each leaf unit.

    Where two are equally frequent, or only one person lives there, the mode of the unit above
    (the block group) stands in for it by the same rule; then that of the whole.
    """
    leaf, whole = geography.leaf, geography.levels[0]
    mode, clear = _modes(records, np.arange(geography.size(leaf)))
    for level in dict.fromkeys((geography.levels[max(len(geography.levels) - 2, 0)], whole)):
        ancestor = geography.ancestors(level).astype(np.int64)
        above, above_clear = _modes(records, ancestor)
        mode = np.where(clear, mode, above[ancestor])
        clear = clear | above_clear[ancestor]
    return mode


def _modes(records: Records, unit_of_leaf: Ints) -> tuple[Ints, np.ndarray]:
    """For each unit its most frequent secret, and whether it is the only one, of several people."""
    units, secrets = int(unit_of_leaf.max()) + 1, records.features.secrets
    unit = unit_of_leaf[records.block]
    found, times = np.unique(unit * secrets + records.secret, return_counts=True)
    where, secret = found // secrets, found % secrets
    most = np.zeros(units, dtype=np.int64)
    np.maximum.at(most, where, times)
    top = times == most[where]
    ties = np.bincount(where[top], minlength=units)
    people = np.bincount(unit, minlength=units)
    mode = np.zeros(units, dtype=np.int64)
    mode[where[top][::-1]] = secret[top][::-1]  # the first of several
    return mode, (ties == 1) & (people > 1)


def modal_guess(records: Records, geography: Geography) -> Ints:
    """For each record the mode of its block, in place of its own secret."""
    return block_modes(records, geography)[records.block]


def proportional_guess(records: Records, *, seed: int, order: int = 0) -> Ints:
    """For each record a secret drawn from the shares of its block (its own included)."""
    rng = np.random.default_rng([seed, order, 1])
    by_block = np.argsort(records.block, kind="stable")
    blocks = records.block[by_block]
    start = np.searchsorted(blocks, blocks)
    stop = np.searchsorted(blocks, blocks, side="right")
    drawn = start + (rng.random(len(blocks)) * (stop - start)).astype(np.int64)
    guess = np.empty(len(blocks), dtype=np.int64)
    guess[by_block] = records.secret[by_block[drawn]]
    return guess
