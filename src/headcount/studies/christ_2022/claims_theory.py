"""Claims that are formulas: Theorem 1 and the variances of appendix A.3."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from headcount.studies.christ_2022.claims import Claim, Tables, counted
from headcount.studies.christ_2022.settings import BUCKETS
from headcount.studies.christ_2022.theory import combinations, detailed_combinations

ERRORS = 3.5
"""Standard errors within which a simulated mean must be of the expected one."""


def theory_claims(tables: Tables) -> Iterator[Claim]:
    """Formulas and printed values, whatever the people."""
    yield from _theorem_1(tables["theorem_1"])
    table = tables["variance"]
    exact = table.filter((pl.col("paper") - pl.col("exact")).abs() <= 0.001)
    yield counted(
        "Appendix A.3: variances at epsilon 4",
        paper=", ".join(f"{value:g}" for value in table["paper"]),
        true=exact.height, of=table.height, what="rows within 0.001",
        rule="the exact formula within 0.001 (the last row is printed as 100, and is 1,000)",
    )  # fmt: skip
    close = table.filter((pl.col("simulated") / pl.col("exact") - 1).abs() <= 0.06)
    yield counted(
        "The variance grows as 2 c e^epsilon / (1 - e^epsilon)^2 with c combinations",
        paper="yes", true=close.height, of=table.height, what="rows simulated within 6 %",
        rule="20,000 draws each",
    )  # fmt: skip
    ours = [combinations(buckets) for buckets in BUCKETS]
    yield Claim(
        claim="Attribute combinations of one group with 2, 6 and 45 age buckets",
        paper="8, 24, 180",
        ours=", ".join(str(count) for count in ours),
        holds="yes" if ours == [8, 24, 180] else "no",
        rule="equal",
    )
    many = detailed_combinations()
    yield Claim(
        claim="With 15 attributes and 6 age buckets: c = 2,469,035,520",
        paper="2,469,035,520",
        ours=f"{many:,}",
        holds="yes" if many == 2_469_035_520 else "no",
        rule="equal",
    )
    yield Claim(
        claim="The same, as the appendix rounds it",
        paper="1.47e9",
        ours=f"{many:.3g}",
        holds="no" if abs(many / 1.47e9 - 1) > 0.01 else "yes",
        rule="within 1 % (a misprint: twice c, 4.94e9, is printed right)",
    )


def _theorem_1(table: pl.DataFrame) -> Iterator[Claim]:
    away = (pl.col("simulated_change") - pl.col("expected_change")).abs()
    fits = table.filter(away <= ERRORS * pl.col("standard_error") + 1e-12)
    yield counted(
        "Theorem 1: the expected change of a share is kappa (beta - alpha)",
        paper="as absolute value", true=fits.height, of=table.height,
        what="county x group x rate", rule=f"simulated mean within {ERRORS} standard errors",
    )  # fmt: skip
    ratio = table.select(pl.col("expected_absolute_change") / pl.col("expected_change").abs())
    values = ratio.to_series()
    equal, largest = int((values <= 1.01).sum()), float(values.max())  # type: ignore[arg-type]
    yield Claim(
        claim="Theorem 1 as printed: that is the expected absolute error",
        paper="equal",
        ours=f"equal in {equal} of {table.height}; otherwise up to {largest:.1f} times larger",
        holds="yes" if equal == table.height else "no",
        rule="within 1 %; it is a lower bound, reached where the share moves one way only",
    )
