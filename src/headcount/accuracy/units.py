"""How exact the best linear estimate of each single answer is, in each single unit.

V of a unit depends on its kind and on all units above it (tree.py), and the variance of an answer
on the atoms that it counts (components.py): answers that count alike have the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.accuracy.components import Components
from headcount.accuracy.kinds import NoiseTree
from headcount.accuracy.known import NOTHING, symmetric
from headcount.accuracy.tree import ComponentErrors, alike
from headcount.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class AnswerClasses:
    """Answers of a query that have the same variance.

    where
        of_answer   the class of each answer, in the order of the attributes
        examples    an answer of each class, by the group of each attribute that it asks for
    """

    of_answer: Ints
    examples: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, components: Components, query: str) -> AnswerClasses:
        """Those of a query: the groups that it asks for, and of single levels their atoms."""
        groups = components.groups[query]
        index = np.indices([int(group.max()) + 1 for group in groups]).reshape(len(groups), -1)
        kinds = [
            axis.atom[at] if len(np.unique(group)) == axis.levels else at
            for axis, group, at in zip(components.axes, groups, index, strict=True)
        ]
        if not kinds:
            return cls(np.zeros(1, dtype=np.int64), ((),))
        _, some, of_answer = np.unique(
            np.stack(kinds), axis=1, return_index=True, return_inverse=True
        )
        examples = tuple(tuple(int(at[one]) for at in index) for one in some)
        return cls(of_answer.reshape(-1), examples)


def answer_variances(tree: NoiseTree, components: Components, query: str, depth: int) -> Floats:
    """The variance of each answer's best linear estimate: units x answers, by attributes in order.

    Infinite where the answers do not tell.
    """
    classes = AnswerClasses.of(components, query)
    found = np.zeros((tree.units(depth), len(classes.examples)))
    for component in components.every:
        rows = [components.of_answer(query, one, component) for one in classes.examples]
        evens = np.array([even for even, _ in rows])
        contrasts = np.array([length for _, length in rows])
        if not contrasts.any():
            continue
        errors = ComponentErrors(tree, components, component)
        covariance, unknown = unit_covariances(errors, tree, depth)
        found += contrasts * np.einsum("ck,ukl,cl->uc", evens, covariance, evens, optimize=True)
        for (number,), own in alike(unknown):
            touched = np.abs(evens @ errors.basis(number)).max(axis=1, initial=0.0)
            lost = (touched > NOTHING * np.abs(evens).max(axis=1)) & (contrasts > 0)
            found[np.ix_(own, np.flatnonzero(lost))] = np.inf
    return np.maximum(found, 0.0)[:, classes.of_answer]


def unit_covariances(errors: ComponentErrors, tree: NoiseTree, depth: int) -> tuple[Floats, Ints]:
    """V of every unit of a depth, and the number of what is unknown of it."""
    covariance, unknown = errors.levels[0].covariance, errors.levels[0].unknown
    for at in range(1, depth + 1):
        kinds, parent = tree.kinds[at].of_unit, tree.parents[at]
        above = tree.kinds[at - 1].of_unit[parent]
        s, gain = errors.levels[at].covariance[kinds], errors.unit_gains(at)
        others = covariance[parent] + errors.levels[at - 1].children[above] - s
        rest, back = np.eye(errors.size) - gain, gain.swapaxes(-1, -2)
        covariance = symmetric(gain @ others @ back + rest @ s @ rest.swapaxes(-1, -2))
        unknown = errors.unit_unknown(at, unknown)
    return covariance, unknown
