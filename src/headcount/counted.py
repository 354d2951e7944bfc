"""What counts are numbers of, in the words that reports and messages use."""

from __future__ import annotations

from enum import StrEnum


class CountsOf(StrEnum):
    """People, unless a population says otherwise; the value is the word for several."""

    PEOPLE = "people"
    HOUSING_UNITS = "housing units"

    @property
    def one(self) -> str:
        """The word for one."""
        return "person" if self is CountsOf.PEOPLE else "housing unit"
