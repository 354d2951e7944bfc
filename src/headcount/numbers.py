"""Exact numbers from text, digit by digit, and never so large that reading one takes forever.

``Fraction("1e999999999")`` builds a whole number of a billion digits. What a number costs is
therefore looked at before it is built.
"""

from __future__ import annotations

import re
import sys
from decimal import Decimal
from fractions import Fraction
from numbers import Rational

MOST_DIGITS = 50
"""Digits above and below the fraction bar: ten times what a budget needs, and cheap to add up."""

RECORDED_DIGITS = 4300
"""Digits of a number that headcount itself wrote: those that Python turns into text."""

_EXPONENT = re.compile(r"[eE]\s*([+-]?[\d_]+)")


class TooLong(ValueError):
    """A number with more digits than are read."""

    def __init__(self, digits: int) -> None:
        super().__init__(f"a number of at most {digits:,} digits above and below the fraction bar")


def exact_number(value: int | str | Rational | Decimal, *, digits: int = MOST_DIGITS) -> Fraction:
    """``value`` as a fraction, or a ValueError: :class:`TooLong` if it has too many digits."""
    if isinstance(value, str):
        _refuse_long_text(value, digits)
    elif isinstance(value, Decimal) and value.is_finite():
        _, written, exponent = value.as_tuple()
        if len(written) > digits or abs(int(exponent)) > digits:
            raise TooLong(digits)
    try:
        number = Fraction(value)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError("a finite number") from None
    if not fits(number, digits=digits):
        raise TooLong(digits)
    return number


def fits(number: Fraction, *, digits: int) -> bool:
    """Whether a fraction has at most so many digits above and below its bar."""
    limit: int = 10**digits
    return -limit < number.numerator < limit and number.denominator < limit


def _refuse_long_text(text: str, digits: int) -> None:
    exponent = _EXPONENT.search(text)
    power = exponent[1].replace("_", "").lstrip("+-").lstrip("0") if exponent else ""
    if len(text) > 3 * digits or len(power) > len(str(digits)) or int(power or 0) > digits:
        raise TooLong(digits)


def shown(value: object) -> str:
    """A value for a message: a whole number that Python will not write is named by its size."""
    try:
        return str(value) if isinstance(value, Decimal) else repr(value)
    except ValueError:
        return f"a whole number of more than {sys.get_int_max_str_digits():,} digits"


def in_plain_numbers(settings: str) -> str:
    """Settings as Python writes them, for people: ``Fraction(1, 2)`` is 1/2, members of an
    enumeration are their own names in small letters.
    """
    whole = re.sub(r"Fraction\((-?\d+), 1\)", r"\1", settings)
    parts = re.sub(r"Fraction\((-?\d+), (\d+)\)", r"\1/\2", whole)
    return re.sub(
        r"\b[A-Z][A-Za-z]+\.([A-Z_]+)\b", lambda one: one[1].lower().replace("_", "-"), parts
    )
