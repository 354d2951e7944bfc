"""A paper that can be run again: a study whose tables are judged beside what was published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headcount.comparison.study import Findings, Study

if TYPE_CHECKING:
    import polars as pl

    from headcount.comparison.template import Exhibits


@dataclass(frozen=True, kw_only=True)
class Paper(Study):
    """A study whose report has tables of verdicts, and ``held``, the number of claims that hold."""

    def exhibits(self) -> type[Exhibits]:
        """Figures and tables, verdicts among them."""
        from headcount_papers.frame.claims_table import Judged

        return Judged

    def words(self, findings: Findings) -> Mapping[str, Any]:
        """How many claims hold."""
        return {"held": lambda table="claims": held(findings.tables[table])}


def held(claims: pl.DataFrame) -> dict[str, int]:
    """How many claims hold, depend or do not, and how many were judged.

    A claim that another covers is counted with that one, and what the paper itself errs in is
    ``errs``: neither is among the judged.
    """
    import polars as pl

    from headcount_papers.frame.claims import DEPENDS, NO, PAPER_ERRS, YES

    own = claims.filter(pl.col("covered_by") == "")
    errs = own.filter(cause=PAPER_ERRS)
    left = own.filter(pl.col("cause") != PAPER_ERRS)
    count = {word: left.filter(holds=word).height for word in (YES, DEPENDS, NO)}
    return {**count, "judged": sum(count.values()), "errs": errs.height}
