"""Whether the first line of a file names its columns, or is a row of somebody's values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

from headcount.errors import InputError
from headcount.population.format import PLAIN, Format
from headcount.population.office_files import EXCEL, read_sheet
from headcount.population.tables import header_of, refuse_no_file, too_large
from headcount.population.text_files import is_text, open_text

SAMPLE = 1000
"""Rows below the first that are looked at."""

CODE = 3
"""Letters and digits of a code at most."""


def refuse_values_as_names(path: Path, form: Format = PLAIN) -> None:
    """Refuse a first line that may be a person's.

    It may be one if a name has no letter in it, as ages and dates have none; or stands below in its
    own column; or if no name can be told from what stands below it. Files other than text and
    sheets keep names apart from rows.
    """
    refuse_no_file(path)
    if is_text(path):
        text = open_text(path, form, too_large(str(path)), whole=False)
        odd = _value_among(text.header, text.rows_below(SAMPLE))
    elif path.suffix.lower() in EXCEL:
        sheet, header = read_sheet(path, form)
        odd = _value_among(header, sheet.head(SAMPLE).rows())
    else:
        odd = _without_letters(header_of(path, form))
    if odd is not None:
        raise InputError(
            str(path),
            place="the first line",
            found=f"{odd!r}, which may be a value and no name",
            expected="a name for each column",
        )


def _without_letters(names: Iterable[str]) -> str | None:
    return next((one for one in names if one and not any(map(str.isalpha, one))), None)


def _value_among(names: Sequence[str], below: Sequence[Sequence[str | None]]) -> str | None:
    """The first name that may be a value."""
    own = [name.strip() for name in names]
    if (odd := _without_letters(own)) is not None:
        return odd
    told_apart = False
    for name, values in zip(own, zip_longest(*below), strict=False):  # a row may break off
        found = {value.strip() for value in values if value} - {""}
        if name and name in found:
            return name
        told_apart = told_apart or (bool(name) and _is_unlike(name, found))
    return None if told_apart else next(filter(None, own), None)


def _is_unlike(name: str, values: set[str]) -> bool:
    """Whether a word can hardly be one of these values: they are numbers, or shorter codes."""
    numbers = not any(any(map(str.isalpha, value)) for value in values)
    codes = len(name) > CODE >= max(map(len, values), default=0)
    return bool(values) and (numbers or codes)
