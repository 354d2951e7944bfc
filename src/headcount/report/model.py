"""What a report is made of: frozen, typed content that knows nothing of HTML.

Two things a report may not leave out are held by the types: ``limits`` (what the result does not
protect and does not show) and ``confidential`` (whether it was computed from confidential data).
Neither has a default, so that every author has to answer.
"""

from __future__ import annotations

import os
import platform
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from headcount.errors import InputError
from headcount.processes import machine_memory

if TYPE_CHECKING:
    import polars as pl
    from altair.typing import ChartType


CONFIDENTIAL_BANNER = "computed from confidential data, not protected, do not publish"
LIMITS_TITLE = "What this does not protect, and other limits"

CellValue: TypeAlias = str | int | float | bool | None

_BOLD_LEAD = re.compile(r"\*\*(.+?)\*\*")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
# Anchors the page itself uses; a figure of the same name would be unreachable.
_RESERVED_NAMES = frozenset({"summary", "limits", "provenance"})


@dataclass(frozen=True)
class Prose:
    """Paragraphs in a small Markdown: emphasis, code, lists, quotes and links; no raw HTML.

    A link to the name of a figure or table with no text, ``[](#name)``, reads "Figure 2".
    """

    text: str

    def __post_init__(self) -> None:
        _require_text(self.text, "prose", "text")


@dataclass(frozen=True)
class Subheading:
    """A heading inside a section."""

    text: str

    def __post_init__(self) -> None:
        _require_text(self.text, "subheading", "text")


@dataclass(frozen=True)
class Callout:
    """A short text that must not be missed."""

    kind: Literal["note", "warning", "key finding"]
    text: str

    def __post_init__(self) -> None:
        if self.kind not in ("note", "warning", "key finding"):
            raise InputError(
                "report callout",
                place="kind",
                found=repr(self.kind),
                expected="'note', 'warning' or 'key finding'",
            )
        _require_text(self.text, "callout", "text")


@dataclass(frozen=True, kw_only=True)
class KeyNumber:
    """One big number: already formatted, with its unit and a few words on what it is."""

    value: str
    label: str
    unit: str = ""

    def __post_init__(self) -> None:
        _require_text(self.value, "key number", "value")
        _require_text(self.label, f"key number {self.value!r}", "label")


