"""The unit of privacy: which two databases a guarantee compares."""

from __future__ import annotations

from enum import StrEnum

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"  # so that the repr of a loss round-trips

    @property
    def phrase(self) -> str:
        """The unit in plain words, to be set beside every epsilon."""
        if self is UnitOfPrivacy.ADD_REMOVE:
            return "one person is added or removed"
        return "one person's record changes"


DEFAULT_UNIT = UnitOfPrivacy.CHANGE_ONE
"""The unit of every mechanism and of every new ledger, unless another is asked for."""


def unit_of_privacy(value: UnitOfPrivacy | str, *, name: str) -> UnitOfPrivacy:
    """The unit of that name; an unknown one is an error that lists the known ones."""
    try:
        return UnitOfPrivacy(value)
    except ValueError:
        known = ", ".join(repr(unit.value) for unit in UnitOfPrivacy)
        raise PrivacyError(f"{name}: found {value!r}, expected one of {known}") from None
