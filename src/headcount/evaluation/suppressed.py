"""Audit of a suppressed release: how much is withheld, and which cells can still be inferred.

The audit attacks the release as it is published, with linear programs over the relations of its
tables. What it finds leaks for certain; what it does not find may still leak, since whole tables
allow less than the programs do. So under the complementary rule it checks besides, by arithmetic,
the witnesses of every small count (``witnessed``). Neither is a part of what chose the cells to
withhold.

Which withheld cells are primary is itself a secret. A withheld cell of which it were known that it
is primary holds 1 to the threshold; one that is not holds more. Either would undo what is promised
of the first: that it may be more than the threshold. So a release says "withheld" of both, and the
tables with the reason of every cell are for the curator, in ``internal/`` only.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from headcount.arrays import Flags, Floats, Ints
from headcount.attacks.intervals import Intervals, intervals
from headcount.files import make_folder, write_bytes_atomic, write_text_atomic
from headcount.mechanisms.suppression.rules import occupied_homes, suppression_summary, too_small
from headcount.mechanisms.suppression.witnesses import WITNESSES as WITNESSES
from headcount.mechanisms.suppression.witnesses import Witnesses, read_witnesses
from headcount.population import Population
from headcount.release import Release, TablesRelease
from headcount.release.layout import published_stem
from headcount.release.published import (
    FLAG,
    PUBLISHED,
    PublishedCells,
    by_name,
    flagged_frame,
    is_total,
)
from headcount.tabulate import Counts
from headcount.tabulate.additive import Additive
from headcount.tabulate.linked_tables import LinkedTables, all_values, link_tables, table_values

ACCOUNT, SUMMARY = "suppression-audit.json", "suppression.csv"
FLAGGED = "flagged"
"""The folder of the tables with the reason of every cell."""
PRIMARY, COMPLEMENTARY = "primary", "complementary"


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
    found: _WithheldAudit
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
            told, low = hidden & (truth > 0), _least_known(truth)
        withheld = hidden & linked.published  # what no table has is nobody's secret
        small = linked.published & too_small(truth, rules.thresholds.cell)
        primary = withheld & small
        cells = _draw(withheld & told, primary, rules.audit, seed)
        found = _judge(
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


@dataclass(frozen=True, eq=False, kw_only=True)
class _WithheldAudit:
    """Intervals of the audited cells, and the cells that fail.

    where
        exact_primary     primary cells that the attacker knows
        narrow_primary    primary cells known to less than the width asked, exact ones included
        exact_secondary   secondary cells that the attacker knows
        missed            cells whose truth lies outside the interval: never, unless the published
                          counts are not those of the truth
    """

    intervals: Intervals
    width: int
    primaries: int
    exact_primary: Ints
    narrow_primary: Ints
    exact_secondary: Ints
    missed: Ints

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        found = self.narrow_primary, self.exact_secondary, self.missed
        return not any(len(cells) for cells in found)

    def __str__(self) -> str:
        audited = len(self.intervals.cell)
        return (
            f"{audited:,} withheld cells audited, {self.primaries:,} primary: "
            f"{len(self.exact_primary):,} primary exact, {len(self.narrow_primary):,} narrower "
            f"than {self.width}, {len(self.exact_secondary):,} secondary exact"
        )


def _least_known(truth: Ints) -> Ints:
    """What is known to be in a withheld cell at least, if zeros are never withheld."""
    return np.minimum(truth, 1)


def _judge(found: Intervals, truth: Ints, *, primary: Flags, width: int) -> _WithheldAudit:
    """Compare intervals with the truth."""
    cells = found.cell
    first, exact = primary[cells], found.width == 0
    return _WithheldAudit(
        intervals=found,
        width=width,
        primaries=int(first.sum()),
        exact_primary=cells[exact & first],
        narrow_primary=cells[(found.width < width) & first],
        exact_secondary=cells[exact & ~first],
        missed=cells[(truth[cells] < found.low) | (truth[cells] > found.high)],
    )


def _draw(hidden: Flags, primary: Flags, sample: int, seed: int) -> Ints:
    """Some withheld cells, half of them primary."""
    rng = np.random.default_rng(seed)
    drawn = [
        rng.choice(kind, size=min(len(kind), sample // 2), replace=False)
        for kind in (np.flatnonzero(primary), np.flatnonzero(hidden & ~primary))
    ]
    return np.sort(np.concatenate(drawn))


def write_account(
    release: TablesRelease, population: Population, folder: Path, *, protected: Callable[[], Counts]
) -> None:
    """Write for the curator the audit, the reason of every cell, and how much is withheld.

    where
        protected   the counts that the last step protected: after swapping, those of the swapped
    """
    if release.changed:
        return  # the mechanism has written what is only for the curator
    counts, rules = protected(), release.withholding
    stored = folder / WITNESSES if rules.complementary else None
    found = audit_release(counts, release, witnesses=stored)
    audits = [one.to_json() for one in found]
    text = json.dumps({"mechanism": release.mechanism, "audits": audits}, indent=2) + "\n"
    write_text_atomic(folder / ACCOUNT, text)
    flags = _write_flagged(counts, release, folder) if rules.complementary else None
    if flags is not None and any(one.cells.table.is_own for one in release.published):
        summary = flags
    else:
        homes, limits = occupied_homes(population), rules.thresholds
        summary = suppression_summary(counts, thresholds=limits, occupied=homes)
    write_text_atomic(folder / SUMMARY, summary.write_csv())


def _curators_frame(counts: Counts, one: PublishedCells, *, most: int) -> pl.DataFrame:
    """A table with its true counts: unit, each attribute, n, and a flag.

    The flag is "published", "primary" (a count of 1 to ``most``) or "complementary" (withheld so
    that no sum gives a primary one away).
    """
    truth = table_values(counts.at(one.level), one.cells)
    why = np.where(too_small(truth, most), PRIMARY, COMPLEMENTARY)
    flag = np.where(one.withheld, why, PUBLISHED).ravel()
    return flagged_frame(one, counts.geography).with_columns(
        pl.Series("n", truth.ravel(), dtype=pl.Int64),
        pl.Series(FLAG, flag.tolist(), dtype=pl.String),
    )


def _write_flagged(counts: Counts, release: TablesRelease, folder: Path) -> pl.DataFrame:
    """Write every protected table for the curator; how many cells have which flag."""
    most, rows = release.withholding.thresholds.cell, []
    make_folder(folder / FLAGGED)
    for one in release.published:
        if one.name not in release.rules.tables:
            continue  # published whole or not at all
        frame = _curators_frame(counts, one, most=most)
        content = io.BytesIO()
        frame.write_parquet(content, compression="zstd")
        file = f"{published_stem(one.name, one.level)}.parquet"
        write_bytes_atomic(folder / FLAGGED / file, content.getvalue())
        flags = frame.group_by(FLAG).agg(pl.len(), pl.col("n").sum())
        number = dict(zip(flags[FLAG], flags["len"], strict=True))
        people = dict(zip(flags[FLAG], flags["n"], strict=True))
        rows.append(
            {
                "table": one.name,
                "level": one.level,
                "cells": frame.height,
                **{name: number.get(name, 0) for name in (PUBLISHED, PRIMARY, COMPLEMENTARY)},
                "people_withheld": people.get(PRIMARY, 0) + people.get(COMPLEMENTARY, 0),
            }
        )
    return pl.DataFrame(rows)


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


AT_ONCE = 2_000_000
"""Differences that are checked at a time."""


@dataclass(frozen=True, eq=False, kw_only=True)
class WitnessAudit:
    """Cells that no witness protects, and witnesses that are none.

    where
        primaries     how many cells are withheld for what they are
        witnesses     how many tables were checked
        wrong         tables that change something published, break a relation or leave less than 1
                      in a withheld cell: they show nothing
        unprotected   primary cells that the others do not show to be protected
        idle          secondary cells that are the same in all of them: they could be published
        zeros         cells withheld although they are 0, which tells the need of others
        lone          primary cells that somebody who is alone in another withheld cell, and knows
                      it, might work out: that cell changes in every witness in which they do. At
                      most so many can be worked out, since there may be tables besides the stored
    """

    primaries: int
    witnesses: int
    threshold: int
    width: int
    wrong: Ints
    unprotected: Ints
    idle: Ints
    zeros: Ints
    lone: Ints

    @property
    def clean(self) -> bool:
        """Whether every primary cell is protected, and nothing is amiss."""
        return not any(len(one) for one in (self.wrong, self.unprotected, self.idle, self.zeros))

    def to_json(self) -> dict[str, Any]:
        """Figures for the curator."""
        return {
            "witnesses": self.witnesses,
            "wrong_witnesses": len(self.wrong),
            "primary": self.primaries,
            "primary_unprotected": len(self.unprotected),
            "secondary_idle": len(self.idle),
            "zeros_withheld": len(self.zeros),
            "primary_lone_contributor": len(self.lone),
            "threshold": self.threshold,
            "width": self.width,
            "clean": self.clean,
        }

    def __str__(self) -> str:
        shown = self.primaries - len(self.unprotected)
        return (
            f"{shown:,} of {self.primaries:,} small counts have witnesses ({self.witnesses:,} "
            f"tables, {len(self.wrong):,} wrong) that they may exceed {self.threshold} and are "
            f"uncertain by {self.width}; {len(self.idle):,} others were withheld without need; at "
            f"most {len(self.lone):,} could be worked out by the only person in another withheld "
            "cell"
        )


def check_witnesses(
    additive: Additive,
    values: ArrayLike,
    *,
    withheld: ArrayLike,
    primary: ArrayLike,
    witnesses: Witnesses,
    threshold: int = 2,
    width: int = 3,
    published: ArrayLike | None = None,
) -> WitnessAudit:
    """Check every witness by arithmetic, and every primary cell by its witnesses.

    where
        values      true counts
        withheld    cells that nobody is shown
        published   cells that some table has; the others are nobody's secret and are neither
                    primary nor secondary. By default all
    """
    truth = np.asarray(values, dtype=np.int64)
    hidden, first = np.asarray(withheld, dtype=bool), np.asarray(primary, dtype=bool)
    shown = np.ones(len(truth), dtype=bool) if published is None else np.asarray(published)
    wrong = _wrong(additive, truth, hidden, witnesses)
    good = np.repeat(~wrong, np.diff(witnesses.start))
    most, least = np.zeros(len(truth), dtype=np.int64), np.zeros(len(truth), dtype=np.int64)
    np.maximum.at(most, witnesses.cell[good], witnesses.change[good])
    np.minimum.at(least, witnesses.cell[good], witnesses.change[good])
    protected = hidden & (truth + most > threshold) & (most - least >= width)
    return WitnessAudit(
        primaries=int(first.sum()),
        witnesses=len(witnesses),
        threshold=threshold,
        width=width,
        wrong=np.flatnonzero(wrong),
        unprotected=np.flatnonzero(first & ~protected),
        idle=np.flatnonzero(hidden & shown & ~first & (truth > 0) & (most == least)),
        zeros=np.flatnonzero(hidden & shown & (truth == 0)),
        lone=_lone(additive, truth, first, witnesses, good),
    )


def _wrong(additive: Additive, truth: Ints, hidden: Flags, witnesses: Witnesses) -> Flags:
    """Which witnesses are no tables that an attacker has to reckon with."""
    wrong = np.zeros(len(witnesses), dtype=bool)
    number = np.repeat(np.arange(len(witnesses)), np.diff(witnesses.start))
    cell, change = witnesses.cell, witnesses.change
    amiss = ~hidden[cell] | (truth[cell] < 1) | (truth[cell] + change < 1) | (change == 0)
    order = np.lexsort((cell, number))
    twice = (np.diff(number[order]) == 0) & (np.diff(cell[order]) == 0)
    wrong[number[amiss]] = True
    wrong[number[order][1:][twice]] = True
    for some in _pieces(witnesses):
        wrong[number[some][_broken(additive, number[some], cell[some], change[some])]] = True
    return wrong


def _pieces(witnesses: Witnesses) -> Iterator[slice]:
    """Whole witnesses, some millions of differences at a time."""
    first = 0
    while first < len(witnesses):
        at_most = witnesses.start[first] + AT_ONCE
        end = max(int(np.searchsorted(witnesses.start, at_most, side="right")) - 1, first + 1)
        yield slice(int(witnesses.start[first]), int(witnesses.start[end]))
        first = end


def _broken(additive: Additive, number: Ints, cell: Ints, change: Ints) -> Ints:
    """Differences that stand in a relation whose total and parts no longer agree."""
    parts = np.diff(additive.start)
    member = np.concatenate([additive.part, additive.total])
    relation = np.concatenate([np.repeat(np.arange(len(parts)), parts), np.arange(len(parts))])
    sign = np.repeat([1, -1], [len(additive.part), len(additive.total)])
    order = np.argsort(member, kind="stable")
    first = np.searchsorted(member[order], np.arange(additive.size + 1))
    many = first[cell + 1] - first[cell]
    entry = np.repeat(np.arange(len(cell)), many)
    within = np.arange(len(entry)) - np.repeat(np.cumsum(many) - many, many)
    use = order[first[cell][entry] + within]
    key = number[entry] * np.int64(max(len(parts), 1)) + relation[use]
    sorting = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[sorting], prepend=-1))
    sums = np.add.reduceat((sign[use] * change[entry])[sorting], starts) if len(starts) else key
    bad = starts[sums != 0]
    return np.asarray(entry[sorting][bad])


def _lone(
    additive: Additive, truth: Ints, primary: Flags, witnesses: Witnesses, good: Flags
) -> Ints:
    """Primary cells that change only together with one other cell of one person."""
    from scipy.sparse import csr_matrix

    number = np.repeat(np.arange(len(witnesses)), np.diff(witnesses.start))[good]
    cell = witnesses.cell[good]
    shape = (len(witnesses), len(truth))

    def changed(some: Flags) -> Any:
        return csr_matrix((some.astype(np.int64), (number, cell)), shape=shape)

    together = (changed(primary[cell]).T @ changed(truth[cell] == 1)).tocoo()
    people = _same_people(additive, truth)
    all_of = np.bincount(cell[primary[cell]], minlength=len(truth))
    always = (together.data == all_of[together.row]) & (together.data > 0)
    always &= people[together.row] != people[together.col]
    return np.unique(together.row[always]).astype(np.int64)


def _same_people(additive: Additive, truth: Ints) -> Ints:
    """The same number for cells that count the same people: a total and its only part above 0."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    parts = np.diff(additive.start)
    total = np.repeat(additive.total, parts)
    relation = np.repeat(np.arange(len(parts)), parts)
    lived = truth[additive.part] > 0
    only = lived & (np.bincount(relation[lived], minlength=len(parts))[relation] == 1)
    edges = (np.ones(int(only.sum())), (total[only], additive.part[only]))
    graph = coo_matrix(edges, shape=(additive.size, additive.size))
    return np.asarray(connected_components(graph, directed=False)[1])
