"""What a step leaves as it is, so that a chain can say what of the people it publishes exactly."""

from __future__ import annotations

from dataclasses import dataclass

from headcount.geography import Geography

EVERYTHING, HOUSEHOLDS, PEOPLE = "everything", "households", "people"
GROUP_QUARTERS, LIVING_QUARTERS = "group quarters", "living quarters"


@dataclass(frozen=True)
class Preserved:
    """Counts of every unit of a level that are the same before and after a step.

    where
        of      what is counted; EVERYTHING that is known of those who live there
        level   whose units
        by      attributes of what is counted; none for the number alone
    """

    of: str
    level: str
    by: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.of == EVERYTHING:
            return f"every count of each {self.level}: nobody moves out of it"
        if self.of == GROUP_QUARTERS:
            return "everyone in group quarters, where they live"
        by = f" by {' x '.join(self.by)}" if self.by else ""
        return f"the number of {self.of}{by} in each {self.level}"

    def covers(self, other: Preserved, geography: Geography) -> bool:
        """Whether these counts being the same means that the others are the same too.

        Counts of a level add up to those above it, and counts by some attributes to those by fewer.
        """
        if geography.depth(self.level) < geography.depth(other.level):
            return False
        alike = self.of == other.of and set(other.by) <= set(self.by)
        return self.of == EVERYTHING or alike
