"""What swapping did, from the account that the run left for the curator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from headcount.evaluate.metrics._base import Metric
from headcount.evaluate.truth import Truth
from headcount.mechanisms.swapping.report import REPORT
from headcount.progress import Progress, silent
from headcount.release import Release
from headcount.report.figures import Axis, point_chart
from headcount.report.finding import SUPPORTED, Finding, Support
from headcount.report.model import Block, Column, Figure, KeyNumber, Prose, table_from_frame


@dataclass(frozen=True, kw_only=True)
class Swapping(Metric):
    """How many moved, how far, and which counts that changed."""

    name = "swapping"
    order = 30
    depends_on = frozenset()  # on the account that the run left

    def supports(self, release: Release, truth: Truth) -> Support:
        """The account of a swap."""
        if truth.file(REPORT) is None:
            return Support("the run left no account of a swap")
        return SUPPORTED

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """The account of the first swap of the run, which is the release."""
        path = truth.file(REPORT)
        assert path is not None  # supported
        account = next(iter(json.loads(path.read_text(encoding="utf-8")).values()))
        who = "households" if "households" in account else "people"
        return Swaps(
            table=_table(account, who),
            who=who,
            kept=pl.DataFrame(account.get("kept", [])),
        )


def _table(account: Mapping[str, Any], who: str) -> pl.DataFrame:
    """The account as rows; per cent are of everybody, or of the pairs for how far they moved."""
    every = account[who]
    risk = account.get("at_risk") or account
    numbers = {
        f"{who} that may move": every,
        "chosen": account.get("asked", account.get("marked")),
        "swapped": account["swapped"],
        "chosen, but without a partner": account.get("unpaired", account.get("unswappable")),
        "at risk and left in place": risk.get("left"),
        "unique": risk.get("uniques"),
        "unique and swapped": risk.get("uniques_swapped"),
    }
    partners = account.get("partners", {})
    rows = [(what, number, every) for what, number in numbers.items() if number is not None]
    pairs = sum(partners.values())
    rows += [(f"pairs within one {level}", number, pairs) for level, number in partners.items()]
    return pl.DataFrame(
        [(what, n, 100 * n / of if of else None) for what, n, of in rows],
        schema={"what": pl.String, "number": pl.Int64, "percent": pl.Float64},
        orient="row",
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Swaps(Finding):
    """A row for each number of the account; ``kept`` are the units in which a count changed."""

    name: str = Swapping.name
    title: str = "Who was swapped"
    index: tuple[str, ...] = ("what",)
    value: str = "percent"
    caption: str = "The account of the swap."
    value_words: str = "swaps, in per cent of those who may move, or of pairs"

    who: str
    kept: pl.DataFrame

    def files(self) -> dict[str, pl.DataFrame]:
        """Pairs by level, and the counts that changed."""
        found = {self.name: self.table}
        return found | {"swapping-changed": self.kept} if self.kept.height else found

    def explain(self) -> str:
        """What moved, and that this is no protection by itself."""
        return (
            f"Swapping lets {self.who} change places; whoever did not move is published as they "
            "are. A pair counts at the finest level whose unit both live in: within a small "
            "unit little changes for its neighbours. The numbers are exact and belong to the "
            "curator: with the list of swaps the truth can be put back. Swapping has no guarantee; "
            "how often linkage and re-identification are right in spite of it, the attacks below "
            "measure."
        )

    def numbers(self) -> tuple[KeyNumber, ...]:
        """The share that moved."""
        share = self.table.filter(what="swapped")["percent"].item()
        if share is None:
            return ()
        return (
            KeyNumber(value=f"{share:,.3g}", unit="%", label=f"of the {self.who} were swapped"),
        )

    def figure(self) -> Figure:
        """The account in per cent."""
        shown = self.table[1:]  # the first is everybody: 100 %
        names = tuple(shown["what"].to_list())
        return Figure(
            name="swapping-account",
            caption=f"Per cent of the {self.who} that may move; of the pairs, by the finest level "
            "whose unit both live in.",
            alt="The account of the swap in per cent",
            chart=point_chart(
                shown.with_columns(series=pl.lit("per cent")),
                x=Axis(column="what", title="", names=names),
                y=Axis(column="percent", title="Per cent", zero=True),
                series="series",
                height=240,
            ),
        )

    def blocks(self) -> tuple[Block, ...]:
        """How far, and which counts changed."""
        if not self.kept.height:
            return super().blocks()
        changed = table_from_frame(
            self.kept,
            name="swapping-changed",
            caption="Units in which a count changed; 0 is a count that swapping keeps.",
            columns=(
                Column(key="count", label="Count"),
                Column(key="level", label="Level"),
                Column(key="changed", label="Changed", unit="units", format=",d"),
                Column(key="units", label="Of", unit="units", format=",d"),
            ),
            folded=True,
        )
        return (*super().blocks(), Prose("Which counts did swapping keep?"), changed)
