"""What the report shows: views behind figures and tables, facts for the text."""

from __future__ import annotations

from typing import Any

import polars as pl

from headcount.comparison.study import Findings
from headcount_papers.swapping_and_cell_keys.chains import AS_COUNTED
from headcount_papers.swapping_and_cell_keys.measures import MOST, TOGETHER, TOTALS
from headcount_papers.swapping_and_cell_keys.report_charts import (
    KEYS,
    MIXED,
    ROUNDING,
    SWAPPING,
    TOPDOWN,
    surface,
    trade_off,
)
from headcount_papers.swapping_and_cell_keys.settings import BASES, LADDER, OTHER_KEYS, RATES
from headcount_papers.swapping_and_cell_keys.study import RISKS, interval

CLAIM_WORDS = {"exact": "exactly so many", "few": "one or two"}
MAIN = {"claim": "exact", "odds": 1}
"""The bets of the main chart: exactly so many, at even odds."""
NEAR_ZERO, LOW = 0.9, 4.0
"""Risks below the first lie on the axis, where words need more room."""
NO_SMALL = {OTHER_KEYS[1].name: "no 1 published", OTHER_KEYS[2].name: "no 1 or 2"}
MIX_NAMED = LADDER[3].name
"""The mix that has a label of its own, after a swap of 2 %."""
SHOWN_RATES = (0.0, 0.1, 0.5)
"""Swap rates of the figures that would else have too many lines."""


PRICED = 10.0
"""The risk whose prices the summary sets side by side."""


def facts(found: Findings) -> dict[str, Any]:
    """What the text speaks of."""
    about = found.tables["about"].row(0, named=True)
    settings = found.settings.identity()
    baseline = found.tables["bets"].filter(attacker=TOTALS, **MAIN)["percent"]
    return {
        **about,
        **_said(found, about["lowest"]),
        "small": about["ones"] + about["twos"],
        "chains": len(RATES) * (1 + len(LADDER) + len(OTHER_KEYS) + len(BASES)),
        "replicates": settings["replicates"],
        "own_data": settings["population"] != "towns",
        "baseline": _between(baseline),
        "most": MOST,
        "least_rate": 100 * min(float(rate) for rate in RATES if rate),
        "alone_more": alone_more(found.tables["risk"].filter(**MAIN)),
        "most_lost": max(0.0, -_least(found.tables["risk"].filter(attacker=TOGETHER, odds=9))),
    }


def alone_more(risk: pl.DataFrame) -> float:
    """By how many points one attack alone wins more than all together, where that is most."""
    by = ["rate", "method"]
    together = risk.filter(attacker=TOGETHER).select(*by, together="percent")
    alone = risk.filter(pl.col("attacker") != TOGETHER).join(together, on=by)
    return max(0.0, -_least(alone.with_columns(percent=pl.col("together") - pl.col("percent"))))


def _least(rows: pl.DataFrame) -> float:
    return float(rows["percent"].min())  # type: ignore[arg-type]


def _between(numbers: pl.Series) -> str:
    """The range of some percentages, in words."""
    low, high = (f"{float(n):.1f}".replace("-0.0", "0.0") for n in (numbers.min(), numbers.max()))  # type: ignore[arg-type]
    return f"{low} %" if low == high else f"between {low} and {high} %"


_WAYS = {
    "swapping": "swapping alone",
    "noise": "noise alone",
    "mix": "swapping before the noise",
}
Price = dict[str, Any]


def _said(found: Findings, lowest: str) -> dict[str, Any]:
    """The message of the main chart, the numbers above it, and the findings below it."""
    prices = _priced_risks(found, lowest, "exact")
    highlights = [
        {
            "value": f"{row['error']:.1f}",
            "label": f"people of 100 counted wrongly in {lowest} counts where {_WAYS[by]} brings "
            f"the risk down to {PRICED:.0f}\N{NO-BREAK SPACE}%",
            "unit": _interval(row),
        }
        for by, row in prices.get(PRICED, {}).items()
    ]
    return {
        "highlights": highlights,
        "message": _message_of(found, lowest, "exact"),
        "message_few": _message_of(found, lowest, "few"),
    }


