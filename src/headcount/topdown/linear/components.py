"""Independent parts of a table of cells, in which every query is a few numbers.

A unit's answers have the precision

    H = sum over q of  w_q  Q_q' Q_q

where
    Q_q   the 0/1 matrix of a query (answers x cells)
    w_q   1 / variance of its noise

which for a schema of n cells is n x n. But Q_q'Q_q is a product over attributes: of the identity
for an attribute that the query asks for, of blocks of ones for one that it asks for in groups, and
of ones everywhere for one that it sums over. All of these leave the same subspaces of an
attribute apart:

    evens       vectors that are constant within each *atom*, one dimension an atom
    contrasts   vectors that sum to 0 within each atom

where
    atoms   the smallest groups of levels that the queries' groups put together or apart; a single
            one, of all levels, where no query asks for groups

On contrasts the identity is 1 and everything else is 0. So the cells fall into 2^d components, one
for each choice of evens or contrasts at each of d attributes, and on a component every Q_q'Q_q is
a small matrix, of size 1 where no query groups levels. With groups of unequal sizes these small
matrices do not commute, which is why they stay matrices (the Helmert-Kronecker basis of groups of
one size is the case in which they are numbers).

Structural zeros are known to be 0, without any answer. Atoms also keep levels apart that are
impossible with other levels of other attributes, so that a combination of atoms is possible as a
whole or not at all, and what is impossible is left out of every component: its matrices lose these
rows and columns. Contrasts of different atoms may leave out different ones; then they are
components of their own. In the end a component is taken apart where none of its matrices needs all
of it (``_invariant_blocks``): fewer queries ask about contrasts than about evens.

For nested noisy answers over a tree see Hay et al. (2010), Boosting the accuracy of differentially
private histograms through consistency; Cumings-Menon (2024), Full-information estimation for
hierarchical data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from math import prod

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.schema import Recode, Schema
from headcount.tabulate import Query
from headcount.topdown.linear.matrices import NOTHING, complement, refuse_too_many, symmetric

MIXED = 16
"""Random sums of the matrices: of one alone, eigenvalues may be close by chance."""
FAR = 0.01
"""Eigenvectors are used at once if their eigenvalue is this part as far from others as the farthest
one; the others wait until fewer are left."""
OUTSIDE = 0.5
"""The part of an eigenvector outside of a subspace that none of the matrices leaves is 0 or 1, but
for rounding."""

OVERLAP = 1e-6
"""Subspaces that have more than this of each other are taken one at a time, or not apart."""

Picked = tuple[bool, ...]
"""Of some attributes, or of some combinations of atoms."""


@dataclass(frozen=True, eq=False)
class Component:
    """A part of the cells on which every query is one small matrix.

    where
        contrasts   for each attribute whether it has its contrasts (True) or its evens
        possible    for each combination of atoms of the attributes that have evens, in the order of
                    the attributes, whether it can hold anybody together with these contrasts
        basis       of the component, on the combinations that are possible: these x its size
        copies      how often it is there: once for each combination of contrasts
    """

    contrasts: Picked
    possible: Picked
    basis: Floats
    copies: int

    @property
    def size(self) -> int:
        """The size of its matrices."""
        return int(self.basis.shape[1])


@dataclass(frozen=True, eq=False)
class _LevelsAxis:
    """One attribute's levels, and the atoms that queries leave together.

    where
        atom    for each level the number of its atom
        sizes   how many levels each atom has
    """

    atom: Ints
    sizes: Ints

    @classmethod
    def of(cls, possible: Flags, groupings: Iterable[Ints]) -> _LevelsAxis:
        """The axis of an attribute whose levels some queries ask for in groups.

        where
            possible   for each level, and each combination of the other attributes' levels, whether
                       anybody can be counted there: levels x combinations
        """
        proper = [one for one in groupings if len(np.unique(one)) < len(possible)]
        atom = reduce(_refined, proper, _numbered(possible))
        return cls(atom, np.bincount(atom))

    @property
    def levels(self) -> int:
        """How many levels the attribute has."""
        return len(self.atom)

    @cached_property
    def of_contrast(self) -> Ints:
        """The atom of each contrast, in the order of the basis."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes - 1)

    def even(self, group: Ints) -> Floats:
        """Q'Q of groups of levels on the evens, in the basis of each atom's unit vector."""
        if len(np.unique(group)) == self.levels:
            return np.eye(len(self.sizes))
        of_atom = np.zeros(len(self.sizes), dtype=np.int64)
        of_atom[self.atom] = group
        root = np.sqrt(self.sizes)
        found: Floats = np.outer(root, root) * (of_atom[:, None] == of_atom[None, :])
        return found

    @cached_property
    def basis(self) -> Floats:
        """An orthonormal basis in rows: one of evens for each atom, then all contrasts."""
        evens = np.zeros((len(self.sizes), self.levels))
        evens[self.atom, np.arange(self.levels)] = 1 / np.sqrt(self.sizes[self.atom])
        contrasts = []
        for number, size in enumerate(self.sizes):
            own = np.flatnonzero(self.atom == number)
            for k in range(1, int(size)):  # Helmert: the first k against the next
                row = np.zeros(self.levels)
                row[own[:k]], row[own[k]] = 1.0, -float(k)
                contrasts.append(row / np.sqrt(k * (k + 1)))
        return np.vstack([evens, *contrasts])


