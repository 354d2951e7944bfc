"""The errors a user can meet: each says where, what was found and what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

Where = Callable[[Sequence[int]], Sequence[str]]
"""What a user's file calls some of its rows, given by their positions from 0: "line 7"."""

MOST_PROBLEMS = 10
"""Problems of a file that one message lists."""

MOST_SHOWN = 300
"""Characters of what was found, or of its place, that a message repeats."""


def brief(text: str, *, most: int = MOST_SHOWN) -> str:
    """Text of a user's on one line of a message: cut where long, control characters escaped."""
    cut = text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def by_row(rows: Sequence[int]) -> list[str]:
    """Rows by their number from 1, for files that have no lines."""
    return [f"row {row + 1}" for row in rows]


def one_of(names: Iterable[str], *, most: int = 12) -> str:
    """The permitted names for an error message, cut when there are many."""
    known = list(names)
    listed = ", ".join(repr(name) for name in known[:most])
    return f"one of {listed}" + (f" and {len(known) - most} more" if len(known) > most else "")


def did_you_mean(name: object, known: Iterable[str], *, most: int = 20) -> str:
    """The permitted names, and the one that was probably meant."""
    names = list(known)
    close = [one for one in names if one.casefold() == str(name).casefold()]
    close = close or get_close_matches(str(name), names, n=1)
    if not close:  # "people" for "persons": the only one that begins alike
        alike = [one for one in names if one[:2].casefold() == str(name)[:2].casefold()]
        close = alike if len(alike) == 1 and len(str(name)) > 2 else []
    return one_of(names, most=most) + (f" (did you mean {close[0]!r}?)" if close else "")


def near_name(path: Path) -> str:
    """For a file that is not there: the one beside it that was probably meant, in brackets."""
    try:
        there = [one.name for one in path.parent.iterdir() if one.is_file()]
    except OSError:
        return ""
    close = get_close_matches(path.name, there, n=1, cutoff=0.75)
    return f" (did you mean {close[0]!r}?)" if close else ""


class HeadcountError(Exception):
    """Base of every error headcount raises on purpose; it can be pickled as it is."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args), self.__dict__


def _again(kind: type[HeadcountError], args: tuple[object, ...]) -> HeadcountError:
    """An error that came from another process: the message is made, so nothing is made again."""
    error = kind.__new__(kind)
    error.args = args
    return error


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


class _Positions(Protocol):
    """Numbers of rows: a list, an array or a series."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


Noted = tuple[int, tuple[tuple[int, str, str, str], ...]]
"""Problems without their file: how many, and of the first the row, place, found and expected."""


class Problems:
    """All that is wrong with the rows of a file, refused together: the first, and how many more.

    where
        where      names rows of the file, by their positions in it
        position   where in the file a row stands, given by its number here
    """

    def __init__(
        self, source: str, where: Where, position: Callable[[int], int] | None = None
    ) -> None:
        self.source, self.where, self._position = source, where, position
        self._number = 0
        self._first: list[tuple[int, str, str, str]] = []

    def add(
        self, rows: _Positions, *, place: str = "", found: Callable[[int], str], expected: str
    ) -> None:
        """Note rows, in their order, that have one fault in common."""
        self._number += len(rows)
        for row in (int(row) for row in islice(rows, MOST_PROBLEMS)):
            at = row if self._position is None else self._position(row)
            self._first.append((at, place, found(row), expected))

    @property
    def noted(self) -> Noted:
        """What was noted, to be told elsewhere."""
        return self._number, tuple(self._in_order())

    def take(self, noted: Noted) -> None:
        """Note what was noted of other rows of the file."""
        number, first = noted
        self._number += number
        self._first += first

    def _in_order(self) -> list[tuple[int, str, str, str]]:
        return sorted(self._first, key=lambda problem: problem[0])[:MOST_PROBLEMS]

    def refuse(self) -> None:
        """Raise an InputError if there are any."""
        if not self._number:
            return
        first = self._in_order()
        names = self.where([row for row, *_ in first])
        errors = [
            InputError(
                self.source,
                place=f"{place}, {name}".removeprefix(", "),
                found=found,
                expected=expected,
            )
            for name, (_, place, found, expected) in zip(names, first, strict=True)
        ]
        if self._number == 1:
            raise errors[0]
        raise _InputErrors(self.source, errors, number=self._number)


class _InputErrors(InputError):
    """Several faults of one file, each on a line of its own."""

    def __init__(self, source: str, errors: Sequence[InputError], *, number: int) -> None:
        super().__init__(source, found=f"{number:,} problems", expected="none")
        self.errors = tuple(errors)
        listed = [
            f"  {error.place}: found {error.found}, expected {error.expected}" for error in errors
        ]
        if number > len(errors):
            listed.append(f"  and {number - len(errors):,} more")
        self.args = ("\n".join([f"{source}: {number:,} problems", *listed]),)


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


class PluginError(HeadcountError):
    """A part of another distribution that failed while it worked; its own error is the cause.

    The cause's message is not repeated: it may have counts in it.
    """


class RunError(HeadcountError):
    """A run directory that cannot be used: it holds another run, or is damaged."""


def without_values(error: HeadcountError) -> str:
    """The message of an error for somebody who may not see the data: where, and which rule.

    Nothing that may stand in the data is in it, neither a value nor how many rows are at fault. An
    error about settings is told whole: they are not read from the data.
    """
    if isinstance(error, TruthError):
        return f"{error.source}: the data break what this method must keep"
    if isinstance(error, ConfigError) or not isinstance(error, InputError):
        return str(error)
    if isinstance(error, _InputErrors):
        return "\n".join(dict.fromkeys(map(without_values, error.errors)))
    named = error.place.startswith(("column ", "attribute "))
    place = error.place if named else _until(_QUOTES, error.place)
    found, expected = _until(_VALUES, error.found), _until(_QUOTES, error.expected)
    return f"{error.source}: {place}{': ' if place else ''}found {found}, expected {expected}"


_QUOTES = re.compile(r"[\"'`]")
_VALUES = re.compile(r"[\"'`\[(:\d]")


def _until(sign: re.Pattern[str], text: str) -> str:
    """Text up to where it begins to quote something."""
    cut = sign.search(text)
    return text if cut is None else f"{text[: cut.start()].rstrip()} ...".lstrip()
