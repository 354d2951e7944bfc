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
    """A study whose report has tables of verdicts, and ``held``, how many there are of each."""

    def exhibits(self) -> type[Exhibits]:
        """Figures and tables, verdicts among them."""
        from headcount_papers.frame.claims_table import Judged

        return Judged

    def words(self, findings: Findings) -> Mapping[str, Any]:
        """How many claims there are of each outcome, and the same in a sentence."""
        return {
            "held": lambda table="claims": held(findings.tables[table]),
            "said": lambda table="claims": said(held(findings.tables[table])),
        }


def held(claims: pl.DataFrame) -> dict[str, int]:
    """How many claims have each outcome, by its first word, and how many were judged.

    A claim that another covers is counted with that one; what the paper itself errs in ("the") and
    what is not testable ("not testable here") is not among the judged.
    """
    import polars as pl

    from headcount_papers.frame.verdict import NOT_JUDGED, NOT_TESTABLE, OUTCOMES, PAPER_ERRS

    own = claims.filter(pl.col("covered_by") == "")
    count = {word: own.filter(outcome=word).height for word in OUTCOMES}
    apart = (PAPER_ERRS, NOT_TESTABLE, NOT_JUDGED)
    return {**count, "judged": own.filter(~pl.col("outcome").is_in(apart)).height}


def said(counts: Mapping[str, int]) -> str:
    """The outcomes in a sentence."""
    from headcount.comparison.template import listed
    from headcount_papers.frame.verdict import NOT_TESTABLE, OUTCOMES, PAPER_ERRS

    tested = [word for word in OUTCOMES if word not in (PAPER_ERRS, NOT_TESTABLE)]
    parts = [f"{counts[word]} {_of_them(word, counts[word])}" for word in tested if counts[word]]
    words = f"Of {counts['judged']} claims {listed(parts)}." if parts else "No claim is judged."
    errs, left = counts[PAPER_ERRS], counts[NOT_TESTABLE]
    more = [f"in {errs} the paper itself errs"] if errs else []
    more += [f"{left} {'is' if left == 1 else 'are'} not testable here"] if left else []
    return f"{words} Besides, {listed(more)}." if more else words


def _of_them(outcome: str, number: int) -> str:
    return f"{'is' if number == 1 else 'are'} {outcome}"
