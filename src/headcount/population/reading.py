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
