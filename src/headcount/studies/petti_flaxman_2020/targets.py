"""Published rows and laws, this run's numbers, and whether they agree by rules fixed beforehand.

Tolerances were set from prototypes on synthetic populations fitted to published counts only; a
difference beyond them means a mistake, in the paper, in the population or here. They hold for a
whole nation and four pooled replicates; in another run only what is exact by construction is
judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from headcount.studies.petti_flaxman_2020.appendix import published_data
from headcount.studies.petti_flaxman_2020.paper import TABLE_1
from headcount.studies.petti_flaxman_2020.settings import CountType, Level
from headcount.studies.petti_flaxman_2020.tolerances import (
    ED,
    ORDERED,
    RMSE,
    SAMPLING_ERRORS,
    SIGNS,
    SLOPE,
    STEP_OF_TABLE_1,
    bias_tolerance,
    sampling_tolerance,
    topdown_tolerance,
)

COLUMNS = {
    "mechanism": pl.String,
    "count_type": pl.String,
    "level": pl.String,
    "parameter": pl.Float64,
    "homogeneity_index": pl.Int64,
    "statistic": pl.String,
    "published": pl.Float64,
    "ours": pl.Float64,
    "difference": pl.Float64,
    "tolerance": pl.Float64,
    "within": pl.Boolean,
    "rule": pl.String,
}
NEAR, BELOW, ABOVE, SIGN = "within tolerance", "below", "above", "same sign"
NOT_JUDGED = "not judged"


class Target(NamedTuple):
    """One number to be met.

    where
        published   the number of the paper, or the one that a law or the paper's order asks for
        rule        how ours is judged by it; for "within tolerance" a tolerance is needed
        always      exact by construction, so judged in every run
    """

    mechanism: str
    count_type: CountType
    level: Level
    statistic: str
    published: float
    ours: float | None
    tolerance: float | None = None
    parameter: float | None = None
    homogeneity_index: int | None = None
    rule: str = NEAR
    always: bool = False

    def kept(self) -> bool | None:
        """Whether ours is as it should be; None if there is nothing to judge by."""
        if self.ours is None or (self.rule == NEAR and self.tolerance is None):
            return None
        if self.rule == NEAR:
            assert self.tolerance is not None
            return abs(self.ours - self.published) <= self.tolerance + 1e-9
        if self.rule == SIGN:
            return bool(np.sign(self.ours) == np.sign(self.published))
        return self.ours < self.published if self.rule == BELOW else self.ours > self.published

    def row(self, *, judge: bool) -> dict[str, Any]:
        """As a row of the table."""
        kept = self.kept()
        difference = None if self.ours is None else self.ours - self.published
        return {name: getattr(self, name, None) for name in COLUMNS} | {
            "difference": difference,
            "within": kept if judge or self.always else None,
            "rule": NOT_JUDGED if kept is None else self.rule,
        }


def targets_table(
    *,
    topdown: pl.DataFrame,
    sampling: pl.DataFrame,
    bias: pl.DataFrame,
    equivalence: pl.DataFrame,
    judge: bool,
) -> pl.DataFrame:
    """Every published row of error, loss, bias and table 1 beside ours, and what must hold.

    ``within`` is null where there is no tolerance, or where this run is not to be judged.
    """
    found = [
        *_topdown(topdown),
        *_exact(topdown, bias),
        *_below_promise(topdown),
        *_slopes(topdown),
        *_sampling(sampling),
        *_sampling_law(sampling),
        *_bias(bias, topdown),
        *_signs_and_order(bias),
        *_table_1(equivalence),
    ]
    return pl.DataFrame([one.row(judge=judge) for one in found], schema=COLUMNS)


def _topdown(ours: pl.DataFrame) -> Iterator[Target]:
    for row in published_data("topdown").iter_rows(named=True):
        cell, epsilon = (row["count_type"], row["level"]), row["epsilon"]
        found = ours.filter(count_type=cell[0], level=cell[1], epsilon=epsilon)
        for statistic in ("mae", "p95", "max", "rmse", "epl"):
            if row[statistic] is not None and found.height:
                yield Target(
                    *("topdown", *cell, statistic, float(row[statistic]), found[statistic][0]),
                    tolerance=topdown_tolerance(cell, epsilon, statistic, row[statistic]),
                    parameter=epsilon,
                )


def _exact(topdown: pl.DataFrame, bias: pl.DataFrame) -> Iterator[Target]:
    """Totals of states are kept, so no total errs there, and errors add up to nothing anywhere."""
    for epsilon, largest in (
        topdown.filter(count_type="TC", level="state").select("epsilon", "max").iter_rows()
    ):
        yield Target("topdown", "TC", "state", "largest error", 0.0, largest, tolerance=0.0,
                     parameter=epsilon, always=True)  # fmt: skip
    coded = bias.filter(index_definition="code")
    # Sums are whole numbers of people, which n x mean is but for its last digits.
    people = (pl.col("n") * pl.col("mean_error")).round().sum().alias("people")
    for level, epsilon, total in (
        coded.group_by("level", "epsilon", maintain_order=True).agg(people).iter_rows()
    ):
        yield Target("topdown", "TC", level, "sum of errors", 0.0, total, tolerance=0.0,
                     parameter=epsilon, always=True)  # fmt: skip


def _below_promise(topdown: pl.DataFrame) -> Iterator[Target]:
    for row in topdown.drop_nulls("epl").iter_rows(named=True):
        epsilon = row["epsilon"]
        yield Target("topdown", row["count_type"], row["level"], "EPL below epsilon", epsilon,
                     row["epl"], parameter=epsilon, rule=BELOW)  # fmt: skip


def _slopes(topdown: pl.DataFrame) -> Iterator[Target]:
    """Slope of log RMSE on log epsilon, over the published epsilons that were run."""
    for kind, level in RMSE:
        both = (
            published_data("topdown")
            .filter(count_type=kind, level=level)
            .join(topdown, on=["count_type", "level", "epsilon"], suffix="_ours")
        )
        if both.height < 2:
            continue
        x = np.log(both["epsilon"].to_numpy())
        theirs, ours = (
            float(np.polyfit(x, np.log(both[column].to_numpy()), 1)[0])
            for column in ("rmse", "rmse_ours")
        )
        yield Target("topdown", kind, level, "slope of log rmse", theirs, ours, tolerance=SLOPE)


def _sampling(ours: pl.DataFrame) -> Iterator[Target]:
    for row in published_data("sampling").iter_rows(named=True):
        kind, level, fraction = row["count_type"], row["level"], row["fraction"]
        found = ours.filter(count_type=kind, level=level, fraction=fraction)
        for statistic in ("mae", "p95", "max", "rmse", "epl", "epl_2019_settings"):
            if row[statistic] is not None and found.height:
                yield Target(
                    *("sampling", kind, level, statistic, float(row[statistic])),
                    found[statistic][0],
                    tolerance=sampling_tolerance(level, statistic, row[statistic]),
                    parameter=fraction,
                )


def _sampling_law(ours: pl.DataFrame) -> Iterator[Target]:
    """The RMSE of samples is known beforehand: 1 % at districts, else 3 standard errors."""
    for row in ours.iter_rows(named=True):
        expected, error = row["rmse_expected"], row["rmse_standard_error"]
        near = 0.01 * expected if row["level"] == ED else SAMPLING_ERRORS * error
        yield Target(
            *("sampling", row["count_type"], row["level"], "rmse by its formula"),
            *(expected, row["rmse"]),
            tolerance=near,
            parameter=row["fraction"],
        )


def _bias(ours: pl.DataFrame, topdown: pl.DataFrame) -> Iterator[Target]:
    coded = ours.filter(index_definition="code")
    for row in published_data("bias").iter_rows(named=True):
        level, epsilon, index = row["level"], row["epsilon"], row["homogeneity_index"]
        found = coded.filter(level=level, epsilon=epsilon, homogeneity_index=index)
        if not found.height:
            continue
        rmse = topdown.filter(count_type="TC", level=level, epsilon=epsilon)["rmse"][0]
        error = rmse / sqrt(found["n"][0])
        yield Target(
            *("topdown", "TC", level, "bias", row["mean_error"], found["mean_error"][0]),
            tolerance=bias_tolerance(level, index, epsilon, row["mean_error"], error),
            parameter=epsilon,
            homogeneity_index=index,
        )


def _signs_and_order(bias: pl.DataFrame) -> Iterator[Target]:
    """The direction of the bias, at every epsilon: the published signs and order."""
    coded = bias.filter(index_definition="code")
    for (epsilon,), rows in coded.group_by("epsilon", maintain_order=True):
        at = {
            (level, index): mean
            for level, index, mean in rows.select(
                "level", "homogeneity_index", "mean_error"
            ).iter_rows()
        }
        for index, sign in SIGNS.items():
            if (ED, index) in at:
                yield Target("topdown", "TC", ED, "sign of bias", sign, at[ED, index],
                             parameter=epsilon, homogeneity_index=index, rule=SIGN)  # fmt: skip
        for lower, higher in pairwise(ORDERED):
            if ("county", lower) in at and ("county", higher) in at:
                yield Target(
                    *("topdown", "TC", "county", f"bias above that at index {lower}"),
                    *(at["county", lower], at["county", higher]),
                    parameter=epsilon,
                    homogeneity_index=higher,
                    rule=ABOVE,
                )


def _table_1(equivalence: pl.DataFrame) -> Iterator[Target]:
    for epsilon, fraction in TABLE_1.items():
        found = equivalence.filter(epsilon=float(epsilon)).drop_nulls("fraction")
        if found.height:
            yield Target("topdown", "SC", "county", "nearest sample (table 1)", fraction,
                         found["fraction"][0], tolerance=STEP_OF_TABLE_1,
                         parameter=float(epsilon))  # fmt: skip
