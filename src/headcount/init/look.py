"""What is in a file: its format, and for each column what kind of values it holds."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import polars as pl

from headcount.errors import InputError
from headcount.init.words import CODED
from headcount.population.columns import WITHHELD
from headcount.population.formats.content import ValueLabels
from headcount.population.formats.kinds import Stored, is_text, kind_of, too_large
from headcount.population.formats.layouts import codebook_of
from headcount.population.formats.whole import names_in, read_whole
from headcount.population.suspicious import NO_VALUE, looks_missing, says_total
from headcount.population.tables import (
    AnyTable,
    FrameTable,
    Rows,
    header_of,
    read_rows,
    refuse_no_file,
    trimmed,
    way_of,
)
from headcount.population.text_files import (
    Format,
    likely_encoding,
    open_text,
    told_encoding,
)

MOST_DISTINCT = 5000
"""Values of a column that are looked at one by one."""

FIRST = 10_000
"""Rows that are looked at first, where they may settle what is asked of all."""

_GROUPED = re.compile(r"^-?\d{1,3}([.,'\s])\d{3}(\1\d{3})*$")
_NUMBER = r"[-+]?[\d.,'\s]*\d[\d.,'\s]*([eE][-+]?\d+)?%?"
WHOLE = r"^\d{1,15}(\.0*)?$"
_DECIMAL_COMMA = re.compile(r"^-?\d+,\d+$")


@dataclass(frozen=True, eq=False, repr=False)
class SeenColumn:
    """One column of a file: its values as text, and what they look like.

    where
        labels   what its codes are
        label    what it is, as a codebook or a second line of names says
    """

    name: str
    values: pl.Series
    form: Format
    labels: dict[str, str] = field(default_factory=dict)
    label: str = ""

    @cached_property
    def present(self) -> pl.Series:
        """The values that are there."""
        return self.values.drop_nulls()

    @cached_property
    def number(self) -> int:
        """How many different values there are."""
        return int(self.present.n_unique())

    @cached_property
    def distinct(self) -> list[str]:
        """The different values, as many as are looked at."""
        for some in (self.present.head(10 * MOST_DISTINCT), self.present):
            found = some.unique(maintain_order=True)
            if len(found) >= MOST_DISTINCT:
                break
        return sorted(found.head(MOST_DISTINCT).to_list())

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Values that look like missing ones, words for nothing included."""
        return looks_missing(self.distinct) if self.number <= MOST_DISTINCT else ()

    @property
    def odd_missing(self) -> tuple[str, ...]:
        """Those that must be listed to be taken for missing."""
        return tuple(one for one in self.missing if one.strip().casefold() not in NO_VALUE)

    @property
    def has_gaps(self) -> bool:
        """Whether some rows have no value."""
        return len(self.present) < len(self.values) or bool(self.missing)

    @cached_property
    def totals(self) -> tuple[str, ...]:
        """Values that are words for a total."""
        return tuple(filter(says_total, self.distinct))

    @cached_property
    def real(self) -> list[str]:
        """The different values without missing ones and totals."""
        gone = {*self.missing, *self.totals}
        return [one for one in self.distinct if one not in gone]

    @cached_property
    def whole(self) -> bool:
        """Whether all that is there are whole numbers, 0 or more."""
        if not self.real or self.number > MOST_DISTINCT:
            known = self.form.plain(self.present)
        else:
            known = self.form.plain(pl.Series(self.real))
        return bool(len(known)) and bool(known.str.contains(WHOLE).all())

    @cached_property
    def numeric(self) -> bool:
        """Whether most values are numbers, whatever stands in the place of the others."""
        return bool(len(self.present)) and 2 * int(self.are_numbers.sum()) >= len(self.present)

    @property
    def counts(self) -> bool:
        """Whether these may be counts: whole numbers, though some may be withheld."""
        return self.whole or (self.numeric and not self.decimal)

    @cached_property
    def withheld(self) -> bool:
        """Whether there are whole numbers, and signs for withheld ones in place of all others."""
        signs = self.present.filter(~self.are_numbers)
        some = 0 < len(signs) < len(self.present) and signs.str.contains(WITHHELD).all()
        numbers = self.form.plain(self.present.filter(self.are_numbers))
        return some and numbers.str.contains(WHOLE).all()

    @cached_property
    def are_numbers(self) -> pl.Series:
        """Which of the values that are there are numbers."""
        return self.present.str.contains(rf"^{_NUMBER}$")

    @cached_property
    def decimal(self) -> bool:
        """Whether all are numbers, some with decimals."""
        known = self.form.plain(pl.Series(self.real, dtype=pl.String))
        numbers = bool(len(known)) and known.str.contains(r"^-?\d*\.?\d*$").all()
        return numbers and known.str.contains(r"\.\d*[1-9]\d*$").any()

    @cached_property
    def numbers(self) -> list[int]:
        """The different values as whole numbers."""
        return sorted(int(float(one)) for one in self.form.plain(pl.Series(self.real)))

    @property
    def says(self) -> str:
        """The name in small letters, words parted by blanks; of a name that is a code its label."""
        name = self.label if self.label and CODED.fullmatch(self.name) else self.name
        parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
        return re.sub(r"[\s._\-()\[\]/,:;!'’]+", " ", parted).strip().casefold()


