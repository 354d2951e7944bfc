"""The public domain: every cell of every unit that could be published about, people or none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from headcount.errors import ConfigError, InputError
from headcount.geography import Geography
from headcount.schema import Schema


class CountsOf(StrEnum):
    """What counts are numbers of: people, unless a population says otherwise.

    The value is the word for several.
    """

    PEOPLE = "people"
    HOUSING_UNITS = "housing units"

    @property
    def one(self) -> str:
        """The word for one."""
        return "person" if self is CountsOf.PEOPLE else "housing unit"


@dataclass(frozen=True, eq=False)
class Domain:
    """Cells and places, and what a guarantee about them must say. No person is in it.

    where
        schema       the attributes, and the cells that they span
        geography    the units that are published, with the spine beside it where there is one
        read_off     what of both was read off the confidential data instead of being given: it is
                     published without noise, and every guarantee lists it
        counted      what one record is: a person, or a housing unit
        one_person   what one person is in a file that was read, in words of the guarantee
        plugin       the part of another distribution that read or generated the people
    """

    schema: Schema
    geography: Geography
    read_off: tuple[str, ...] = ()
    counted: CountsOf = CountsOf.PEOPLE
    one_person: str = ""
    plugin: str = ""

    @property
    def leaf(self) -> str:
        """The lowest level."""
        return self.geography.leaf

    @property
    def cells(self) -> int:
        """How many cells of a unit are possible."""
        return int(self.schema.possible.sum())

    def down_to(self, lowest: str) -> Domain:
        """The same cells of the places down to a level; of all for ""."""
        if not lowest:
            return self
        try:
            return replace(self, geography=self.geography.down_to(lowest))
        except InputError as error:
            raise ConfigError(
                "run", place="lowest", found=repr(lowest), expected=error.expected
            ) from None

    def entries(self, level: str) -> int:
        """How many counts there are at a level: its units x the possible cells."""
        return self.geography.size(level) * self.cells
