"""What is measured of every release: records rebuilt and attacked, errors, cells withheld."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
from scipy.sparse import csr_array

from headcount.comparison.cases import Measure, Released
from headcount.evaluation.withheld import Withheld, WithheldCells
from headcount.geography import Areas
from headcount.tabulate import Tabulated
from headcount_papers.hawes_rodriguez_2021.accuracy import errors, errors_of_race_alone
from headcount_papers.hawes_rodriguez_2021.methods import COMPLEMENTARY, MICRODATA, NONE, TOPDOWN
from headcount_papers.hawes_rodriguez_2021.product_2020 import product_errors
from headcount_papers.hawes_rodriguez_2021.setup import Setup

WITHHELD = {
    **dict.fromkeys(("table", "rule", "level"), pl.String),
    **dict.fromkeys(("total", "withheld"), pl.Int64),
    "percent": pl.Float64,
    "unprotected": pl.Int64,
}


def measures(setup: Setup, *, seed: int) -> dict[str, Measure]:
    """By name of the table; ``withheld`` is of the method that withholds more than in 1980.

    The attack ``reidentification`` gives everybody's data to one attacker and takes counts for
    records. Here two attackers have files of their own, and records are rebuilt from the tables
    that the Bureau publishes. So its functions are called, and errors are by size of a county.
    """

    def attacked(one: Released, attack: Callable[[Any], pl.DataFrame]) -> pl.DataFrame:
        if "records" not in one.shared:
            one.shared["records"] = setup.reconstructed(one.release)
        found = [attack(one.shared["records"]).select(pl.lit("").alias("source"), pl.all())]
        if one.case.columns["kind"] in (NONE, TOPDOWN):
            own = csr_array(one.release.as_counts().table(setup.counts.level))
            found.append(attack(own).select(pl.lit(MICRODATA).alias("source"), pl.all()))
        return pl.concat(found)

    return {
        "matches": lambda one: attacked(
            one, lambda matrix: setup.matches(matrix, seed=seed + one.replicate)
        ),
        "agreement": lambda one: attacked(one, setup.agreement),
        "errors": lambda one: errors(setup.counts, one.release, areas=setup.households.areas),
        "withheld": withheld,
    }


def measures_by_race(alone: Tabulated, areas: Sequence[Areas]) -> dict[str, Measure]:
    """Errors of race alone: ``alone`` are the same people, counted by it."""
    return {
        "errors": lambda one: errors_of_race_alone(alone.counts, one.release),
        **measures_of_product(alone, areas),
    }


def measures_of_product(data: Tabulated, areas: Sequence[Areas]) -> dict[str, Measure]:
    """Errors of what the redistricting product of 2020 counts."""
    return {"product": lambda one: product_errors(data.counts, one.release, areas=areas)}


def withheld(one: Released) -> pl.DataFrame:
    """Cells of the protected tables withheld in all, and small ones that no witness protects."""
    if one.case.name != COMPLEMENTARY or one.replicate:
        return pl.DataFrame(schema=WITHHELD)
    found = Withheld().compute(one.release, one.truth)
    assert isinstance(found, WithheldCells)
    (audit,) = found.audits
    assert audit.witnessed is not None
    rules = one.release.as_tables().withholding
    return found.table.filter(pl.col("table").is_in(rules.tables)).select(
        "table",
        pl.lit(rules.rule).alias("rule"),
        "level",
        pl.col("cells").alias("total"),
        "withheld",
        "percent",
        pl.lit(len(audit.witnessed.unprotected)).cast(pl.Int64).alias("unprotected"),
    )
