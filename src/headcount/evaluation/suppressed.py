"""The curator's account of a suppressed release: how much is withheld, and what still leaks.

The audit attacks the release as it is published, with linear programs over the relations of its
tables. Under the complementary rule it checks besides, by arithmetic, the witnesses of every small
count. Neither is a part of what chose the cells to withhold.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Flags, Floats
from headcount.attacks.intervals import intervals
from headcount.evaluation.flagged import write_flagged
from headcount.evaluation.withheld import WithheldAudit, draw, judge, least_known
from headcount.evaluation.witnessed import WitnessAudit, check_witnesses
from headcount.files import write_text_atomic
from headcount.mechanisms.suppression.rules import too_small
from headcount.mechanisms.suppression.summary import occupied_homes, suppression_summary
from headcount.mechanisms.suppression.witnesses import WITNESSES as WITNESSES
from headcount.mechanisms.suppression.witnesses import Witnesses, read_witnesses
from headcount.population import Population
from headcount.release import Release, TablesRelease
from headcount.release.published import by_name, is_total
from headcount.tabulate import Counts
from headcount.tabulate.linked_tables import (
    LinkedTables,
    all_values,
    link_tables,
    table_values,
)

ACCOUNT, SUMMARY = "suppression-audit.json", "suppression.csv"


@dataclass(frozen=True, kw_only=True)
class TablesAudit:
    """The audit of tables that hang together.

    ``hidden`` counts cells that an attacker cannot read off: withheld ones, and under the cell
    rule every 0 but a total; ``primary`` those that hide a small count. ``found`` is what linear
    programs tell of a sample, ``witnessed`` what witnesses show of all, under the complementary
    rule only. Nothing audited is neither clean nor not.
    """

    tables: tuple[str, ...]
    cells: int
    hidden: int
    primary: int
    found: WithheldAudit
    witnessed: WitnessAudit | None = None

    @property
    def clean(self) -> bool | None:
        """Whether nothing was found; None if nothing was looked at."""
        if self.witnessed is not None:
            return self.witnessed.clean and self.found.clean
        return self.found.clean if len(self.found.intervals.cell) else None

    def to_json(self) -> dict[str, Any]:
        """Figures for the curator."""
        return {
            "tables": list(self.tables),
            "cells": self.cells,
            "hidden": self.hidden,
            "primary": self.primary,
            "audited": len(self.found.intervals.cell),
            "audited_primary": self.found.primaries,
            "exact_primary": len(self.found.exact_primary),
            "narrow_primary": len(self.found.narrow_primary),
            "exact_secondary": len(self.found.exact_secondary),
            "width": self.found.width,
            "witnessed": None if self.witnessed is None else self.witnessed.to_json(),
            "clean": self.clean,
            "words": str(self),
        }

    def __str__(self) -> str:
        attacked = f"attacked by linear programs, {self.found}"
        return attacked if self.witnessed is None else f"{self.witnessed}; {attacked}"


def audit_release(
    counts: Counts,
    audited: Release,
    *,
    witnesses: Path | None = None,
    seed: int = 0,
) -> tuple[TablesAudit, ...]:
    """What an attacker can work out, and under the complementary rule what he cannot.

    where
        witnesses   the file of them that the run wrote; without it no small count is shown to be
                    protected
        seed        of the sample of hidden cells that are attacked, half of them primary
    """
    # In a table that counts people twice nothing adds up, and nothing can be subtracted.
    release = audited.as_tables()
    rules, depth = release.withholding, counts.geography.depth
    protected = [one for one in release.published if one.name in rules.tables]
    tables = {one.name: one.cells for one in protected}
    made = tuple(
        cells for cells in tables.values() if not any(coding.overlapping for coding in cells.axes)
    )
    full = tuple(cells.crossed for cells in made)
    lowest = max((one.level for one in protected), key=depth)
    values = all_values(counts, full, lowest=lowest)
    groups = link_tables(made, counts.geography, lowest=lowest)
    stored = None if witnesses is None else read_witnesses(witnesses, groups=len(groups))
    audits = []
    for number, linked in enumerate(groups):
        truth = linked.gather(values)
        hidden, high = _hidden(linked, release)
        told, low = hidden, None
        if rules.complementary:
            # Taking it as known which cells that no table has are 0 makes the attacker stronger.
            told, low = hidden & (truth > 0), least_known(truth)
        withheld = hidden & linked.published  # what no table has is nobody's secret
        small = linked.published & too_small(truth, rules.thresholds.cell)
        primary = withheld & small
        cells = draw(withheld & told, primary, rules.audit, seed)
        found = judge(
            intervals(
                linked.additive, np.where(told, 0, truth), told, low=low, high=high, cells=cells
            ),
            truth,
            primary=primary,
            width=rules.width,
        )
        witnessed = None
        if rules.complementary:
            witnessed = check_witnesses(
                linked.additive,
                truth,
                withheld=hidden,
                primary=small,
                witnesses=Witnesses.of([]) if stored is None else stored[number],
                threshold=rules.thresholds.cell,
                width=rules.width,
                published=linked.published,
            )
        audits.append(
            TablesAudit(
                tables=tuple(dict.fromkeys(name for name, _ in linked.number)),
                cells=int(linked.published.sum()),
                hidden=int(withheld.sum()),
                primary=int(primary.sum()),
                found=found,
                witnessed=witnessed,
            )
        )
    return tuple(audits)


def _hidden(linked: LinkedTables, release: TablesRelease) -> tuple[Flags, Floats]:
    """Cells that no table shows, and the most that each may hold by what a 0 may stand for."""
    hidden = np.ones(linked.additive.size, dtype=bool)
    high = np.full(linked.additive.size, np.inf)
    tables = by_name(release.published)
    for where, number in linked.number.items():
        one = tables[where]
        zero = (one.value == 0) & ~one.withheld & ~is_total(one.cells)
        covered = zero if one.zero_hides else np.zeros_like(zero)
        hidden[number[~(covered | one.withheld)]] = False
        high[number[covered]] = one.zero_hides
    return hidden, high


@singledispatch
def write_account(
    release: Release, population: Population, folder: Path, *, protected: Callable[[], Counts]
) -> None:
    """Write what only the curator may know of a release, where its kind has anything of that.

    where
        protected   the counts that the last step protected: after swapping, those of the swapped
    """


@write_account.register
def _(
    release: TablesRelease, population: Population, folder: Path, *, protected: Callable[[], Counts]
) -> None:
    """The audit, the tables with the reason of every cell, and how much is withheld."""
    if release.changed:
        return  # the mechanism has written what is only for the curator
    counts, rules = protected(), release.withholding
    stored = folder / WITNESSES if rules.complementary else None
    found = audit_release(counts, release, witnesses=stored)
    audits = [one.to_json() for one in found]
    text = json.dumps({"mechanism": release.mechanism, "audits": audits}, indent=2) + "\n"
    write_text_atomic(folder / ACCOUNT, text)
    flags = write_flagged(counts, release, folder) if rules.complementary else None
    if flags is not None and any(one.cells.table.is_own for one in release.published):
        summary = flags
    else:
        homes, limits = occupied_homes(population), rules.thresholds
        summary = suppression_summary(counts, thresholds=limits, occupied=homes)
    write_text_atomic(folder / SUMMARY, summary.write_csv())


def withheld_frame(counts: Counts, release: TablesRelease) -> pl.DataFrame:
    """What suppression costs, by table and level.

    Columns: table, level, units (with people), cells (of the detail, in these units), withheld and
    zeroed (cells withheld, and small counts published as 0), percent (of both among the cells),
    tables (withheld whole), people and people_percent (in cells withheld or published as 0).
    """
    rows = []
    for one in release.published:
        at_level = counts.at(one.level)
        there = at_level.totals() > 0
        truth = table_values(at_level, one.cells)[there][:, one.cells.inner]
        withheld = one.withheld[there][:, one.cells.inner]
        zeroed = (one.value[there][:, one.cells.inner] == 0) & (truth > 0) & ~withheld
        gone = int((withheld | zeroed).sum())
        rows.append(
            {
                "table": one.name,
                "level": one.level,
                "units": int(there.sum()),
                "cells": truth.size,
                "withheld": int(withheld.sum()),
                "zeroed": int(zeroed.sum()),
                "percent": 100 * gone / truth.size if truth.size else None,
                "tables": int(one.withheld[there].all(axis=1).sum()),
                "people": int(truth[withheld | zeroed].sum()),
                "people_percent": 100 * float(truth[withheld | zeroed].sum()) / max(truth.sum(), 1),
            }
        )
    return pl.DataFrame(rows, schema_overrides={"percent": pl.Float64})