@dataclass(frozen=True)
class KeyNumbers:
    """A row of big numbers."""

    numbers: tuple[KeyNumber, ...]

    def __post_init__(self) -> None:
        if not self.numbers:
            raise InputError("report key numbers", found="none", expected="at least one number")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A chart with a caption in plain words and a text for those who cannot see it.

    ``name`` is the figure's file name under ``figures/`` and its anchor in the page.
    """

    name: str
    caption: str
    alt: str
    chart: ChartType

    def __post_init__(self) -> None:
        _require_name(self.name, "figure")
        _require_text(self.caption, f"figure {self.name!r}", "caption")
        _require_text(self.alt, f"figure {self.name!r}", "alt")

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The chart as a specification of Vega-Lite, for a page and for files."""
        from headcount.report.specs import chart_spec

        return chart_spec(self.chart)

    @property
    def lead(self) -> str:
        """What the caption says first, in bold; "" if it does not."""
        bold = _BOLD_LEAD.match(self.caption)
        return bold[1].rstrip(".:") if bold else ""

    def _repr_svg_(self) -> str:
        """The figure in a notebook: drawn here, with nothing from a network."""
        from headcount.report.specs import svg_of

        return svg_of(self.spec, alt_text=self.alt, title=self.lead)

    def save(self, path: str | Path) -> None:
        """Write the figure as a file: .svg, or .png."""
        from headcount.files import write_bytes_atomic
        from headcount.report.specs import png_of

        target = Path(path)
        if target.suffix not in (".svg", ".png"):
            raise InputError(str(path), found=f"ending {target.suffix!r}", expected=".svg or .png")
        svg = self._repr_svg_()
        write_bytes_atomic(target, svg.encode() if target.suffix == ".svg" else png_of(svg))


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table: ``key`` names it in the data, ``label`` and ``unit`` head it.

    ``format`` is a Python format specification such as ``",.0f"``. A column with a format holds
    numbers and is set to the right; one without holds text as it is, verdicts ("reproduced"),
    which have a sign and a colour, or names of figures, which are links. One that stands
    ``under`` the column before it has no head, and its values are in the same cells, in small. One
    that shows ``heat`` holds percentages, shaded the darker the larger they are.
    """

    key: str
    label: str
    unit: str = ""
    format: str = ""
    shows: Literal["text", "verdict", "link", "heat"] = "text"
    under: bool = False

    @property
    def numeric(self) -> bool:
        """Whether the column holds numbers."""
        return bool(self.format)

    def show(self, value: CellValue) -> str:
        """Format one value; a missing or undefined one is a dash, minus is a true minus."""
        if value is None or value != value:
            return "\N{EN DASH}"
        if not self.format:
            return str(value)
        return format(value, self.format).replace("-", "\N{MINUS SIGN}")

    def warmth(self, value: CellValue) -> int | None:
        """How dark a percentage is shaded, 0 to 6; None where there is nothing to shade."""
        if self.shows != "heat" or not isinstance(value, int | float) or value != value:
            return None
        return bisect_right(HEAT_STEPS, abs(value))

    def mark(self, value: CellValue) -> tuple[str, str]:
        """The class and the sign of a verdict: not colour alone tells it."""
        return _MARKS.get(str(value), _NO_MARK)


HEAT_STEPS = (0.1, 1, 3, 10, 30, 100)
"""Percentages at which a shade begins that is darker than the one before."""

_MARKS = {
    "reproduced": ("good", "\N{CHECK MARK}"),
    "compatible": ("good", "\N{ALMOST EQUAL TO}"),
    "undecided": ("mixed", "\N{CIRCLE WITH LEFT HALF BLACK}"),
    "not reproduced here": ("bad", "\N{BALLOT X}"),
    "the paper errs": ("bad", "\N{EXCLAMATION MARK}"),
}
_NO_MARK = ("none", "\N{WHITE CIRCLE}")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table whose first column names its rows. A folded one opens on a click, and in print.

    ``groups`` has the group of each row; neighbouring rows of the same stand under its name.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[CellValue, ...], ...]
    notes: str = ""
    folded: bool = False
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require_name(self.name, "table")
        _require_text(self.caption, f"table {self.name!r}", "caption")
        if self.columns and self.columns[0].under:
            raise InputError(
                f"report table {self.name!r}",
                place=f"column {self.columns[0].key!r}",
                found="a first column that stands under another",
                expected="one with a head of its own",
            )
        if len(self.groups) not in (0, len(self.rows)):
            raise InputError(
                f"report table {self.name!r}",
                place="groups",
                found=str(len(self.groups)),
                expected=f"{len(self.rows)}, one for each row",
            )
        for number, row in enumerate(self.rows, start=1):
            if len(row) != len(self.columns):
                raise InputError(
                    f"report table {self.name!r}",
                    place=f"row {number}",
                    found=f"{len(row)} values",
                    expected=f"{len(self.columns)}, one for each column",
                )
            for column, value in zip(self.columns, row, strict=True):
                if column.numeric and isinstance(value, str):
                    raise InputError(
                        f"report table {self.name!r}",
                        place=f"row {number}, column {column.key!r}",
                        found="text",
                        expected=f"a number, because the column has the format {column.format!r}",
                    )

    def heads(self) -> list[Column]:
        """The columns that stand beside each other."""
        return [column for column in self.columns if not column.under]

    def cells(self, row: tuple[CellValue, ...]) -> list[list[tuple[Column, CellValue]]]:
        """The values of each cell of a row: that of its column, and those that stand under it."""
        found: list[list[tuple[Column, CellValue]]] = []
        for column, value in zip(self.columns, row, strict=True):
            if column.under:
                found[-1].append((column, value))
            else:
                found.append([(column, value)])
        return found

    def parts(self) -> list[tuple[str, list[tuple[CellValue, ...]]]]:
        """Rows by their group, in order; one part without a name if there are no groups."""
        named = zip(self.groups or [""] * len(self.rows), self.rows, strict=True)
        return [
            (group, [row for _, row in rows]) for group, rows in groupby(named, key=itemgetter(0))
        ]


def table_from_frame(
    frame: pl.DataFrame,
    *,
    name: str,
    caption: str,
    columns: Sequence[Column],
    notes: str = "",
    folded: bool = False,
    group: str = "",
) -> Table:
    """Take the named columns of a frame, in the order given, as a table; grouped by ``group``."""
    for column in columns:
        if column.key not in frame.columns:
            raise InputError(
                f"report table {name!r}",
                place=f"column {column.key!r}",
                found=f"a frame with {', '.join(frame.columns)}",
                expected="a column of that name",
            )
    rows = tuple(frame.select([column.key for column in columns]).iter_rows())
    return Table(
        name=name,
        caption=caption,
        columns=tuple(columns),
        rows=rows,
        notes=notes,
        folded=folded,
        groups=tuple(frame[group]) if group else (),
    )


Block: TypeAlias = Prose | Subheading | Callout | KeyNumbers | Figure | Table


@dataclass(frozen=True, kw_only=True)
class Section:
    """A titled part of a report."""

    title: str
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        _require_text(self.title, "section", "title")
        _require_blocks(self.blocks, f"section {self.title!r}")


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where a report comes from: enough to make it again.

    ``recipe`` is the exact command, ``config`` the resolved settings as text if there are any,
    ``seeds`` is empty when the noise came from the operating system and cannot be repeated.
    """

    recipe: str
    versions: tuple[tuple[str, str], ...]
    seeds: tuple[int, ...]
    date: str
    machine: str
    config: str = ""

    def __post_init__(self) -> None:
        for field in ("recipe", "date", "machine"):
            _require_text(getattr(self, field), "provenance", field)


