"""What a metric or an attack found about a release: a table, a figure, and words about both.

A finding can show itself: reports, terminals and comparisons ask it and know nothing of its kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from headcount.report.model import (
    Block,
    Callout,
    Column,
    Figure,
    KeyNumber,
    Prose,
    Section,
    table_from_frame,
)
from headcount.report.notebook import shown


@dataclass(frozen=True)
class Support:
    """Whether a metric or an attack applies to a release; false comes with the reason."""

    why_not: str = ""

    def __bool__(self) -> bool:
        return not self.why_not


SUPPORTED = Support()


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Finding(ABC):
    """The result of one metric or attack; computed from the truth unless it says otherwise.

    A subclass draws the figure and explains itself; it may have fields of its own.

    where
        name        that of the metric or attack
        table       one row for each thing that was measured
        title       heading of its section in a report, in plain words
        index       columns of the table that name a row: two releases are compared row by row
        value       the column that is compared; "" where there is nothing to compare
        value_words what that column is, with its unit
        caption     of the table in a report; by default the title
        table_name  its name there; by default made from that of the finding
        folded      whether it is folded away until a reader asks for it
        counted     what the counts are of; in the texts above it stands where they have {counted}
        reader      what a reader estimated of counts that the release has not; "" if it has them
    """

    name: str
    title: str
    table: pl.DataFrame
    index: tuple[str, ...] = ()
    value: str = ""
    value_words: str = ""
    caption: str = ""
    table_name: str = ""
    folded: bool = False
    counted: str = "people"
    reader: str = ""

    def __post_init__(self) -> None:
        for name in ("title", "value_words", "caption"):
            text: str = getattr(self, name)
            object.__setattr__(self, name, text.replace("{counted}", self.counted))

    def __repr__(self) -> str:
        name = type(self).__name__.lstrip("_")
        return f"<{name}>"  # no number: it was computed from the truth

    @abstractmethod
    def figure(self) -> Figure:
        """The finding as a picture."""

    def plot(self) -> Figure:
        """The finding as a picture; ``plot().chart`` is the chart of altair."""
        return self.figure()

    def _repr_html_(self) -> str:
        return shown(
            self.title,
            frames={self.caption or self.name: self.shown()},
            note="Computed from the truth: confidential, unless the data are public. "
            f"{self.explain()} {self.scored}".rstrip(),
        )

    @abstractmethod
    def explain(self) -> str:
        """What the figures are and are not, their unit, and how uncertain they are."""

    def files(self) -> Mapping[str, pl.DataFrame]:
        """Tables to be written, by name of the file."""
        return {self.name: self.table}

    def numbers(self) -> tuple[KeyNumber, ...]:
        """What belongs at the head of a report."""
        return ()

    def shown(self) -> pl.DataFrame:
        """The table as a reader sees it."""
        return self.table

    def columns(self) -> tuple[Column, ...]:
        """How the columns of the table are headed and written; one without a word is left out."""
        return tuple(
            Column(
                key=name,
                label=name.replace("_", " ").capitalize(),
                format=",.4g" if kind.is_float() else ",d" if kind.is_integer() else "",
            )
            for name, kind in self.table.schema.items()
            if not (kind == pl.String and set(self.table[name]) == {""})
        )

    def blocks(self) -> tuple[Block, ...]:
        """Figures and tables, in reading order."""
        table = table_from_frame(
            self.shown(),
            name=self.table_name or f"{self.name}-table",
            caption=self.caption or self.title,
            columns=self.columns(),
            folded=self.folded,
        )
        return (self.figure(), table)

    def warnings(self) -> tuple[str, ...]:
        """What the curator should be warned of at once."""
        return ()

    def terminal(self) -> Mapping[str, pl.DataFrame]:
        """Short tables for a terminal, by title."""
        return {}

    def notes(self) -> str:
        """What a reader of these short tables must know."""
        return ""

    def section(self) -> Section:
        """The finding as a part of a report, explained first."""
        whose = (Callout("warning", self.scored),) if self.reader else ()
        return Section(title=self.title, blocks=(*whose, Prose(self.explain()), *self.blocks()))

    @property
    def scored(self) -> str:
        """That it is no release which is scored, but an estimate; "" if it is the release."""
        return f"What is scored here is {self.reader}." if self.reader else ""

    def compared(self) -> pl.DataFrame | None:
        """What is set side by side with other releases: the index and the value."""
        return self.table.select(*self.index, self.value) if self.value else None