def _priced_risks(found: Findings, lowest: str, claim: str) -> dict[float, dict[str, Price]]:
    prices: dict[float, dict[str, Price]] = {}
    for row in found.tables["prices"].filter(level=lowest, claim=claim).iter_rows(named=True):
        prices.setdefault(row["risk"], {})[row["by"]] = row
    return prices


def _message_of(found: Findings, lowest: str, claim: str) -> str:
    runs = found.tables["price_runs"].filter(level=lowest, claim=claim)
    return message({risk: cheapest(runs.filter(risk=risk)) for risk in RISKS})


def cheapest(runs: pl.DataFrame) -> str:
    """The way whose error is below that of every other, beyond chance; "" if none is shown to be.

    Ways are compared draw by draw: the 95 % interval of their difference must lie below 0. A way
    that does not come down to the risk in every draw is dearer than one that does.
    """
    draws = runs["replicate"].n_unique()
    errors = {
        by: dict(zip(own["replicate"], own["error"], strict=True))
        for (by,), own in runs.group_by("by", maintain_order=True)
    }
    whole = {by: own for by, own in errors.items() if len(own) == draws}
    for by, own in whole.items():
        apart = [
            pl.DataFrame({"from": by, "off": [own[draw] - other[draw] for draw in own]})
            for name, other in whole.items()
            if name != by
        ]
        highs = [interval(rows, ["from"], "off")["high"][0] for rows in apart]
        if highs and all(high is not None and high < 0 for high in highs):
            return str(by)
    return ""


def message(best: dict[float, str]) -> str:
    """What the prices say in one sentence, from the highest risk to the lowest.

    Risks at which no way is shown to cost least end a span, and nothing is said of them.
    """
    spans: list[tuple[str, float, float]] = []
    before = ""
    for risk, by in sorted(best.items(), reverse=True):
        if by and by == before:
            spans[-1] = (by, spans[-1][1], risk)
        elif by:
            spans.append((by, risk, risk))
        before = by
    if not spans:
        return "No way to protect the tables is shown to cost least."
    said = [f"{_span(first, last)} % {_WAYS[by]} costs least" for by, first, last in spans]
    return f"At a risk of {'; at '.join(said)}."


def _span(first: float, last: float) -> str:
    return f"{first:.0f}" if first == last else f"{first:.0f} to {last:.0f}"


def _interval(row: Price) -> str:
    return "" if row["low"] is None else f"({row['low']:.1f} to {row['high']:.1f})"


def swapped() -> pl.Expr:
    """The swap rate in words."""
    return pl.format("{} %", (100 * pl.col("rate")).round().cast(pl.Int64))


def _main_risk(found: Findings, attacker: str = TOGETHER) -> pl.DataFrame:
    return found.tables["risk"].filter(attacker=attacker, **MAIN)


