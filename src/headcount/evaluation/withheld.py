"""Suppressed cells of a release, and what an adversary infers about them (audit of suppression)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from headcount.evaluation._base import LEVEL, Metric, Truth, by_level, needs, withholds_cells
from headcount.evaluation.suppressed import WITNESSES, TablesAudit, audit_release, withheld_frame
from headcount.processes import Progress, silent
from headcount.release import Release
from headcount.report.figures import Axis, line_chart
from headcount.report.finding import Finding
from headcount.report.model import Block, Column, Figure, KeyNumber, Prose, Subheading


def _columns(counted: str) -> tuple[Column, ...]:
    return (
        Column(key="table", label="Table"),
        LEVEL,
        Column(key="units", label=f"Units with {counted}", format=",.0f"),
        Column(key="cells", label="Cells", format=",.0f"),
        Column(key="withheld", label="Withheld", unit="cells", format=",.0f"),
        Column(key="zeroed", label="Published as 0", unit="cells", format=",.0f"),
        Column(key="percent", label="Withheld or 0", unit="%", format=",.1f"),
        Column(key="tables", label="Withheld whole", unit="tables", format=",.0f"),
        Column(key="people", label="In these cells", unit=counted, format=",.0f"),
        Column(key="people_percent", label="In these cells", unit=f"% of {counted}", format=",.1f"),
    )


@dataclass(frozen=True, kw_only=True)
class Withheld(Metric):
    """Cells withheld by table and level; and what still leaks.

    ``seed`` draws the withheld cells that are attacked with linear programs.
    """

    name = "withheld"
    order = 10
    supports = staticmethod(needs(withholds_cells))
    seed: int = 0

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """What is withheld; audited unless records were changed before, which are not known."""
        audits: tuple[TablesAudit, ...] = ()
        if not (truth.knows_mechanism and truth.chain().steps):
            witnesses = next(iter(truth.files(WITNESSES).values()), None)
            audits = audit_release(truth.counts, release, witnesses=witnesses, seed=self.seed)
        return WithheldCells(
            counted=truth.counts.domain.counted,
            table=withheld_frame(truth.counts, release.as_tables()),
            audits=audits,
            levels=release.geography.levels,
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class WithheldCells(Finding):
    """A row for each published table and level, and the audits of tables that hang together."""

    name: str = Withheld.name
    title: str = "What is withheld, and what still leaks"
    index: tuple[str, ...] = ("table", "level", "cells")
    value: str = "percent"
    value_words: str = "cells withheld or published as 0, in per cent"
    caption: str = "Detailed cells in units with {counted}, by table and level."
    table_name: str = Withheld.name

    audits: tuple[TablesAudit, ...]
    levels: tuple[str, ...]

    def files(self) -> Mapping[str, pl.DataFrame]:
        """What is withheld, and the audits."""
        rows = [{**one.to_json(), "tables": ", ".join(one.tables)} for one in self.audits]
        audits = pl.DataFrame(rows, infer_schema_length=None)
        found = {self.name: self.table}
        return found | {"withheld-audit": audits.drop("witnessed")} if rows else found

    def explain(self) -> str:
        """What is counted, and what the audit shows and does not."""
        return (
            "This counts the detailed cells of each published table in units with any "
            f"{self.counted}: those withheld, and those published as 0 though they are not, with "
            f"the {self.counted} in them. The counts are exact. The audit attacks a sample of the "
            "withheld cells, with linear programs over the published tables alone: whole numbers, "
            "and what an attacker knows besides, may reveal more. Witnesses, under the "
            "complementary rule, are complete tables that the published tables and the rules "
            "cannot tell from the true ones. They do not cover what the choice of the withheld "
            "cells reveals, nor people who know their own cell; and that somebody is in a withheld "
            "cell is disclosed by design."
        )

    def numbers(self) -> tuple[KeyNumber, ...]:
        """How much is gone, how many people that is, and what leaks."""
        depth = {level: i for i, level in enumerate(self.levels)}
        lowest = max(self.table["level"], key=lambda level: depth[level])
        at_leaf = self.table.filter(level=lowest)
        withheld, zeroed, cells = at_leaf.select("withheld", "zeroed", "cells").sum().row(0)
        worst = self.table.sort("people_percent", descending=True).row(0, named=True)
        return (
            KeyNumber(
                value=f"{100 * (withheld + zeroed) / max(1, cells):,.3g}",
                unit="%",
                label=f"of the cells of a {lowest} are withheld or published as 0",
            ),
            # A few withheld cells can hold nearly everybody: the table and level where it is worst.
            KeyNumber(
                value=f"{worst['people_percent']:,.3g}",
                unit="%",
                label=f"of the {self.counted} that {worst['table']} counts are in cells at "
                f"{worst['level']} that are withheld or published as 0, the most of any table and "
                "level",
            ),
            *self._protected(),
            *self._leaks(),
        )

    def _protected(self) -> tuple[KeyNumber, ...]:
        """How many small counts are shown to be protected, where that is promised."""
        known = [one.witnessed for one in self.audits if one.witnessed is not None]
        if not known:
            return ()
        every = sum(one.primaries for one in known)
        shown = every - sum(len(one.unprotected) for one in known)
        label = "small counts that witnesses show to be protected"
        return (KeyNumber(value=f"{shown:,} of {every:,}", unit="cells", label=label),)

    def _leaks(self) -> tuple[KeyNumber, ...]:
        if not self.audits:
            return ()
        exact = sum(len(one.found.exact_primary) for one in self.audits)
        audited = sum(one.found.primaries for one in self.audits)
        label = "small counts that an attacker works out exactly, of those attacked"
        return (KeyNumber(value=f"{exact:,} of {audited:,}", unit="cells", label=label),)

    def terminal(self) -> Mapping[str, pl.DataFrame]:
        """The whole table."""
        return {f"what is withheld: cells, tables, and {self.counted} in them": self.table}

    def figure(self) -> Figure:
        """Cells that are gone, by level."""
        return self._by_level(
            name="withheld-by-level",
            column="percent",
            title="Cells withheld or 0 (%)",
            caption="Cells withheld, or published as 0 though they are not, at each level.",
            alt="Percent of cells withheld by geographic level, one line per table",
        )

    def _by_level(self, *, name: str, column: str, title: str, caption: str, alt: str) -> Figure:
        shown = set(self.table["level"].to_list())
        names = tuple(level for level in self.levels if level in shown)
        chart = line_chart(
            self.table,
            x=by_level(names),
            y=Axis(column=column, title=title, zero=True),
            series="table",
            points=True,
        )
        return Figure(name=name, caption=caption, alt=alt, chart=chart)

    def columns(self) -> tuple[Column, ...]:
        """Headed in words."""
        return _columns(self.counted)

    def blocks(self) -> tuple[Block, ...]:
        """Cells and people by level, the table, and the audit in words."""
        people = self._by_level(
            name="people-withheld-by-level",
            column="people_percent",
            title=f"{self.counted.capitalize()} in these cells (%)",
            caption=f"{self.counted.capitalize()} in these cells, as a percentage of all: a few "
            "cells can hold many.",
            alt=f"Percent of {self.counted} in withheld cells by geographic level, one line per "
            "table",
        )
        leaks = "\n".join(f"- {', '.join(one.tables)}: {one}." for one in self.audits)
        nothing = "Nothing was audited: no table's cells add up, or records were changed before."
        figure, table = super().blocks()
        return (
            figure,
            people,
            table,
            Subheading("What still leaks"),
            Prose(leaks or nothing),
        )
