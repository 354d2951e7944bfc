"""How exact the best linear estimate of each single answer is, in each single unit.

V of a unit depends on its kind and on all units above it (tree.py), and the variance of an answer
on the atoms that it counts (components.py): answers that count alike have the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.topdown.linear.components import Components
from headcount.topdown.linear.kinds import NoiseTree
from headcount.topdown.linear.known import NOTHING, without_rounding
from headcount.topdown.linear.limits import refuse_beyond_memory
from headcount.topdown.linear.tree import ComponentErrors, alike, given_parent


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


@dataclass(frozen=True, eq=False)
class AnswerVariances:
    """The variance of each answer's best linear estimate in each unit of a depth.

    Units with the same errors are done once, and so are answers: 8 million blocks are few classes.

    where
        of_unit     the class of each unit
        of_answer   the class of each answer, in the order of the attributes
        variance    classes of units x classes of answers; infinite where the answers do not tell
    """

    of_unit: Ints
    of_answer: Ints
    variance: Floats

    @classmethod
    def of(cls, tree: NoiseTree, components: Components, query: str, depth: int) -> AnswerVariances:
        """Of a query in every unit of a depth."""
        answers, paths = AnswerClasses.of(components, query), unit_paths(tree, depth)
        found = np.zeros((len(paths[-1].units), len(answers.examples)))
        for component in components.every:
            rows = [components.of_answer(query, one, component) for one in answers.examples]
            evens = np.array([even for even, _ in rows])
            contrasts = np.array([length for _, length in rows])
            if not contrasts.any():
                continue
            errors = ComponentErrors(tree, components, component)
            covariance, unknown = _covariances(errors, tree, paths)
            own, sizes = (
                np.einsum("ck,ukl,cl->uc", row, those, row, optimize=True)
                for row, those in ((evens, covariance), (np.abs(evens), np.abs(covariance)))
            )
            found += contrasts * without_rounding(own, sizes)
            for (number,), own in alike(unknown):
                touched = np.abs(evens @ errors.basis(number)).max(axis=1, initial=0.0)
                lost = (touched > NOTHING * np.abs(evens).max(axis=1)) & (contrasts > 0)
                found[np.ix_(own, np.flatnonzero(lost))] = np.inf
        return cls(paths[-1].of_unit, answers.of_answer, found)

    def units(self, some: range) -> Floats:
        """Of some units: units x answers, by the attributes in their order."""
        return self.variance[self.of_unit[some.start : some.stop]][:, self.of_answer]


@dataclass(frozen=True, eq=False)
class PathClasses:
    """Units of a depth that are alike, and whose ancestors are: they have the same errors.

    where
        of_unit   the class of each unit
        units     a unit of each class
    """

    of_unit: Ints
    units: Ints


def unit_paths(tree: NoiseTree, depth: int) -> list[PathClasses]:
    """The classes of units at every depth down to one."""
    found = [PathClasses(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))]
    for at in range(1, depth + 1):
        kinds = tree.kinds[at]
        pairs = found[-1].of_unit[tree.parents[at]] * len(kinds.units) + kinds.of_unit
        _, units, of_unit = np.unique(pairs, return_index=True, return_inverse=True)
        found.append(PathClasses(of_unit, units))
    return found


def _covariances(
    errors: ComponentErrors, tree: NoiseTree, paths: list[PathClasses]
) -> tuple[Floats, Ints]:
    """V of a unit of each class of the last depth, and the number of what is unknown of it."""
    many = len(paths[-1].units)
    refuse_beyond_memory(many, errors.size, of=f"{many:,} classes of units")
    covariance, unknown = errors.levels[0].covariance, errors.levels[0].unknown
    for at in range(1, len(paths)):
        units = paths[at].units
        above = paths[at - 1].of_unit[tree.parents[at][units]]
        links = errors.links(at, units)
        covariance = given_parent(
            covariance[above],
            errors.others(at, links),
            errors.levels[at].covariance[tree.kinds[at].of_unit[units]],
            errors.link_gains(at)[links],
        )
        unknown = errors.unknown_of(at, links, unknown[above])
    return covariance, unknown
