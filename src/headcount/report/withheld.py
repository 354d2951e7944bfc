"""The report on a suppressed release: what is withheld, and what still leaks."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from headcount.evaluate.suppressed import TablesAudit
from headcount.release import Release
from headcount.report.evaluation import promise
from headcount.report.figures import Axis, line_chart
from headcount.report.model import (
    Column,
    Figure,
    KeyNumber,
    KeyNumbers,
    Prose,
    Report,
    Section,
    table_from_frame,
)
from headcount.report.provenance import gather_provenance

_COLUMNS = (
    Column(key="table", label="Table"),
    Column(key="level", label="Level"),
    Column(key="units", label="Units with people", format=",.0f"),
    Column(key="cells", label="Cells", format=",.0f"),
    Column(key="withheld", label="Withheld", unit="cells", format=",.0f"),
    Column(key="zeroed", label="Published as 0", unit="cells", format=",.0f"),
    Column(key="percent", label="Withheld or 0", unit="%", format=",.1f"),
    Column(key="tables", label="Withheld whole", unit="tables", format=",.0f"),
    Column(key="people", label="In these cells", unit="people", format=",.0f"),
    Column(key="people_percent", label="In these cells", unit="% of people", format=",.1f"),
)


def withheld_report(
    release: Release,
    withheld: pl.DataFrame,
    audits: Sequence[TablesAudit],
    *,
    recipe: str,
    public: bool,
) -> Report:
    """A report that a person who has to decide on a suppressed release can read."""
    depth = {level: i for i, level in enumerate(release.geography.levels)}
    lowest = max(withheld["level"], key=lambda level: depth[level])
    at_leaf = withheld.filter(level=lowest)
    withheld_cells, zeroed, cells = at_leaf.select("withheld", "zeroed", "cells").sum().row(0)
    gone = 100 * (withheld_cells + zeroed) / cells
    told = sum(len(one.found.exact_primary) for one in audits)
    audited = sum(one.found.primaries for one in audits)
    return Report(
        title="What the protection costs",
        subtitle="A release by suppression, scored against the truth",
        summary=(
            KeyNumbers(
                (
                    KeyNumber(
                        value=f"{gone:,.3g}", unit="%",
                        label=f"of the cells of a {lowest} are withheld or published as 0",
                    ),
                    _people_withheld(withheld),
                    *_witnessed(audits),
                    KeyNumber(
                        value=f"{told:,} of {audited:,}", unit="cells",
                        label="small counts that an attacker works out exactly, of those attacked",
                    ),
                )
            ),
            *promise(release.guarantee),
        ),
        sections=(
            Section(
                title="What is withheld",
                blocks=(
                    *_by_level(release, withheld),
                    table_from_frame(
                        withheld, name="withheld", columns=_COLUMNS,
                        caption="Detailed cells in units with people, by table and level.",
                    ),
                ),
            ),
            Section(
                title="What still leaks",
                blocks=(
                    Prose(
                        "\n".join(f"- {', '.join(one.tables)}: {one}." for one in audits)
                        or "Nothing was audited: no table's cells add up to totals."
                    ),
                ),
            ),
        ),
        limits=(
            Prose(
                "The attack takes a sample of cells, with linear programs over the published "
                "tables alone: whole numbers, and what an attacker knows besides, may tell more. "
                "Witnesses, under the complementary rule, are whole tables that nobody can tell "
                "from the true ones by the tables and the rules. They do not cover what the choice "
                "of the withheld cells tells, nor people who know their own cell; and that "
                "somebody is in a withheld cell is disclosed by design."
            ),
            Prose("\n".join(f"- Not covered: {what}." for what in release.guarantee.not_covered)),
        ),
        provenance=gather_provenance(recipe=recipe, seeds=(), config=release.mechanism),
        confidential=not public,
    )  # fmt: skip


def _people_withheld(withheld: pl.DataFrame) -> KeyNumber:
    """A few withheld cells can hold nearly everybody: the table and level where it is worst."""
    worst = withheld.sort("people_percent", descending=True).row(0, named=True)
    return KeyNumber(
        value=f"{worst['people_percent']:,.3g}",
        unit="%",
        label=f"of the people whom {worst['table']} counts are in cells at {worst['level']} that "
        "are withheld or published as 0, the most of any table and level",
    )


def _by_level(release: Release, withheld: pl.DataFrame) -> tuple[Figure, Figure]:
    """Cells that are gone, and the people in them, by the names of the levels."""
    shown = set(withheld["level"].to_list())
    names = tuple(level for level in release.geography.levels if level in shown)
    x = Axis(column="level", title="Level, from the whole down", names=names)
    cells, people = (
        line_chart(
            withheld, x=x, y=Axis(column=column, title=title, zero=True), series="table",
            points=True,
        )
        for column, title in (
            ("percent", "Cells withheld or 0 (%)"),
            ("people_percent", "People in these cells (%)"),
        )
    )  # fmt: skip
    return (
        Figure(
            name="withheld-by-level",
            caption="Cells withheld, or published as 0 though they are not, at each level.",
            alt="Percent of cells withheld by geographic level, one line per table",
            chart=cells,
        ),
        Figure(
            name="people-withheld-by-level",
            caption="People in these cells, in per cent of all: a few cells can hold many.",
            alt="Percent of people in withheld cells by geographic level, one line per table",
            chart=people,
        ),
    )


def _witnessed(audits: Sequence[TablesAudit]) -> tuple[KeyNumber, ...]:
    """How many small counts are shown to be protected, where that is promised."""
    known = [one.witnessed for one in audits if one.witnessed is not None]
    if not known:
        return ()
    every = sum(one.primaries for one in known)
    shown = every - sum(len(one.unprotected) for one in known)
    return (
        KeyNumber(
            value=f"{shown:,} of {every:,}", unit="cells",
            label="small counts that witnesses show to be protected",
        ),
    )  # fmt: skip
