"""Recodes: named groupings of an attribute's levels into coarser ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headcount.errors import InputError
from headcount.schema.attribute import Attribute, first_repeated
from headcount.schema.follows import merged


@dataclass(frozen=True)
class Recode:
    """A coarser view of one attribute: every level belongs to exactly one group."""

    name: str
    source: Attribute
    groups: tuple[tuple[str, tuple[str, ...]], ...]

    def __post_init__(self) -> None:
        place = f"recode {self.name!r} of {self.source.name!r}"
        Attribute(self.name, tuple(label for label, _ in self.groups))  # names stand the same test
        used = [level for _, levels in self.groups for level in levels]
        for level in used:
            self.source.index(level)
        if (repeated := first_repeated(used)) is not None:
            raise InputError(
                "schema",
                place=place,
                found=f"level {repeated!r} in two groups",
                expected="each level in one group",
            )
        if missing := [level for level in self.source.levels if level not in used]:
            raise InputError(
                "schema",
                place=place,
                found=f"level {missing[0]!r} in no group",
                expected="each level in one group",
            )

    @classmethod
    def of(cls, source: Attribute, name: str, groups: Mapping[str, Sequence[str]]) -> Recode:
        """Build from a mapping of group label to the levels it gathers."""
        return cls(name, source, tuple((label, tuple(levels)) for label, levels in groups.items()))

    @property
    def attribute(self) -> Attribute:
        """The coarser attribute, which follows what its source follows."""
        group = self.group_of_level
        return Attribute(
            self.name,
            tuple(label for label, _ in self.groups),
            self.source.follows,
            merged([(size, group[level]) for size, level in self.source.steps]),
        )

    def on(self, source: Attribute) -> Recode:
        """The same recode of an attribute that has the source's levels and may follow other things.

        Attributes are equal whatever they follow; what counts is the one that the data have.
        """
        return replace(self, source=source) if source == self.source else self

    @property
    def group_of_level(self) -> tuple[int, ...]:
        """For each level of the source, the position of its group."""
        group = {level: i for i, (_, levels) in enumerate(self.groups) for level in levels}
        return tuple(group[level] for level in self.source.levels)
