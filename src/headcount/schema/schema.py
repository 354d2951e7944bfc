"""The schema: attributes, the cells they span, and the cells that cannot hold anyone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from headcount.arrays import Flags
from headcount.errors import InputError, one_of
from headcount.schema.attribute import Attribute, first_repeated

Combination = tuple[tuple[str, tuple[str, ...]], ...]
"""Levels of some attributes that never occur together: ((attribute, levels), ...)."""

MOST_CELLS = 2**24
"""Every cell has a name: that many take some gigabytes, and the largest of a census are a tenth."""


@dataclass(frozen=True)
class Schema:
    """Attributes in order; a cell is one combination of their levels, numbered row by row.

    A schema without attributes has one cell, the total. Structural zeros are combinations that
    are impossible by definition, known to everyone: they get no noise and hold nobody.
    """

    attributes: tuple[Attribute, ...] = ()
    structural_zeros: tuple[Combination, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        if (repeated := first_repeated(self.names)) is not None:
            raise InputError(
                "schema", found=f"attribute {repeated!r} twice", expected="distinct attributes"
            )
        if self.size > MOST_CELLS:
            raise InputError(
                "schema", found=f"{self.size:,} cells", expected=f"at most {MOST_CELLS:,}"
            )
        for combination in self.structural_zeros:
            for name, levels in combination:
                for level in levels:
                    self.attribute(name).index(level)
        if not self.possible.any():
            raise InputError(
                "schema", found="every cell a structural zero", expected="at least one possible"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Attribute names in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of levels of each attribute."""
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def size(self) -> int:
        """Number of cells, structural zeros included."""
        return prod(self.shape)

    def attribute(self, name: str) -> Attribute:
        """The attribute of that name."""
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise InputError("schema", found=f"attribute {name!r}", expected=one_of(self.names))

    def cell(self, **levels: str) -> int:
        """Number of the cell with these levels, every attribute named."""
        if set(levels) != set(self.names):
            raise InputError(
                "schema",
                place="cell",
                found=f"attributes {sorted(levels)}",
                expected=f"all of {sorted(self.names)}",
            )
        number = 0
        for attribute in self.attributes:
            number = number * attribute.size + attribute.index(levels[attribute.name])
        return number

    @cached_property
    def cell_names(self) -> tuple[str, ...]:
        """A column name for each cell: its levels joined by '_', or 'total'."""
        if not self.attributes:
            return ("total",)
        names = tuple("_".join(levels) for levels in product(*(a.levels for a in self.attributes)))
        if (repeated := first_repeated(names)) is not None:
            raise InputError(
                "schema", found=f"two cells named {repeated!r}", expected="distinct cell names"
            )
        return names

    @cached_property
    def possible(self) -> Flags:
        """For each cell, whether it can hold anyone."""
        mask = np.ones(self.shape, dtype=bool)
        for combination in self.structural_zeros:
            chosen = dict(combination)
            index = [
                [a.index(level) for level in chosen[a.name]] if a.name in chosen else range(a.size)
                for a in self.attributes
            ]
            mask[np.ix_(*index)] = False
        flat = mask.reshape(-1)
        flat.setflags(write=False)
        return flat


def impossible(combination: Mapping[str, Sequence[str]]) -> Combination:
    """A structural zero from a mapping of attribute to levels."""
    return tuple((name, tuple(levels)) for name, levels in combination.items())
