"""Kinds of values that a config may hold: exact numbers, strict flags, tables without surprises."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from headcount.errors import HeadcountError
from headcount.numbers import TooLong, exact_number


class Wrong(ValueError):
    """A fault in several keys together: what of them was found, not the whole table."""

    def __init__(self, *, found: str, expected: str, place: str = "") -> None:
        self.found = found
        self.expected = expected
        self.place = place
        super().__init__(expected)


def wrong_from(error: HeadcountError, *, source: str) -> Wrong:
    """An error of the settings' own, as a fault in the keys of a config.

    Every message reads ``place: found ..., expected ...``; a config adds its file and table.
    """
    text = str(error).removeprefix(f"{source}: ")
    place, _, rest = text.partition(": found ")
    found, _, expected = rest.partition(", expected ")
    if not expected:
        return Wrong(found=text, expected="settings that fit together")
    return Wrong(place=place, found=found, expected=expected)


class Strict(BaseModel):
    """A table in which every key is known and nothing changes afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


def fraction(value: object) -> Fraction:
    """An exact number above 0 from what a config file may hold."""
    if isinstance(value, float):  # from Python: a file's decimals are read digit by digit
        raise ValueError('an exact number above 0: 1, or text such as "0.1" or "1/8"')
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal | Fraction):
        raise ValueError('a number above 0 such as 1, 0.1 or "1/8"')
    try:
        number = exact_number(value)
    except TooLong:
        raise
    except ValueError:
        raise ValueError('a finite number above 0 such as 1, 0.1 or "1/8"') from None
    if number <= 0:
        raise ValueError("a number above 0")
    return number


LARGEST = 2**63 - 1


def _of_64_bits(value: int) -> int:
    if not -LARGEST <= value <= LARGEST:
        raise ValueError(f"a whole number from {-LARGEST:,} to {LARGEST:,}")
    return value


# Not by ge and le, which would take the place of a key's own.
Whole = Annotated[int, Field(strict=True), AfterValidator(_of_64_bits)]
"""A whole number as TOML writes it: not true, not "3", not 3.0; of at most 64 bits."""

Flag = Annotated[bool, Field(strict=True)]
"""true or false: nothing else says whether data are public."""


def _no_nul(path: Path) -> Path:
    if "\0" in str(path):
        raise ValueError("a path without the character NUL")
    return path


Place = Annotated[Path, AfterValidator(_no_nul)]
"""A path that an operating system can take."""

PositiveFraction = Annotated[Fraction, BeforeValidator(fraction), PlainSerializer(str)]
"""An exact number above 0; decimals in the file are read digit by digit, never as floats."""


def _share(value: object) -> Fraction:
    number = fraction(value)
    if number > 1:
        raise ValueError("a share above 0 and at most 1")
    return number


Share = Annotated[Fraction, BeforeValidator(_share), PlainSerializer(str)]
"""An exact part of a whole."""
