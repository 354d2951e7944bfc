"""Bias by homogeneity: are places where few kinds of people live counted too high or too low?

How homogeneous a place is, is said by the index of Petti & Flaxman (2020), of which they describe
one and compute another (``homogeneity_index``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.evaluation._base import LEVEL, Metric, NotFeasible, Truth, publishes_counts
from headcount.processes import Progress, silent
from headcount.release import Release
from headcount.report.figures import Axis, Control, band_chart
from headcount.report.finding import SUPPORTED, Finding, Support
from headcount.report.model import Column, Figure
from headcount.tabulate import Query

STRATA = ("voting_age", "hispanic", "race")
MOST_CELLS, ANSWERS_AT_ONCE = 256, 1 << 22
IndexDefinition = Literal["words", "code"]
INDEX_DEFINITIONS: tuple[IndexDefinition, ...] = ("words", "code")
"""Petti & Flaxman (2020) describe one index and compute another."""


@dataclass(frozen=True, kw_only=True)
class BiasByHomogeneity(Metric):
    """Mean error of totals by the homogeneity index of Petti & Flaxman (2020).

    ``by`` are the attributes whose combinations are the kinds of people; without any, voting age,
    Hispanic origin and race as far as the schema has two of them, else all attributes.
    """

    name = "bias-by-homogeneity"
    reads_estimates = True
    order = 35
    by: tuple[str, ...] = ()

    def supports(self, release: Release, truth: Truth) -> Support:
        """Counts on at least two attributes with few combinations, below the whole."""
        if not (counts := publishes_counts(release)):
            return counts
        if missing := [name for name in self.by if name not in release.schema.names]:
            return Support(f"the schema has no attribute {' and no '.join(missing)}")
        names = self._kinds(release)
        cells = int(np.prod([release.schema.attribute(name).size for name in names]))
        if len(names) < 2:
            return Support(
                "the schema has fewer than two attributes to distinguish kinds of "
                f"{truth.counts.domain.counted}"
            )
        if cells > MOST_CELLS:
            return Support(
                f"{' x '.join(names)} has {cells:,} kinds of people, more than {MOST_CELLS}"
            )
        if len(release.geography.levels) < 2:
            return Support("there is no level below the whole")
        return SUPPORTED

    def _kinds(self, release: Release) -> tuple[str, ...]:
        some = tuple(name for name in STRATA if name in release.schema.names)
        return self.by or (some if len(some) > 1 else release.schema.names)

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """Errors of totals, grouped by how many kinds of people a place lacks."""
        names = self._kinds(release)
        schema = release.schema
        query = Query(" x ".join(names), names)
        shape = tuple(schema.attribute(name).size for name in names)
        counts, answer = release.as_counts(), query.matrix(schema)
        levels = release.geography.levels[1:]
        rows = []
        for level in progress(levels, what="Bias by homogeneity", total=len(levels)):
            exact = truth.counts.at(level)
            step = max(1, ANSWERS_AT_ONCE // answer.shape[1])
            pieces = (exact.matrix[a : a + step] for a in range(0, exact.matrix.shape[0], step))
            index = np.concatenate(
                [
                    homogeneity_index((some @ answer).toarray(), shape=shape, definition="words")
                    for some in pieces
                ]
            )
            made = np.asarray(counts.table(level).sum(axis=1)).reshape(-1)
            errors = made - exact.totals()
            lived_in = exact.totals() > 0
            for value, (n, mean, low, high) in bias_by(index[lived_in], errors[lived_in]).items():
                some = errors[lived_in][index[lived_in] == value]
                spread = float(some.std(ddof=1) / np.sqrt(n)) if n > 1 else None
                rows.append(
                    {
                        "level": level,
                        "homogeneity_index": value,
                        "units": n,
                        "mean_error": mean,
                        "standard_error": spread,
                        "p05": low,
                        "p95": high,
                    }
                )
        if not rows:
            raise NotFeasible(f"no place has any {truth.counts.domain.counted}")
        table = pl.DataFrame(rows, schema_overrides={"standard_error": pl.Float64})
        return _Bias(table=table, kinds=names, cells=int(np.prod(shape)), levels=levels)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _Bias(Finding):
    """A row for each level and value of the index; errors are in people."""

    name: str = BiasByHomogeneity.name
    title: str = "Are places with few kinds of people favoured?"
    index: tuple[str, ...] = ("level", "homogeneity_index", "units")
    value: str = "mean_error"
    value_words: str = "mean error of totals, in people, by homogeneity index"
    caption: str = "Errors of totals by level and homogeneity index."
    table_name: str = "homogeneity"
    folded: bool = True

    kinds: tuple[str, ...]
    cells: int
    levels: tuple[str, ...]

    def explain(self) -> str:
        """What the index is, and what a slope means."""
        return (
            f"The homogeneity index of a place is the number of the {self.cells} kinds of people "
            f"({' x '.join(self.kinds)}) of whom nobody lives there: the higher, the more alike "
            "its people are (Petti & Flaxman 2020). The error is the released total minus the "
            "exact one, in people, of places where somebody lives. A slope means that the method "
            "moves people between mixed and uniform places; setting counts below 0 to 0 does "
            "that. The band runs from the 5th to the 95th percentile of places; the standard "
            "error is over places of one release, as if their errors were independent."
        )

    def figure(self) -> Figure:
        """Mean error by index, at the level chosen."""
        return Figure(
            name=self.name,
            caption="Mean error of totals by homogeneity, with the range of 90 % of places.",
            alt="Mean error of unit totals by homogeneity index, at one level",
            chart=band_chart(
                self.table.with_columns(series=pl.lit("mean error")),
                x=Axis(column="homogeneity_index", title="Kinds of people who are missing"),
                y=Axis(column="mean_error", title="Released minus exact (people)"),
                low="p05",
                high="p95",
                series="series",
                controls=(Control(column="level", label="Level", initial=self.levels[-1]),),
            ),
        )

    def columns(self) -> tuple[Column, ...]:
        """Headed in words."""
        return (
            LEVEL,
            Column(key="homogeneity_index", label="Kinds missing", format=",d"),
            Column(key="units", label="Places", format=",d"),
            Column(key="mean_error", label="Mean error", unit="people", format="+,.3g"),
            Column(key="standard_error", label="Standard error", unit="people", format=",.2g"),
            Column(key="p05", label="5 % below", unit="people", format="+,.3g"),
            Column(key="p95", label="95 % below", unit="people", format="+,.3g"),
        )


def homogeneity_index(
    counts: ArrayLike, *, shape: tuple[int, ...], definition: IndexDefinition
) -> Ints:
    """The homogeneity index of each unit (a row of ``counts``), from its exact counts.

        words:  number of cells without anybody
        code:   number of cells - product over attributes of the levels that occur in the unit

    where
        shape   levels of each attribute; the cells of a row are numbered row by row

    Both are 0 where every cell is filled and grow as a place holds fewer kinds of people. They
    agree unless kinds that occur fail to meet: one Hispanic child and one adult of another race
    leave 22 of 24 cells empty (words), but span 2 x 2 x 2 cells (code: 16).
    """
    table = np.asarray(counts)
    cells = int(np.prod(shape, dtype=np.int64))
    if table.ndim != 2 or table.shape[1] != cells:
        raise InputError(
            "homogeneity index",
            place="counts",
            found=f"shape {table.shape}",
            expected=f"units x {cells} cells",
        )
    there = table > 0
    if definition == "words":
        return cast(Ints, cells - there.sum(axis=1, dtype=np.int64))
    if definition != "code":
        raise InputError(
            "homogeneity index",
            place="definition",
            found=repr(definition),
            expected=" or ".join(INDEX_DEFINITIONS),
        )
    there = there.reshape(-1, *shape)
    spanned = np.ones(len(table), dtype=np.int64)
    for axis in range(len(shape)):
        others = tuple(other + 1 for other in range(len(shape)) if other != axis)
        spanned *= there.any(axis=others).sum(axis=1)
    return cast(Ints, cells - spanned)


def bias_by(groups: ArrayLike, errors: ArrayLike) -> dict[int, tuple[int, float, float, float]]:
    """For each group number: how many errors, their mean, and their 5th and 95th percentile.

    ``errors`` may have several rows, one for each run; ``groups`` has one number per column.
    """
    label, values = np.asarray(groups), np.atleast_2d(np.asarray(errors, dtype=np.float64))
    if label.ndim != 1 or values.shape[1:] != label.shape:
        raise InputError(
            "bias",
            place="errors",
            found=f"shape {values.shape}",
            expected=f"runs x {label.size} units",
        )
    found = {}
    for group in np.unique(label):
        some = values[:, label == group].ravel()
        low, high = np.quantile(some, [0.05, 0.95])
        found[int(group)] = (some.size, float(some.mean()), float(low), float(high))
    return found
