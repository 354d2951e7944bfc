"""What a reader met in its files: for the curator's eyes, never for a log or a release."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ReadSummary:
    """How much was read.

    where
        rows        rows of each file or table that were read
        left_out    rows that were left out, by reason
        remarks     what else was done to them
    """

    rows: tuple[tuple[str, int], ...] = ()
    left_out: tuple[tuple[str, int], ...] = ()
    remarks: tuple[str, ...] = ()


def is_it_right(people: int, places: int, counted: str = "people") -> str:
    """The question that ends a reading, for whoever knows how many there are."""
    return f"{people:,} {counted} in {places:,} place{'' if places == 1 else 's'}. Is that right?"