@dataclass(frozen=True, eq=False, repr=False)
class SeenFile:
    """A file as it is found."""

    path: AnyTable
    form: Format
    rows: Rows
    columns: tuple[SeenColumn, ...]
    encoding_found: str = ""
    delimiter_found: str = ""

    @property
    def frame(self) -> pl.DataFrame:
        """All columns as text."""
        return self.rows.frame

    def only(self, wanted: pl.Series) -> SeenFile:
        """The same file as far as some of its rows go."""
        if wanted.all():
            return self  # with what is known of its columns
        rows = self.rows.only(wanted, without="")
        columns = (replace(one, values=rows.frame[one.name]) for one in self.columns)
        return replace(self, rows=rows, columns=tuple(columns))

    def without(self, names: Collection[str]) -> SeenFile:
        """The same file without some columns."""
        return replace(self, columns=tuple(one for one in self.columns if one.name not in names))

    def column(self, name: str) -> SeenColumn:
        """The column of that name."""
        return next(one for one in self.columns if one.name == name)


def look(
    path: AnyTable,
    *,
    sheet: str = "",
    form: Format | None = None,
    labels: Mapping[str, str] | None = None,
) -> SeenFile:
    """Read a whole table as text, and find out how it is written; what ``form`` says is known.

    ``labels`` say what columns are.
    """
    seen = _looked(path, sheet, form)
    if not labels:
        return seen
    columns = (replace(one, label=labels.get(one.name, "")) for one in seen.columns)
    return replace(seen, columns=tuple(columns))


def _looked(path: AnyTable, sheet: str, form: Format | None) -> SeenFile:
    if isinstance(path, FrameTable):
        return _seen(path, form or Format(), "", "")
    refuse_no_file(path)
    known = replace(form or Format(), sheet=sheet or (form.sheet if form else ""))
    told = known.sheet or known.sheets
    if not told and len(names := names_in(path, known)) > 1:
        raise InputError(
            str(path),
            place="sheets",
            found=f"several: {', '.join(map(repr, names[:12]))}",
            expected=f'one of them: --sheet "{names[0]}"',
        )
    if known.layout is None and is_text(path):
        known = _laid_out(path, known)
    if way_of(path, known) != "text":
        return _seen(path, known, "", "")
    encoding = likely_encoding(path) if known.encoding == "utf-8" else known.encoding
    known = replace(known, encoding=told_encoding(encoding))
    return _seen(path, known, encoding, open_text(path, known, too_large(str(path))).delimiter)


def _laid_out(path: Path, form: Format) -> Format:
    """With the codebook beside a text that has no header of its own, if there is one."""
    book = codebook_of(path)
    if book is None or not book[1].is_needed(Stored(path)):
        return form
    return replace(form, layout=book[0])


