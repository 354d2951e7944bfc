"""How far the counts of published tables are from the true ones, where these were changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Floats, Ints
from headcount.evaluation._base import LEVEL, Metric, Truth, by_level, changes_counts, needs
from headcount.evaluation.answers import counts_at, kept
from headcount.geography import Geography
from headcount.mechanisms import Chain
from headcount.processes import Progress, silent
from headcount.release import Release
from headcount.release.published import PublishedCells, by_name
from headcount.report.figures import Axis, line_chart
from headcount.report.finding import Finding
from headcount.report.model import Column, Figure, KeyNumber
from headcount.tabulate import Counts
from headcount.tabulate.counts import adder
from headcount.tabulate.linked_tables import table_values

DECILES = tuple(range(0, 101, 10))
PLACE = {"table": pl.String, "level": pl.String}
SUMMARY = {
    **PLACE,
    "cells": pl.Int64,
    "withheld": pl.Int64,
    "changed_percent": pl.Float64,
    "mean": pl.Float64,
    "variance": pl.Float64,
    "largest": pl.Int64,
    "d1": pl.Float64,
    "d2": pl.Float64,
    "d3": pl.Float64,
    "false_zeros": pl.Int64,
    "false_nonzeros": pl.Int64,
    "gap": pl.Float64,
    "gap_largest": pl.Int64,
    "unit_gap": pl.Float64,
}
DISTANCES = {**PLACE, "distance": pl.String, **{str(decile): pl.Float64 for decile in DECILES}}
DELTAS = {"epsilon": pl.Float64, "largest": pl.Float64, "between_large_counts": pl.Float64}


def _columns(counted: str) -> tuple[Column, ...]:
    return (
        Column(key="table", label="Table"),
        LEVEL,
        Column(key="cells", label="Published", unit="cells", format=",d"),
        Column(key="withheld", label="Withheld", unit="cells", format=",d"),
        Column(key="changed_percent", label="Changed", unit="% of cells", format=",.1f"),
        Column(key="mean", label="Mean change", unit=counted, format=",.4g"),
        Column(key="variance", label="Variance of the change", format=",.4g"),
        Column(key="largest", label="Largest change", unit=counted, format=",d"),
        Column(key="d1", label="d1: |x - y|", unit="mean", format=",.4g"),
        Column(key="d2", label="d2: |x - y| / x", unit="mean", format=",.4g"),
        Column(key="d3", label="d3: |√x - √y|", unit="mean", format=",.4g"),
        Column(key="false_zeros", label="False zeros", unit="cells", format=",d"),
        Column(key="false_nonzeros", label="False non-zeros", unit="cells", format=",d"),
        Column(key="gap", label="Totals less their parts", unit="mean of |gap|", format=",.4g"),
        Column(key="gap_largest", label="Totals less their parts", unit="largest", format=",d"),
        Column(key="unit_gap", label="Units less their parts", unit="mean of |gap|", format=",.4g"),
    )


@dataclass(frozen=True, kw_only=True)
class _TableChanges(Metric):
    """Changes of published counts by table and level: how many, how far, and what no longer adds.

    With x the true and y the published count of a cell the distances are those of the R package
    ``cellKey``: d1 = |x - y|, d2 = |x - y| / x where x > 0, d3 = |sqrt x - sqrt y|.
    """

    name = "table-changes"
    order = 10
    supports = staticmethod(needs(changes_counts))

    def compute(
        self, release: Release, truth: Truth, *, progress: Progress = silent
    ) -> _ChangedCounts:
        """Every published cell beside its true count."""
        return changed_counts(release.as_tables().published, release.geography, truth)


def changed_counts(
    published: Sequence[PublishedCells], geography: Geography, truth: Truth
) -> _ChangedCounts:
    """Published tables beside the true ones, and what one cell gives away by its law."""
    rows, changes, distances = [], [], []
    for one in published:
        true = _true_values(truth.counts, one)
        place = {"table": one.name, "level": one.level}
        shown = ~one.withheld
        x, y = true[shown], one.value[shown]
        apart = _distances(x, y)
        gaps = _gaps(one, published, geography, truth.counts)
        rows.append({**place, **_summary(one, x, y, apart), **gaps})
        many = np.unique(y - x, return_counts=True)
        for change, cells in zip(*(part.tolist() for part in many), strict=True):
            changes.append({**place, "change": change, "cells": cells})
        distances += [{**place, **row} for row in _deciles(apart)]
    known = truth.knows_mechanism
    return _ChangedCounts(
        counted=truth.counts.domain.counted,
        table=pl.DataFrame(rows, schema=SUMMARY),
        changes=pl.DataFrame(changes, schema={**PLACE, "change": pl.Int64, "cells": pl.Int64}),
        distances=pl.DataFrame(distances, schema=DISTANCES),
        deltas=cell_deltas_frame(truth.chain() if known else None),
        levels=geography.levels,
        records_changed=known and bool(truth.chain().steps),
    )


def _true_values(counts: Counts, one: PublishedCells) -> Ints:
    """A true table, worked out once for all releases."""
    cells = one.cells
    _, values = kept(
        counts,
        ("table", one.level, id(cells)),
        lambda: (cells, table_values(counts_at(counts, one.level), cells)),
        size=lambda made: made[1].size,
    )  # with the cells, so that no others are given their id
    return values


def cell_deltas_frame(chain: Chain | None) -> pl.DataFrame:
    """The exact delta of one cell at some epsilons; empty where the method has no such law."""
    known = None if chain is None else chain.last.known_change()
    found = {} if known is None else known.deltas
    rows = [{"epsilon": float(epsilon), **deltas} for epsilon, deltas in found.items()]
    return pl.DataFrame(rows, schema=DELTAS)


def _distances(x: Ints, y: Ints) -> dict[str, Floats]:
    """d1, d2 and d3 of each cell; d2 of those that are not 0."""
    there = x > 0
    return {
        "d1": np.abs(y - x).astype(np.float64),
        "d2": np.abs(y - x)[there] / x[there],
        "d3": np.abs(np.sqrt(x) - np.sqrt(np.maximum(y, 0))),
    }


def _summary(
    one: PublishedCells, x: Ints, y: Ints, apart: Mapping[str, Floats]
) -> dict[str, float | int | None]:
    change = y - x
    return {
        "cells": len(x),
        "withheld": int(one.withheld.sum()),
        "changed_percent": 100 * float((change != 0).mean()) if len(x) else None,
        "mean": float(change.mean()) if len(x) else None,
        "variance": float(change.var()) if len(x) else None,
        "largest": int(np.abs(change).max(initial=0)),
        **{name: float(values.mean()) if len(values) else None for name, values in apart.items()},
        "false_zeros": int(((x > 0) & (y == 0)).sum()),
        "false_nonzeros": int(((x == 0) & (y != 0)).sum()),
    }


def _gaps(
    one: PublishedCells, published: Sequence[PublishedCells], geography: Geography, counts: Counts
) -> dict[str, float | int | None]:
    """How far totals are from the sums of their parts: in a table, and of units within a unit."""
    relations = one.cells.relations
    whole = (abs(relations) @ one.withheld.T.astype(np.int64)) == 0
    gap = np.abs(relations @ one.value.T)[whole]
    below = _parts_of_units(one, published, geography, counts)
    return {
        "gap": float(gap.mean()) if gap.size else None,
        "gap_largest": int(gap.max()) if gap.size else None,
        "unit_gap": float(below.mean()) if below is not None and below.size else None,
    }


def _parts_of_units(
    one: PublishedCells, published: Sequence[PublishedCells], geography: Geography, counts: Counts
) -> Any:
    """Each count less the sum of those of the units below; None where the table has none below."""
    levels, depth = geography.levels, geography.depth(one.level) + 1
    lower = by_name(published).get((one.name, levels[depth])) if depth < len(levels) else None
    if lower is None:
        return None
    up = kept(
        counts,
        ("adder", one.level, geography),
        lambda: adder(geography, one.level, of=lower.level),
        size=lambda made: int(made.nnz),
    )
    whole = (up @ lower.withheld.astype(np.int64) == 0) & ~one.withheld
    return np.abs(one.value - up @ lower.value)[whole]


def _deciles(apart: Mapping[str, Floats]) -> Iterator[dict[str, Any]]:
    for name, values in apart.items():
        if len(values):
            found = np.percentile(values, DECILES).tolist()
            yield {"distance": name, **dict(zip(map(str, DECILES), found, strict=True))}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _ChangedCounts(Finding):
    """A row for each table and level; how often each change is; deciles of the distances."""

    name: str = _TableChanges.name
    title: str = "How far published counts are from the true ones"
    index: tuple[str, ...] = ("table", "level")
    value: str = "d1"
    value_words: str = "mean distance of a published count from the true one, in {counted}"
    caption: str = "Published cells by table and level, totals included."
    table_name: str = _TableChanges.name

    changes: pl.DataFrame
    distances: pl.DataFrame
    deltas: pl.DataFrame
    levels: tuple[str, ...]
    records_changed: bool = False

    def files(self) -> Mapping[str, pl.DataFrame]:
        """The table, how often each change is, the distances, and the delta of one cell."""
        found = {
            self.name: self.table,
            f"{self.name}-distribution": self.changes,
            f"{self.name}-distances": self.distances,
        }
        return found if self.deltas.is_empty() else {**found, f"{self.name}-delta": self.deltas}

    def explain(self) -> str:
        """What is counted, and what it leaves out."""
        before = (
            " Records were changed before the tables were made: what that costs is part of every "
            "figure here."
            if self.records_changed
            else ""
        )
        return (
            "Every published cell, totals included, is set beside its true count; withheld cells "
            "are only counted. The figures are exact, of this one release: another one would have "
            f"other changes. A false zero is a cell with {self.counted} that is published as 0, a "
            "false non-zero an empty one that is not. Where cells and totals are changed each by "
            "itself, tables do not add up: the gap is the published total less the sum of its "
            "published parts, in the table or over the units within a unit."
            f"{before}{self._about_delta()}"
        )

    def _about_delta(self) -> str:
        at_one = self.deltas.filter(epsilon=1.0)
        if at_one.is_empty():
            return ""
        largest, later = at_one["largest"][0], at_one["between_large_counts"][0]
        return (
            " The method has no epsilon. Of one cell alone its law is known: at epsilon 1 the "
            f"largest delta between a count and the next is {largest:.3f}, and {later:.3f} between "
            "large counts. It is of one cell and does not add up over cells or tables."
        )

    def numbers(self) -> tuple[KeyNumber, ...]:
        """How many cells are changed, how far, and false zeros."""
        cells = max(int(self.table["cells"].sum()), 1)
        changed = int(self.changes.filter(pl.col("change") != 0)["cells"].sum())
        off = int((self.changes["change"].abs() * self.changes["cells"]).sum())
        return (
            KeyNumber(
                value=f"{100 * changed / cells:,.3g}",
                unit="%",
                label="of the published cells are not the true count",
            ),
            KeyNumber(
                value=f"{off / cells:,.3g}",
                unit=self.counted,
                label="is a published count away from the true one on average",
            ),
            KeyNumber(
                value=f"{int(self.table['false_zeros'].sum()):,}",
                unit="cells",
                label=f"with {self.counted} in them are published as 0",
            ),
        )

    def terminal(self) -> Mapping[str, pl.DataFrame]:
        """The table without its rarer columns."""
        columns = ("table", "level", "cells", "changed_percent", "d1", "d2", "d3", "false_zeros")
        return {"how far published counts are from the true ones": self.table.select(columns)}

    def columns(self) -> tuple[Column, ...]:
        """Headed in words."""
        return _columns(self.counted)

    def figure(self) -> Figure:
        """The mean distance by level."""
        shown = set(self.table["level"].to_list())
        return Figure(
            name="table-changes-by-level",
            caption="Mean distance of a published count from the true one, at each level.",
            alt="Mean absolute change of counts by geographic level, one line per table",
            chart=line_chart(
                self.table,
                x=by_level(tuple(level for level in self.levels if level in shown)),
                y=Axis(column="d1", title=f"Mean |change| ({self.counted})", zero=True),
                series="table",
                points=True,
            ),
        )