def _numbered(rows: Flags) -> Ints:
    """The same number for rows that are alike."""
    found: Ints = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return found


def _refined(first: Ints, second: Ints) -> Ints:
    """The groups in which two groupings of the same levels agree."""
    pairs = first * (int(second.max()) + 1) + second
    found: Ints = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    return found


@dataclass(frozen=True, eq=False)
class Components:
    """The components of a schema's cells under some queries.

    where
        axes      one for each attribute
        possible  for each combination of their atoms whether it can hold anybody
        groups    for each query, for each attribute the group that each level is asked for in:
                  all of one group where it is summed over
        answers   for each query how many answers it has
        countable      and how many of these can count anybody
    """

    axes: tuple[_LevelsAxis, ...]
    possible: Flags
    groups: dict[str, tuple[Ints, ...]]
    answers: dict[str, int]
    countable: dict[str, int]

    @classmethod
    def of(cls, schema: Schema, queries: Iterable[Query]) -> Components:
        """Those of a schema, for all queries that will be asked about."""
        asked = {query.name: query.on(schema) for query in queries}
        groups = {name: _groups(query, schema) for name, query in asked.items()}
        possible = schema.possible.reshape(schema.shape)
        axes = tuple(
            _LevelsAxis.of(
                np.moveaxis(possible, k, 0).reshape(size, -1), [one[k] for one in groups.values()]
            )
            for k, size in enumerate(schema.shape)
        )
        some = [np.unique(axis.atom, return_index=True)[1] for axis in axes]
        answers = {name: prod(len(np.unique(axis)) for axis in one) for name, one in groups.items()}
        countable = {
            name: len(np.unique(query.groups(schema)[schema.possible]))
            for name, query in asked.items()
        }
        return cls(axes, possible[np.ix_(*some)] if some else possible, groups, answers, countable)

    @cached_property
    def every(self) -> tuple[Component, ...]:
        """The components that have a dimension, those of evens everywhere first."""
        return tuple(
            Component(contrasts, possible, basis, copies)
            for (contrasts, possible), copies in self._products().items()
            for basis in _invariant_blocks(
                [self._product(query, contrasts, possible) for query in self.groups], sum(possible)
            )
        )

    def _products(self) -> dict[tuple[Picked, Picked], int]:
        """Choices of contrasts with what is possible beside them, and how many have that choice."""
        choices = product(
            *((False, True) if axis.levels > len(axis.sizes) else (False,) for axis in self.axes)
        )
        found: dict[tuple[Picked, Picked], int] = {}
        for contrasts in choices:
            sizes = [axis.sizes - 1 for axis, one in zip(self.axes, contrasts, strict=True) if one]
            times = reduce(np.multiply.outer, sizes, np.ones((), dtype=np.int64)).reshape(-1)
            for possible, many in zip(self.with_contrasts(contrasts), times.tolist(), strict=True):
                if many and possible.any():
                    one = (contrasts, tuple(possible.tolist()))
                    found[one] = found.get(one, 0) + many
        return found

    def with_contrasts(self, contrasts: Picked) -> Flags:
        """What is possible with contrasts of some attributes.

        For each combination of their atoms, and each of the other attributes' atoms.
        """
        first = [k for k, own in enumerate(contrasts) if own]
        rest = [k for k, own in enumerate(contrasts) if not own]
        table = self.possible.transpose(*first, *rest)
        return table.reshape(prod(table.shape[: len(first)]), -1)

    def precision(self, query: str, component: Component) -> Floats:
        """Q'Q of a query on a component."""
        key = (query, component)
        if key not in self._precisions:
            whole = self._product(query, component.contrasts, component.possible)
            found = component.basis.T @ whole @ component.basis
            found[np.abs(found) < NOTHING * np.abs(whole).max()] = 0.0  # rounding errors of 0
            self._precisions[key] = symmetric(found)
        return self._precisions[key]

    @cached_property
    def _precisions(self) -> dict[tuple[str, Component], Floats]:
        """Those that were asked for before."""
        return {}

    def _product(self, query: str, contrasts: Picked, possible: Picked) -> Floats:
        """Q'Q on a choice of contrasts, and on all evens that are possible beside them."""
        key = (query, contrasts, possible)
        if key not in self._made:
            refuse_too_many(many := sum(possible))
            found: Floats = np.ones((many, many))
            atoms = self._atoms(contrasts, possible)
            for one, contrast, at in zip(self._factors[query], contrasts, atoms, strict=True):
                found *= one[contrast][np.ix_(at, at)]
            self._made[key] = found
        return self._made[key]

    def _atoms(self, contrasts: Picked, possible: Picked) -> tuple[Ints, ...]:
        """For each attribute the atom of every combination that is possible; 0 for contrasts."""
        axes = zip(self.axes, contrasts, strict=True)
        sizes = (1 if contrast else len(axis.sizes) for axis, contrast in axes)
        return np.unravel_index(np.flatnonzero(possible), (1, *sizes))[1:]

    @cached_property
    def _made(self) -> dict[tuple[str, Picked, Picked], Floats]:
        """Products that were asked for before."""
        return {}

    @cached_property
    def _factors(self) -> dict[str, list[tuple[Floats, Floats]]]:
        """Q'Q of each query on the evens and on a contrast of each attribute."""
        return {
            query: [
                (axis.even(group), np.array([[float(_asked_whole(axis, group))]]))
                for axis, group in zip(self.axes, groups, strict=True)
            ]
            for query, groups in self.groups.items()
        }

    def even_precision(self, query: str) -> Floats:
        """Q'Q on all evens, those of ``even_cells``."""
        possible = tuple(self.possible.reshape(-1).tolist())
        return self._product(query, (False,) * len(self.axes), possible)

    def spread(self, query: str, component: Component) -> Floats:
        """The matrix whose product with a component's covariance has, as its trace, its part of
        the mean variance of a query's answers:

            mean variance = sum over components of  trace(spread V)

        Answers that can count nobody are known, and are not in the mean.
        """
        return self.precision(query, component) * (component.copies / self.countable[query])

    def even_cells(self) -> Floats:
        """Each cell's coordinates on the evens: cells x combinations of atoms."""
        refuse_too_many(int(self.possible.sum()))
        found: Floats = np.ones((1, 1))
        for axis in self.axes:
            found = np.kron(found, axis.basis[: len(axis.sizes)].T).astype(np.float64)
        return found[:, self.possible.reshape(-1)]

    def of_answer(
        self, query: str, answer: Iterable[int], component: Component
    ) -> tuple[Floats, float]:
        """One answer's row on a component: its evens, and the squared length of its contrasts."""
        evens: Floats = np.ones(1)
        contrasts, at = 1.0, self.possible
        rows = zip(self.axes, self.groups[query], answer, component.contrasts, strict=True)
        for axis, group, own, contrast in rows:
            within = np.bincount(axis.atom[group == own], minlength=len(axis.sizes))
            if not contrast:
                evens = np.multiply.outer(evens, within / np.sqrt(axis.sizes)).reshape(-1)
                at = np.moveaxis(at, 0, -1)
            elif _asked_whole(axis, group):
                atom = int(np.argmax(within))
                contrasts *= 1 - 1 / float(axis.sizes[atom])
                at = at[atom]
            else:
                return np.zeros(component.size), 0.0
        if tuple(at.reshape(-1).tolist()) != component.possible:  # contrasts of other atoms
            return np.zeros(component.size), 0.0
        row = evens[np.array(component.possible)] @ component.basis
        row[np.abs(row) < NOTHING * np.abs(evens).max()] = 0.0
        return row, contrasts if row.any() else 0.0