def _trade_off(found: Findings) -> pl.DataFrame:
    """Risk and error of every chain, at each level, with its family and its label."""
    chain = ["rate", "method", "kind", "strength"]
    risk = _main_risk(found).select(*chain, "low", "high", risk="percent")
    cost = found.tables["cost"].select(*chain, "level", error="percent")
    ladder = [keys.name for keys in LADDER]
    swaps, plain = pl.col("rate") > 0, pl.col("method") == AS_COUNTED
    family = (
        pl.when(pl.col("kind") == "topdown")
        .then(pl.lit(TOPDOWN))
        .when(plain)
        .then(pl.lit(SWAPPING))
        .when(swaps)
        .then(pl.lit(MIXED))
        .when(pl.col("kind") == "cell-key")
        .then(pl.lit(KEYS))
        .otherwise(pl.lit(ROUNDING))
    )
    joined = cost.join(risk, on=chain, maintain_order="left").with_columns(family=family)
    # The line of cell keys begins where nothing is done, as that of swapping does.
    start = joined.filter(pl.col("rate") == 0, plain).with_columns(family=pl.lit(KEYS))
    rows = pl.concat([joined, start])
    percent = swapped()
    strength = pl.col("strength").map_elements(lambda n: f"{n:g}", return_dtype=pl.String)
    laddered = pl.col("method").is_in([*ladder, AS_COUNTED])
    first = pl.col("method") == AS_COUNTED
    label = (
        pl.when(first & (pl.col("rate") == 0) & (pl.col("family") == SWAPPING))
        .then(pl.lit("nothing done"))
        .when(pl.col("family") == SWAPPING)
        .then(percent)
        .when((pl.col("family") == KEYS) & laddered & ~first)
        .then(pl.format("V {}", strength))
        .when((pl.col("family") == KEYS) & pl.col("method").is_in(list(NO_SMALL)))
        .then(pl.col("method").replace(NO_SMALL))
        .when(pl.col("family") == ROUNDING)
        .then(pl.format("to {}", strength))
        .when(pl.col("family") == TOPDOWN)
        .then(pl.format("ε {}", strength))
        .when((pl.col("rate") == 0.02) & (pl.col("method") == MIX_NAMED))
        .then(pl.format("2 %, then V {}", strength))
        .otherwise(pl.lit(""))
    )
    swapped_then = pl.format("{} swapped, {}", percent, "method")
    least = sorted(rows.filter(pl.col("family") == TOPDOWN)["strength"].unique())[:2][-1:]
    named = {
        SWAPPING: (pl.col("family") == SWAPPING) & (pl.col("rate") == 0.05),
        KEYS: (pl.col("family") == KEYS) & (pl.col("strength") == 0.5),
        ROUNDING: (pl.col("family") == ROUNDING) & (pl.col("strength") == 10),
        TOPDOWN: (pl.col("family") == TOPDOWN) & pl.col("strength").is_in(least),
        MIXED: (pl.col("rate") == 0.02) & (pl.col("method") == MIX_NAMED),
    }
    name = pl.lit("")
    for words, here in named.items():
        name = pl.when(here).then(pl.lit(words)).otherwise(name)
    near_zero, low = pl.col("risk") < NEAR_ZERO, pl.col("risk") < LOW
    side = (
        pl.when((pl.col("family") == ROUNDING) & near_zero)
        .then(pl.lit("far below"))
        .when((pl.col("family") == TOPDOWN) & near_zero)
        .then(pl.lit("below"))
        .when((pl.col("family") == SWAPPING) & near_zero)
        .then(pl.lit("above"))
        .when((pl.col("family") == KEYS) & (pl.col("strength") > 1) & laddered)
        .then(pl.lit("above"))
        .when((pl.col("family") == ROUNDING) & ~low)
        .then(pl.lit("above"))
        .when(pl.col("family").is_in([SWAPPING, ROUNDING]))
        .then(pl.lit("right"))
        .otherwise(pl.lit("left"))
    )
    return rows.with_columns(
        side=side,
        label=label,
        name=name,
        lined=(pl.col("family") == SWAPPING)
        | ((pl.col("family") == KEYS) & laddered)
        | (pl.col("family") == TOPDOWN),
        chain=pl.when(swaps).then(swapped_then).otherwise("method"),
        strength=pl.when(pl.col("family") == SWAPPING).then("rate").otherwise("strength"),
    )


def _attackers(found: Findings) -> pl.DataFrame:
    """What each attacker wins, by chain; every kind of bet."""
    rows = found.tables["risk"].filter(pl.col("rate").is_in(SHOWN_RATES))
    odds = pl.when(odds=1).then(pl.lit("even odds")).otherwise(pl.lit("nine to one"))
    named = pl.format("{}, {}", pl.col("claim").replace(CLAIM_WORDS), odds)
    return rows.filter(pl.col("kind") != "topdown").with_columns(bet=named, swapped=swapped())


