"""The errors a user can meet: each says where, what was found and what was expected."""

from __future__ import annotations

MOST_SHOWN = 300
"""Characters of what was found, or of its place, that a message repeats."""


def brief(text: str, *, most: int = MOST_SHOWN) -> str:
    """Text of a user's on one line of a message: cut where long, control characters escaped."""
    cut = text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


class HeadcountError(Exception):
    """Base of every error headcount raises on purpose."""


class InputError(HeadcountError):
    """Data that cannot be used as given.

    The message reads ``source: place: found ..., expected ...`` so that a person can go to the
    file, the column and the row, and see what would have been right.
    """

    def __init__(self, source: str, *, place: str = "", found: str, expected: str) -> None:
        self.source = source
        self.place = place = brief(place)
        self.found = found = brief(found)
        self.expected = expected
        where = f"{source}: {place}" if place else source
        super().__init__(f"{where}: found {found}, expected {expected}")


class ConfigError(InputError):
    """A setting that is missing, unknown or out of range; raised before any data is read."""


class TruthError(InputError):
    """Data that break what they must keep: whether and where is a function of the truth.

    For the curator's eyes: commands write it to ``internal/`` of the run and do not show it.
    """


class PrivacyError(HeadcountError):
    """A release that would break, overspend or misstate its guarantee."""


class RunError(HeadcountError):
    """A run directory that cannot be used: it holds another run, or is damaged."""
