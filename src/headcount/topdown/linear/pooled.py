"""Answers pooled with those of the level below, query by query: the weights, which need no answer.

    y*_u = (w_u y_u + b_u sum over j of y*_j) / (w_u + b_u),   w*_u = w_u + b_u
    b_u  = 1 / (sum over j of 1 / w*_j)

where
    y_u, w_u     the answer of unit u, and 1 / its variance: 0 where it was not asked
    j            the children of u; at the lowest level that takes part y* = y and w* = w
    b_u          1 / variance of the children's sum; 0 where a child has no answer

This is the first half of generalised least squares (tree.py) where every level splits its loss over
queries alike, and close to it elsewhere. Hay et al. (2010), Boosting the accuracy of differentially
private histograms through consistency.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.topdown.linear.kinds import Kinds, NoiseTree

LEAST_GAIN = 0.01
"""A level takes part if it makes the standard deviation of some answer above smaller by this."""
MOST_ANSWERS = 1 << 26
"""Leaves take part only if they have no more answers together: all of these would be drawn."""


def own_weights(tree: NoiseTree, query: str, depth: int) -> Floats:
    """1 / variance of a query's answers in each kind of unit; 0 where it is not asked."""
    by_class = np.array([one.get(query, 0.0) for one in tree.levels[depth].weights])
    return by_class[tree.kinds[depth].noise]


def pooled_weights(tree: NoiseTree, query: str, lowest: int) -> list[Floats]:
    """w* of every kind, at the levels from the whole to the ``lowest`` that takes part."""
    found: list[Floats] = []
    for depth in range(lowest, -1, -1):
        own = own_weights(tree, query, depth)
        if found and query not in tree.levels[depth].exact:
            own = own + _of_sum(tree.kinds[depth], found[0])
        found.insert(0, own)
    return found


def _of_sum(kinds: Kinds, below: Floats) -> Floats:
    """1 / variance of the sum of children's answers, for each kind."""
    with np.errstate(divide="ignore"):
        return 1 / np.add.reduceat(kinds.times / below[kinds.child], kinds.first)


def lowest_gaining(tree: NoiseTree, answers: Mapping[str, int]) -> int:
    """The depth of the lowest level whose answers are worth pooling with those above; 0 if none.

    ``answers`` are the queries, each with how many answers it has in a unit. A level right above
    that has no answers of its own gains all that the one below can tell it.
    """
    leaf = len(tree.levels) - 1
    if leaf and tree.units(leaf) * sum(answers.values()) > MOST_ANSWERS:
        leaf -= 1
    for depth in range(leaf, 0, -1):
        silent = not any(own_weights(tree, query, depth - 1).any() for query in answers)
        for query in answers:
            without = pooled_weights(tree, query, depth - 1)
            pooled = pooled_weights(tree, query, depth)
            if silent and pooled[depth - 1].any():
                return depth
            for above in range(depth):
                units = tree.kinds[above].units * (own_weights(tree, query, above) > 0)
                if units.any() and _gain(without[above], pooled[above], units) >= LEAST_GAIN:
                    return depth
    return 0


def _gain(without: Floats, pooled: Floats, units: Ints) -> float:
    """By how much pooling makes the standard deviation of a mean unit smaller."""
    some = units > 0
    before, after = (np.average(1 / one[some], weights=units[some]) for one in (without, pooled))
    return 1 - float(np.sqrt(after / before))
