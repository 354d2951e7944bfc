"""Rounding without targets gives the same counts as ever, among exact ties too."""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from headcount.topdown.solve.batch import NO_BOUND
from headcount.topdown.solve.rounding import RoundingMethod, round_batch
from tests.support.dense import Margin, from_dense, on_variables

CELLS = 12
NESTED = [np.arange(CELLS) // size for size in (12, 6, 2)]

# Children, problems, and a digest of their counts: made before there was any rounding to targets.
BEFORE = [(4, 300, "165b41689dcf5040"), (40, 60, "68c36ae81863a4de")]


def tied_problem(seed, children):
    """A parent with an estimate in quarters, and bounds of nested groups that it need not keep."""
    chance = np.random.default_rng([seed, children])
    counts = chance.poisson(chance.choice([0.4, 1.5], (CELLS, children)))
    counts[chance.random(CELLS) < 0.2] = 0
    x = counts.astype(np.float64)
    for _ in range(3 * children):
        cell, (a, b) = chance.integers(CELLS), chance.choice(children, 2, replace=False)
        part = min(chance.choice([0.25, 0.5, 0.75, 1.0]), x[cell, a])
        x[cell, a] -= part
        x[cell, b] += part
    families = []
    for group in NESTED:
        margin = np.zeros((group.max() + 1, children), np.int64)
        np.add.at(margin, group, counts)
        below, above = chance.choice([0, 1, 9], (2, *margin.shape), p=[0.5, 0.2, 0.3])
        low = np.where(below == 9, -int(NO_BOUND), margin - below)
        high = np.where(above == 9, int(NO_BOUND), margin + above)
        families.append(Margin(group=group, low=low, high=high))
    batch = from_dense(0 * x, weight=1.0, total=counts.sum(axis=1), families=families)
    return batch, on_variables(batch, x)


def test_plain_rounding_is_bit_for_bit_what_it_was_before_targets():
    for children, problems, before in BEFORE:
        digest, repaired = sha256(), 0
        for seed in range(problems):
            found = round_batch(*tied_problem(seed, children))
            digest.update(found.counts.astype("<i8").tobytes())
            repaired += int((found.method == RoundingMethod.NETWORK).sum())
        assert repaired > 0.9 * problems, "hardly a path was looked for"
        assert digest.hexdigest()[:16] == before, children
