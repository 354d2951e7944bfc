"""Whether the first line of a file names its columns, or is a row of somebody's values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from headcount.errors import InputError
from headcount.population.format import PLAIN, Format
from headcount.population.office_files import EXCEL, read_sheet
from headcount.population.tables import header_of, refuse_no_file, too_large
from headcount.population.text_files import is_text, open_text

SAMPLE = 1000
"""Rows below the first that are looked at."""


def refuse_values_as_names(path: Path, form: Format = PLAIN) -> None:
    """Refuse a first line that may be a person's.

    It may be one if a name has no letter in it, as ages and dates have none, or stands below in its
    own column. Files other than text and sheets keep names apart from rows.
    """
    refuse_no_file(path)
    if is_text(path):
        text = open_text(path, form, too_large(str(path)), whole=False)
        odd = _value_among(text.header, text.rows_below(SAMPLE))
    elif path.suffix.lower() in EXCEL:
        sheet, header = read_sheet(path, form)
        odd = _value_among(header, sheet.head(SAMPLE).iter_rows())
    else:
        odd = _value_among(header_of(path, form), ())
    if odd is not None:
        raise InputError(
            str(path),
            place="the first line",
            found=f"{odd!r}, which may be a value and no name",
            expected="a name for each column",
        )


def _value_among(names: Sequence[str], below: Iterable[Sequence[str | None]]) -> str | None:
    """The first name that may be a value."""
    own = [name.strip() for name in names]
    for name in filter(None, own):
        if not any(sign.isalpha() for sign in name):
            return name
    for row in below:
        for name, value in zip(own, row, strict=False):  # a row may break off
            if name and value is not None and value.strip() == name:
                return name
    return None
