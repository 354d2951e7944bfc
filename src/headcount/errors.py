"""The errors a user can meet: each says where, what was found and what was expected."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MOST_SHOWN = 300
"""Characters of what was found, or of its place, that a message repeats."""


def brief(text: str, *, most: int = MOST_SHOWN) -> str:
    """Text of a user's on one line of a message: cut where long, control characters escaped."""
    cut = text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def one_of(names: Iterable[str], *, most: int = 12) -> str:
    """The permitted names for an error message, cut when there are many."""
    known = list(names)
    listed = ", ".join(repr(name) for name in known[:most])
    return f"one of {listed}" + (f" and {len(known) - most} more" if len(known) > most else "")


def did_you_mean(name: object, known: Iterable[str], *, most: int = 20) -> str:
    """The permitted names, and the one that was probably meant."""
    names = list(known)
    close = get_close_matches(str(name), names, n=1)
    return one_of(names, most=most) + (f" (did you mean {close[0]!r}?)" if close else "")


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
    """A release that would break, overspend or misstate its guarantee.

    Where one setting is at fault, the error has its place, what was found and what was expected.
    """

    def __init__(
        self,
        message: str = "",
        *,
        source: str = "",
        place: str = "",
        found: str = "",
        expected: str = "",
    ) -> None:
        self.source, self.place, self.found, self.expected = source, place, found, expected
        where = ": ".join(part for part in (source, place) if part)
        super().__init__(message or f"{where}: found {found}, expected {expected}")


class RunError(HeadcountError):
    """A run directory that cannot be used: it holds another run, or is damaged."""
