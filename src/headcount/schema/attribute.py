"""Attributes: what is known of a person, as ordered, named levels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headcount.errors import InputError, one_of
from headcount.schema.follows import ALONE, Follows, Steps, steps_of


@dataclass(frozen=True)
class Attribute:
    """One thing known of each person, with its possible values in a fixed order.

    ``follows`` says whose doing it is, and ``steps`` how it goes by household size, where it
    does. Neither is part of what the attribute is: two with the same levels are equal.
    """

    name: str
    levels: tuple[str, ...]
    follows: Follows = field(default=Follows.PERSON, repr=False, compare=False)
    steps: Steps = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(self.levels))
        place = f"attribute {self.name!r}"
        if not self.name:
            raise InputError("schema", place="attribute", found="no name", expected="a name")
        if not self.levels:
            raise InputError("schema", place=place, found="no levels", expected="at least one")
        if (repeated := first_repeated(self.levels)) is not None:
            raise InputError(
                "schema", place=place, found=f"level {repeated!r} twice", expected="distinct levels"
            )
        object.__setattr__(self, "follows", Follows(self.follows))
        if self.follows is not Follows.SIZE:
            object.__setattr__(self, "steps", ALONE)
        elif not self.steps:
            object.__setattr__(self, "steps", steps_of(self.levels, name=self.name))

    @property
    def size(self) -> int:
        """Number of levels."""
        return len(self.levels)

    def index(self, level: str) -> int:
        """Position of a level; an unknown one is an error that lists the known ones."""
        try:
            return self.levels.index(level)
        except ValueError:
            raise InputError(
                "schema",
                place=f"attribute {self.name!r}",
                found=f"level {level!r}",
                expected=one_of(self.levels),
            ) from None


def is_pattern(name: str) -> bool:
    """Whether polars takes a name for a pattern that stands for other columns."""
    return name == "*" or (name.startswith("^") and name.endswith("$"))


def first_repeated(names: Iterable[str]) -> str | None:
    """The first name that stands twice, or None."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