@dataclass(frozen=True, kw_only=True)
class Report:
    """A whole report. ``limits`` and ``confidential`` have no default on purpose."""

    title: str
    subtitle: str
    summary: tuple[Block, ...]
    sections: tuple[Section, ...]
    limits: tuple[Block, ...]
    provenance: Provenance
    confidential: bool

    def __post_init__(self) -> None:
        _require_text(self.title, "report", "title")
        _require_blocks(self.summary, "report summary")
        _require_blocks(self.limits, "report limits")
        names = (block.name for block in self.blocks() if isinstance(block, Figure | Table))
        _require_unique(names, "figure and table names")
        _require_unique((section.title for section in self.sections), "section titles")

    def blocks(self) -> Iterator[Block]:
        """Every block in reading order."""
        yield from self.summary
        for section in self.sections:
            yield from section.blocks
        yield from self.limits

    def figures(self) -> tuple[Figure, ...]:
        """The figures in reading order."""
        return tuple(block for block in self.blocks() if isinstance(block, Figure))


def _require_text(value: str, what: str, place: str) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"report: {what}", place=place, found=repr(value), expected="some text")


def _require_blocks(blocks: tuple[Block, ...], what: str) -> None:
    # A bare string is iterable too, and would be taken letter by letter.
    if isinstance(blocks, str) or not blocks:
        raise InputError(
            what, found=repr(blocks), expected="at least one block, such as Prose('...')"
        )
    for block in blocks:
        if not isinstance(block, Block):
            raise InputError(
                what,
                found=type(block).__name__,
                expected="a Prose, Subheading, Callout, KeyNumbers, Figure or Table",
            )


def _require_name(name: str, what: str) -> None:
    if not _NAME.fullmatch(name) or name in _RESERVED_NAMES:
        raise InputError(
            f"report: {what}",
            place="name",
            found=repr(name),
            expected="lower-case words joined by hyphens, other than "
            + ", ".join(sorted(_RESERVED_NAMES)),
        )


def _require_unique(names: Iterable[str], place: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(
                "report",
                place=place,
                found=f"{name!r} twice",
                expected="each name once",
            )
        seen.add(name)


DEFAULT_PACKAGES = ("headcount", "numpy", "scipy", "polars", "altair")


def gather_provenance(
    *,
    recipe: str,
    seeds: Sequence[int],
    config: str = "",
    packages: Sequence[str] = DEFAULT_PACKAGES,
) -> Provenance:
    """Describe this run, here and now. The machine is described, never named."""
    versions = [("Python", platform.python_version())]
    versions += [(package, _version(package)) for package in packages]
    return Provenance(
        recipe=recipe,
        config=config,
        versions=tuple(versions),
        seeds=tuple(seeds),
        date=datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC").lstrip("0"),
        machine=describe_machine(),
    )


def describe_machine() -> str:
    """System, processor, cores and memory, as far as the system tells."""
    parts = [platform.system(), platform.machine(), f"{os.cpu_count() or 1} cores"]
    if (memory := machine_memory()) is not None:
        parts.append(f"{memory / 2**30:.0f} GiB of memory")
    return ", ".join(parts)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