def _asked_whole(axis: _LevelsAxis, group: Ints) -> bool:
    """Whether a query asks for every level of an attribute."""
    return len(np.unique(group)) == axis.levels


def _groups(query: Query, schema: Schema) -> tuple[Ints, ...]:
    """For each attribute the group in which a query asks for each level."""
    found = [np.zeros(size, dtype=np.int64) for size in schema.shape]
    for axis in query.by:
        name = axis.source.name if isinstance(axis, Recode) else axis
        at = schema.names.index(name)
        own = (
            np.asarray(axis.group_of_level, dtype=np.int64)
            if isinstance(axis, Recode)
            else np.arange(schema.shape[at])
        )
        found[at] = _refined(found[at], own)
    return tuple(found)


def _invariant_blocks(matrices: Sequence[Floats], size: int) -> list[Floats]:
    """Orthonormal bases (size x dimension) of invariant subspaces that add up to all of it.

    An eigenvector of a random sum of the matrices, and all that the matrices make of it and of each
    other's results, span a subspace that none of them leaves, and neither do they leave what is at
    right angles to it. Almost surely it is as small as any; were it not, it would still be right.
    """
    scaled = [one / np.abs(one).max() for one in matrices if one.any()]
    if size == 1 or not scaled:
        return [np.eye(size)]
    weights = np.random.default_rng(size).normal(size=(MIXED, len(scaled)))
    mixed = np.tensordot(weights, np.stack(scaled), axes=1)
    found: list[Floats] = []
    rest: Floats = np.eye(size)
    while rest.shape[1]:
        directions = rest @ _directions(rest.T @ mixed @ rest)
        for few in (directions, directions[:, :1]):
            blocks = _apart(few, scaled)
            if blocks[0].shape[1] == size:
                return [np.eye(size)]
            inside = rest.T @ np.hstack(blocks)
            if _orthonormal(inside):
                break
        else:
            return [np.eye(size)]
        found += blocks
        rest = rest @ complement(inside)
    return found