def _groups(found: Findings) -> pl.DataFrame:
    """Errors of each group under chains at some swap rates; names as short as fields need them."""
    rows = found.tables["errors"].filter(
        pl.col("rate").is_in(SHOWN_RATES), ~pl.col("attribute").is_in(["everyone", "every cell"])
    )
    short = pl.col("method").str.replace("variance", "V").str.replace(", no 1 to 2", ", no 1, 2")
    named = rows.with_columns(swapped=swapped(), method=short)
    return named.select("swapped", "method", "level", "attribute", "group", "percent").drop_nulls()


def _levels(found: Findings) -> pl.DataFrame:
    """Errors by level of a few chains that differ in kind and strength."""
    rows = found.tables["cost"]
    shown = {
        "swapping 2 %": (0.02, AS_COUNTED),
        "swapping 10 %": (0.1, AS_COUNTED),
        "cell-key, variance 1": (0.0, LADDER[3].name),
        "cell-key, variance 8": (0.0, LADDER[-1].name),
        "rounding to 3": (0.0, "rounded to 3"),
        "rounding to 10": (0.0, "rounded to 10"),
        "topdown, epsilon 4": (0.0, "TopDown, epsilon 4"),
        "topdown, epsilon 64": (0.0, "TopDown, epsilon 64"),
    }
    parts = [
        rows.filter(rate=rate, method=method).with_columns(chain=pl.lit(name))
        for name, (rate, method) in shown.items()
    ]
    return pl.concat(parts)


def _prices(found: Findings) -> pl.DataFrame:
    about = found.tables["about"].row(0, named=True)
    levels = about["levels"].split(", ")
    shown = [levels[-1], *([levels[1]] if len(levels) > 2 else [])]
    exact, few = pl.col("claim") == "exact", pl.col("claim") == "few"
    rows = found.tables["prices"].filter(
        pl.col("level").is_in(shown) & (exact | (few & (pl.col("level") == levels[-1])))
    )
    percent = (100 * pl.col("rate")).round(1)
    what = (
        pl.when(by="swapping")
        .then(pl.format("swap {} % of households", percent))
        .when(by="noise")
        .then(pl.format("noise of variance {}", pl.col("noise").round(2)))
        .otherwise(
            pl.format("swap {} %, then noise of variance {}", percent, pl.col("noise").round(2))
        )
    )
    return rows.with_columns(
        what=what,
        place=pl.format(
            "Bets on {}: risk of {} %, error of {} counts",
            pl.col("claim").replace(CLAIM_WORDS),
            pl.col("risk").cast(pl.Int64),
            "level",
        ),
    )


def _certain(found: Findings) -> pl.DataFrame:
    rows = found.tables["certain"].filter(
        pl.col("rate").is_in(SHOWN_RATES), pl.col("kind") != "topdown"
    )
    return rows.with_columns(swapped=pl.format("{} swapped", swapped()))


def _slow(found: Findings) -> pl.DataFrame:
    words = {"relations": "one sum at a time", "programs": "all sums at once"}
    words |= {"whole": "whole numbers"}
    chain = pl.format("{} swapped, {}", swapped(), "method")
    return found.tables["slow"].with_columns(effort=pl.col("effort").replace(words), chain=chain)


def _rebuilt(found: Findings) -> pl.DataFrame:
    return found.tables["rebuilt"].with_columns(swapped=swapped())


def _topdown(found: Findings) -> pl.DataFrame:
    """Every attacker's winnings from TopDown, with its errors."""
    about = found.tables["about"].row(0, named=True)
    risk = found.tables["risk"].filter(attacker=TOGETHER, kind="topdown")
    wide = risk.with_columns(bet=pl.format("{}_{}", "claim", "odds")).pivot(
        "bet", index="method", values="percent"
    )
    cost = found.tables["cost"].filter(kind="topdown", level=about["lowest"])
    return wide.join(cost.select("method", error="percent"), on="method", maintain_order="left")


VIEWS = {
    "trade-off": _trade_off,
    "attackers": _attackers,
    "groups": _groups,
    "levels": _levels,
    "prices-table": _prices,
    "certain-table": _certain,
    "slow-table": _slow,
    "rebuilt-table": _rebuilt,
    "topdown": _topdown,
}
CHARTS = {"trade-off": trade_off, "surface": surface}
