"""Tables of Excel, Stata and SPSS as text: numbers that are whole have no decimals."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from headcount.errors import InputError, one_of
from headcount.population.text_files import Format

EXCEL = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
STATISTICS = (".dta", ".sav", ".zsav")

EXACT = 1 << 53
"""From here on a float may have been another whole number before it was stored."""

ValueLabels = dict[str, dict[str, str]]
"""For a column the label of each value."""


def sheet_names(path: Path) -> list[str]:
    """The sheets of an Excel file in which something stands."""
    import fastexcel

    try:
        book = fastexcel.read_excel(path)
        return [
            one for one in book.sheet_names if book.load_sheet(one, n_rows=1, dtypes="string").width
        ]
    except fastexcel.FastExcelError as error:
        raise _unreadable(str(path), error, "an Excel file") from None


def read_sheet(path: Path, form: Format) -> tuple[pl.DataFrame, list[str]]:
    """The sheet of an Excel file, and its header as written (a name may stand twice)."""
    import fastexcel

    name = str(path)
    try:
        book = fastexcel.read_excel(path)
        if form.sheet and form.sheet not in book.sheet_names:
            raise InputError(
                name,
                place="sheet",
                found=repr(form.sheet),
                expected=one_of(book.sheet_names),
            )
        sheet = form.sheet or 0
        table = book.load_sheet(sheet, dtypes="string").to_polars()
        first = book.load_sheet(sheet, dtypes="string", header_row=None, n_rows=1).to_polars()
    except fastexcel.FastExcelError as error:
        raise _unreadable(name, error, "an Excel file") from None
    header = [str(one) for one in first.row(0)] if first.height else []
    return table.select(pl.all().cast(pl.String)), header


def read_statistics(path: Path) -> tuple[pl.DataFrame, ValueLabels]:
    """The table of a Stata or SPSS file, codes as they are, and the labels of its values."""
    import pyreadstat

    read = pyreadstat.read_dta if path.suffix.lower() == ".dta" else pyreadstat.read_sav
    name = str(path)
    try:
        table, facts = read(
            path,
            output_format="polars",
            disable_datetime_conversion=True,
            apply_value_formats=False,
        )
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, ValueError, OSError) as error:
        raise _unreadable(name, error, "a Stata or SPSS file") from None
    labels = {
        column: {_whole_text(value): str(label) for value, label in known.items()}
        for column, known in facts.variable_value_labels.items()
    }
    return table.select(as_text(table[column], name) for column in table.columns), labels


def statistics_rows(path: Path) -> tuple[int, list[str]]:
    """How many rows a Stata or SPSS file says it has (0 if it does not say), and its columns."""
    import pyreadstat

    read = pyreadstat.read_dta if path.suffix.lower() == ".dta" else pyreadstat.read_sav
    try:
        _, facts = read(path, output_format="polars", metadataonly=True)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, ValueError, OSError) as error:
        raise _unreadable(str(path), error, "a Stata or SPSS file") from None
    return int(facts.number_rows or 0), list(facts.column_names)


def as_text(values: pl.Series, name: str) -> pl.Series:
    """Values as text: 3.0 is "3", and an empty text is nothing."""
    if values.dtype == pl.String:
        return values.str.strip_chars_end().replace("", None)
    if not values.dtype.is_float():
        return values.cast(pl.String)
    large = (values.abs() >= EXACT).fill_null(False)
    if large.any():
        row = int(large.arg_true()[0])
        raise InputError(
            name,
            place=f"column {values.name!r}, row {row + 1}",
            found="a number of more than 15 digits, some of which a file of this kind rounds",
            expected="text, or shorter numbers",
        )
    near = values.fill_nan(None)
    whole = (near == near.round()).fill_null(False)
    text = pl.select(
        pl.when(whole)
        .then(near.cast(pl.Int64, strict=False).cast(pl.String))
        .otherwise(near.cast(pl.String))
    )
    return text.to_series().alias(values.name)


def _whole_text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _unreadable(name: str, error: BaseException, expected: str) -> InputError:
    first, *_ = str(error).splitlines() or [type(error).__name__]
    return InputError(name, found=f"content that cannot be read ({first})", expected=expected)
