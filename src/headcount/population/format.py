"""How the files of a population are written: signs between fields and digits, encoding, sheet."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Literal

import polars as pl

from headcount.errors import InputError

SPACES = "\u0020\u00a0\u2009\u202f"
"""Blanks that stand between thousands."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """How the files of a population are written.

    where
        delimiter   the sign between the fields of a text file; left out, the one of comma,
                    semicolon, tab and bar that splits the header into most fields
        encoding    that of a text file; a byte order mark at its start is believed first
        decimal     the sign before decimals of counts and years
        thousands   the sign between thousands of counts
        sheet       the sheet of an Excel file; left out, the first
    """

    delimiter: str = ""
    encoding: str = "utf-8"
    decimal: Literal[".", ","] = "."
    thousands: Literal["", ",", ".", " ", "'"] = ""
    sheet: str = ""

    def __post_init__(self) -> None:
        if len(self.delimiter.encode()) > 1 or self.delimiter in ('"', "\n", "\r"):
            raise InputError(
                "format",
                place="delimiter",
                found=repr(self.delimiter),
                expected=r'one sign such as ";" or "\t", no quotation mark',
            )
        try:
            codecs.lookup(self.encoding)
        except (LookupError, ValueError):
            raise InputError(
                "format",
                place="encoding",
                found=repr(self.encoding),
                expected='the name of an encoding such as "utf-8", "cp1252" or "latin-1"',
            ) from None
        if self.thousands == self.decimal:
            raise InputError(
                "format",
                place="thousands",
                found=f"{self.thousands!r}, which is the decimal sign too",
                expected="two different signs",
            )

    def plain(self, numbers: pl.Series) -> pl.Series:
        """Numbers as text, written without signs between thousands and with a decimal point."""
        text = numbers.str.strip_chars()
        if self.thousands:
            # Only where they part groups of three digits: "1,23" is not 123.
            signs = f"[{SPACES}]" if self.thousands == " " else f"[{self.thousands}]"
            grouped = text.str.contains(rf"^\d{{1,3}}({signs}\d{{3}})+([.,]\d*)?$")
            text = pl.select(
                pl.when(grouped.fill_null(False))
                .then(text.str.replace_all(signs, ""))
                .otherwise(text)
            ).to_series()
        if self.decimal == ",":
            # A point is then no decimal sign: "1.234" is refused, not read as 1.
            text = text.str.replace_all(".", "?", literal=True).str.replace(",", ".", literal=True)
        return text.alias(numbers.name)


PLAIN = Format()