def _orthonormal(columns: Floats) -> bool:
    """Whether subspaces are apart; rounding that is taken for something makes them overlap."""
    return bool(np.abs(columns.T @ columns - np.eye(columns.shape[1])).max() < OVERLAP)


def _apart(directions: Floats, matrices: Sequence[Floats]) -> list[Floats]:
    """The subspaces of some eigenvectors. Each of these is inside one of them, or outside."""
    found: list[Floats] = []
    spanned: Floats = np.zeros((len(directions), 0))
    for one in directions.T:
        left = one - spanned @ (spanned.T @ one)
        if (length := float(np.linalg.norm(left))) > OUTSIDE:
            found.append(_closed(left[:, None] / length, matrices))
            spanned = np.hstack([spanned, found[-1]])
    return found


def _directions(mixed: Floats) -> Floats:
    """The eigenvectors of some matrix whose eigenvalues are far from others, which are the most
    exact: in columns, that of the farthest first.
    """
    values, vectors = np.linalg.eigh(mixed)
    apart = np.abs(values[:, :, None] - values[:, None, :])
    nearest = np.where(apart < NOTHING, np.inf, apart).min(axis=2)  # equal ones are copies
    which = int(nearest.max(axis=1).argmax())
    order = np.argsort(-nearest[which], kind="stable")
    enough = nearest[which][order] >= FAR * nearest[which].max()
    found: Floats = vectors[which][:, order[enough]]
    return found


def _closed(first: Floats, matrices: Sequence[Floats]) -> Floats:
    """An orthonormal basis of all that the matrices make of a direction, again and again."""
    basis, at = first, 0
    while at < basis.shape[1]:
        for matrix in matrices:
            new = matrix @ basis[:, at]
            for _ in range(2):  # twice, so that rounding leaves it at right angles
                new = new - basis @ (basis.T @ new)
            if (length := float(np.linalg.norm(new))) > NOTHING:
                basis = np.column_stack([basis, new / length])
        at += 1
    return basis
