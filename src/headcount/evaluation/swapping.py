"""What swapping did, from the account that the run left for the curator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from headcount.errors import RunError
from headcount.evaluation._base import Metric, Truth
from headcount.files import from_json
from headcount.mechanisms.swapping.households import REPORT
from headcount.processes import Progress, silent
from headcount.release import Release
from headcount.report.figures import Axis, point_chart
from headcount.report.finding import SUPPORTED, Finding, Support
from headcount.report.model import Block, Column, Figure, KeyNumber, Prose, table_from_frame


@dataclass(frozen=True, kw_only=True)
class Swapping(Metric):
    """How many moved, how far, and which counts changed."""

    name = "swapping"
    order = 30
    depends_on = frozenset()  # on the account that the run left

    def supports(self, release: Release, truth: Truth) -> Support:
        """The account of a swap."""
        if not truth.files(REPORT):
            return Support("the run left no account of a swap")
        return SUPPORTED

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """The account of each swap of the run that is the release."""
        accounts = {step: _account(path) for step, path in truth.files(REPORT).items()}
        kept = [
            {"step": step, **row} for step, one in accounts.items() for row in one.get("kept", [])
        ]
        who = {_who(account) for account in accounts.values()}
        return _Swaps(
            table=pl.concat([_table(step, account) for step, account in accounts.items()]),
            who=" and ".join(sorted(who)),
            kept=pl.DataFrame(kept),
        )


def _account(path: Path) -> dict[str, Any]:
    """The account that a run left; one that cannot be shown is refused by name."""
    try:
        account: dict[str, Any] = next(iter(from_json(path.read_text("utf-8")).values()))
        _table("", account)
        pl.DataFrame([{**row} for row in account.get("kept", [])])
    except (
        *(ValueError, TypeError, KeyError, AttributeError, StopIteration, RecursionError),
        *(ZeroDivisionError, pl.exceptions.PolarsError),
    ):
        raise RunError(f"{path}: found a damaged file, expected the account of a swap") from None
    return account


def _who(account: Mapping[str, Any]) -> str:
    return "households" if "households" in account else "people"


def _table(step: str, account: Mapping[str, Any]) -> pl.DataFrame:
    """An account as rows; per cent are of everybody, or of the pairs for how far they moved."""
    who = _who(account)
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
        [(step, what, n, 100 * n / of if of else None) for what, n, of in rows],
        schema={"step": pl.String, "what": pl.String, "number": pl.Int64, "percent": pl.Float64},
        orient="row",
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _Swaps(Finding):
    """A row for each number of the account; ``kept`` are the units in which a count changed."""

    name: str = Swapping.name
    title: str = "Who was swapped"
    index: tuple[str, ...] = ("step", "what")
    value: str = "percent"
    caption: str = "The account of the swap."
    value_words: str = "swaps, as a percentage of those who may move, or of pairs"

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
            "are. A pair counts at the finest level at which both live in the same unit: a swap "
            "within a small unit changes little. The numbers are exact and for the curator only: "
            "with the list of swaps the truth can be restored. Swapping has no guarantee; the "
            "attacks below measure how often linkage and re-identification succeed in spite of it."
        )

    def numbers(self) -> tuple[KeyNumber, ...]:
        """The share that moved."""
        shares = self.table.filter(pl.col("what") == "swapped", pl.col("percent").is_not_null())
        return tuple(
            KeyNumber(
                value=f"{row['percent']:,.3g}",
                unit="%",
                label=f"of the {self.who} were swapped" + (f" ({row['step']})" * bool(row["step"])),
            )
            for row in shares.iter_rows(named=True)
        )

    def figure(self) -> Figure:
        """The account in per cent."""
        shown = self.table.filter(~pl.col("what").str.ends_with("that may move"))  # 100 %
        names = tuple(dict.fromkeys(shown["what"].to_list()))
        return Figure(
            name="swapping-account",
            caption=f"Percentage of the {self.who} that may move; percentage of the pairs, by the "
            "finest level at which both live in the same unit.",
            alt="The account of the swap in percentages",
            chart=point_chart(
                shown.with_columns(series=pl.col("step").replace({"": "per cent"})),
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
            caption="Units in which a count changed; 0 means that swapping leaves it exact.",
            columns=(
                Column(key="count", label="Count"),
                Column(key="level", label="Level"),
                Column(key="changed", label="Changed", unit="units", format=",d"),
                Column(key="units", label="Of", unit="units", format=",d"),
            ),
            folded=True,
        )
        return (*super().blocks(), Prose("Which counts did swapping keep?"), changed)