def _seen(path: AnyTable, form: Format, encoding: str, delimiter: str) -> SeenFile:
    header = header_of(path, form)
    if not form.cut and form.layout is None:
        _refuse_titles(path, header, form)
    header = list(dict.fromkeys(header))
    rows = read_rows(path, header, form=form)
    others = pl.all().exclude(pl.String).cast(pl.String)  # texts are trimmed already
    frame = rows.frame.with_columns(trimmed(rows.frame.select(others))).select(header)
    form = replace(form, **_signs(frame, delimiter))  # type: ignore[arg-type]
    rows = Rows(path, form, frame, rows.at)
    labels = _value_labels(path, form)
    columns = tuple(
        SeenColumn(name, rows.frame[name], form, dict(labels.get(name, {}))) for name in header
    )
    return SeenFile(path, form, rows, columns, encoding, delimiter)


def _value_labels(path: AnyTable, form: Format) -> ValueLabels:
    """What codes are, where the format or the codebook of a file says it."""
    if isinstance(path, FrameTable) or (kind_of(path) == "excel" and form.layout is None):
        return {}
    if way_of(path, form) == "other":
        return read_whole(path, form).value_labels
    book = codebook_of(path)
    if book is None:
        return {}
    return book[1].of(pl.DataFrame(), header_of(path, form)).value_labels


def _refuse_titles(path: AnyTable, header: Sequence[str], form: Format) -> None:
    """Refuse a first line that does not name the columns, as titles above a table do not."""
    unnamed = sum(one.strip() in ("", "None") for one in header)
    found = f"{unnamed} columns without a name" if unnamed > 1 else ""
    values = [one for one in header if re.fullmatch(r"-?\d+([.,]\d+)?", one.strip())]
    if 2 * len(values) > len(header) and sorted(values, key=_size) != values != sorted(
        values, key=_size, reverse=True
    ):
        found = "values and no names: there is no header line"
    if isinstance(path, Path) and len(header) == 1 and is_text(path):
        below = open_text(path, form, too_large(str(path))).parted_below()
        found = "one column, and several in the lines below" if below else ""
    if found:
        raise InputError(
            str(path),
            place="the first line",
            found=found,
            expected="a name for each column, in one line: take out titles and lines above it, "
            "and join headings of two lines into one",
        )


def _size(number: str) -> float:
    return float(number.replace(",", "."))


def _signs(frame: pl.DataFrame, delimiter: str) -> dict[str, str]:
    """The signs before decimals and between thousands, from columns of numbers that have them."""
    for name in frame.columns:
        if not frame[name].str.contains(r"[.,'\s]").any():
            continue  # numbers without a sign say nothing, and to list them takes longest
        values = frame[name].drop_nulls().unique().head(MOST_DISTINCT).to_list()
        numbers = [one for one in values if re.fullmatch(r"-?\d[\d.,'\s]*", one)]
        if len(numbers) < max(1, 0.9 * len(values)):
            continue
        grouped = {found[1] for one in numbers if (found := _GROUPED.match(one))}
        plain = [one for one in numbers if re.fullmatch(r"-?\d+", one)]
        comma = [one for one in numbers if _DECIMAL_COMMA.match(one) and not _GROUPED.match(one)]
        if comma and not grouped - {"."}:
            return {"decimal": ",", **({"thousands": "."} if "." in "".join(numbers) else {})}
        # All numbers above 999 are grouped, and in the same way; others have no sign at all.
        if len(grouped) == 1 and all(len(one.lstrip("-")) <= 3 for one in plain):
            sign = grouped.pop()
            odd = [one for one in numbers if one not in plain and not _GROUPED.match(one)]
            # With a point and no other sign of it, 1.234 may as well have decimals.
            if sign in ",' \u00a0\u202f" + "." * (delimiter == ";") and not odd:
                kept = " " if sign.isspace() else sign
                return {"thousands": kept, **({"decimal": ","} if kept == "." else {})}
    return {}


def same_for_all(frame: pl.DataFrame, key: str | Sequence[str], column: str) -> bool:
    """Whether rows with the same key have the same value of a column.

    A few rows are looked at first: where they differ, all do. Keys that never repeat decide it.
    """
    keys = [key] if isinstance(key, str) else list(key)
    both = list(dict.fromkeys([*keys, column]))
    for some in (frame.head(FIRST), frame):
        number = some.select(keys).n_unique()
        if number < some.height and some.select(both).n_unique() != number:
            return False
    return True
