"""The unit of privacy: which two databases a guarantee compares."""

from __future__ import annotations

from enum import StrEnum

from headcount.counted import CountsOf
from headcount.errors import PrivacyError


class UnitOfPrivacy(StrEnum):
    """What may differ between two neighbouring databases.

    Losses of different units are different quantities: an epsilon under ``CHANGE_ONE`` is never
    set beside an epsilon under ``ADD_REMOVE`` without saying so.
    """

    ADD_REMOVE = "add-remove"
    """One person's record is added or removed."""

    CHANGE_ONE = "change-one"
    """One person's record changes to any other; the number of people stays."""

    HOUSEHOLD_ADD_REMOVE = "household-add-remove"
    """One household, or one person in group quarters, is added or removed."""

    HOUSEHOLD_CHANGE_ONE = "household-change-one"
    """One household, or one person in group quarters, becomes any other; their number stays."""

    HOUSING_UNIT_CHANGE_ONE = "housing-unit-change-one"
    """Records are housing units: one of them changes to any other; their number stays."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"  # so that the repr of a loss round-trips

    @property
    def of_household(self) -> bool:
        """Whether whole households come, go or change."""
        return self in (self.HOUSEHOLD_ADD_REMOVE, self.HOUSEHOLD_CHANGE_ONE)

    @property
    def of_housing_unit(self) -> bool:
        """Whether records are of housing units, and a person is none of them."""
        return self is self.HOUSING_UNIT_CHANGE_ONE

    @property
    def counted(self) -> CountsOf:
        """What the records are."""
        return CountsOf.HOUSING_UNITS if self.of_housing_unit else CountsOf.PEOPLE

    @property
    def adds(self) -> bool:
        """Whether neighbours differ in how many there are."""
        return self in (self.ADD_REMOVE, self.HOUSEHOLD_ADD_REMOVE)

    @property
    def pair(self) -> tuple[UnitOfPrivacy, UnitOfPrivacy]:
        """This unit, and the other one about the same: both persons, or both households.

        Beside a housing unit stands the person who moves, and changes two of them.
        """
        other = {
            self.ADD_REMOVE: self.CHANGE_ONE,
            self.CHANGE_ONE: self.ADD_REMOVE,
            self.HOUSEHOLD_ADD_REMOVE: self.HOUSEHOLD_CHANGE_ONE,
            self.HOUSEHOLD_CHANGE_ONE: self.HOUSEHOLD_ADD_REMOVE,
            self.HOUSING_UNIT_CHANGE_ONE: self.CHANGE_ONE,
        }
        return self, other[self]

    @property
    def phrase(self) -> str:
        """The unit in plain words, to be set beside every epsilon."""
        return {
            self.ADD_REMOVE: "one person is added or removed",
            self.CHANGE_ONE: "one person's record changes",
            self.HOUSEHOLD_ADD_REMOVE: "one household is added or removed",
            self.HOUSEHOLD_CHANGE_ONE: "one household changes",
            self.HOUSING_UNIT_CHANGE_ONE: "one housing unit's record changes",
        }[self]


DEFAULT_UNIT = UnitOfPrivacy.CHANGE_ONE
"""The unit of every mechanism and of every new ledger, unless another is asked for."""


def unit_of_privacy(value: UnitOfPrivacy | str, *, name: str) -> UnitOfPrivacy:
    """The unit of that name; an unknown one is an error that lists the known ones."""
    try:
        return UnitOfPrivacy(value)
    except ValueError:
        known = ", ".join(repr(unit.value) for unit in UnitOfPrivacy)
        raise PrivacyError(place=name, found=repr(value), expected=f"one of {known}") from None
