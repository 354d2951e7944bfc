"""The whole study: from people in dwellings to tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
import polars as pl

from headcount.comparison.cache import source_digest
from headcount.comparison.cases import labelled, score_cases
from headcount.comparison.study import Findings, Work
from headcount.evaluation.tally import mean_errors
from headcount.tabulate import Tabulated
from headcount_papers.frame.claims import verdicts
from headcount_papers.swapping_and_cell_keys.bets import CLAIMS
from headcount_papers.swapping_and_cell_keys.chains import PeopleOf, chains, topdown, ways
from headcount_papers.swapping_and_cell_keys.measures import TOGETHER, measures
from headcount_papers.swapping_and_cell_keys.settings import RATES, Settings
from headcount_papers.swapping_and_cell_keys.slow import is_slow, rebuilt_frame, slow_frame
from headcount_papers.swapping_and_cell_keys.surface import Surface, contour
from headcount_papers.swapping_and_cell_keys.targets import BetTargets

CHAIN = ("rate", "method", "kind", "strength")
RISKS = (50.0, 25.0, 10.0, 5.0)
"""Risks that are priced and drawn as contour lines."""
ERRORS = (2.0, 4.0, 8.0)
"""Errors of the smallest places, in percent, that are drawn as contour lines."""
CONFIDENCE = 0.95


def run(settings: Settings, work: Work) -> Findings:
    """Swap, publish, attack and measure every chain; judge what is said of them.

    where
        chains     every chain and TopDown: parameters
        bets       how the bets of each attacker end, by chain and replicate
        risk       the same as means with intervals
        certain    small counts that are stated for certain, and how many of them rightly
        cost       errors by level, each kind of people once
        errors     errors by level, attribute and group
        surface    risk and error by swap rate and noise
        contours   lines of equal risk and of equal error on it
        prices     what a given risk costs by swapping, by noise and by the mix, for each claim
        slow       what slower attacks find of some small counts
        rebuilt    people rebuilt from the tables
        claims     what is said of all that, and whether it holds
    """
    data = Tabulated.of(settings.protected)
    methods = ways(settings.tables)
    published = methods[1].method.on(data.counts.domain).tables
    targets = BetTargets(counts=data.counts, tables=published, seed=settings.seed)
    people = PeopleOf(settings, data)
    about: dict[str, Any] = {
        "data": people,
        "seed": settings.seed,
        "work": work,
        # Chains name their mechanisms; what measures them does not import these.
        "inputs": f"{data.digest.hex()} {settings.stands_out} {settings.swapped_within!r} "
        f"{source_digest(chains.__module__)}",
        "made_by": measures.__module__,
    }
    every = chains(settings)
    made = score_cases(every, measures(targets), what="Chains", **about)
    beside = score_cases(
        topdown(settings), measures(targets), what="TopDown", **{**about, "data": data}
    )
    found = {name: pl.concat([made[name], beside[name]]) for name in made}
    slow = score_cases(
        [case for case in every if is_slow(case)],
        {
            "slow": lambda one: slow_frame(one, targets, counts=settings.slow),
            "rebuilt": lambda one: rebuilt_frame(one, targets, units=settings.slow),
        },
        what="Slow attacks",
        **{
            **about,
            "inputs": f"{about['inputs']} {settings.slow}",
            "made_by": slow_frame.__module__,
        },
    )
    tables = _tables(found, targets, [(way.name, way.strength) for way in methods if way.ladder])
    tables |= {**slow, "about": _about(data, targets, settings)}
    tables |= verdicts(
        __package__, tables, judged=settings.population is None, examined=settings.usual
    )
    confidential = not settings.protected.public
    return Findings(settings=settings, tables=tables, confidential=confidential)


def _tables(
    found: dict[str, pl.DataFrame], targets: BetTargets, ladder: Sequence[tuple[str, float]]
) -> dict[str, pl.DataFrame]:
    by_claim = {claim: dict(_surfaces(found, targets, ladder, claim)) for claim in CLAIMS}
    surfaces = by_claim["exact"]
    price_runs = pl.concat(
        labelled(_price_runs(own), {"claim": claim}) for claim, own in by_claim.items()
    )
    return {
        "chains": found["cost"].select(CHAIN).unique(maintain_order=True),
        "bets": found["bets"],
        "risk": interval(found["bets"], [*CHAIN, "attacker", "claim", "odds"], "percent"),
        "certain": _certain(found["certain"]),
        "cost": interval(found["cost"], [*CHAIN, "level"], "percent", also=_OF_COST),
        "errors": _errors(found["errors"]),
        "surface": _surface_table(surfaces, ladder, targets.lowest),
        "contours": _contours(surfaces, targets.lowest),
        "price_runs": price_runs,
        "prices": _prices(price_runs, targets.levels),
    }


_OF_COST = ("counts", "counted", "mean_error", "largest", "false_zeros", "false_nonzeros")


def interval(
    rows: pl.DataFrame, by: Sequence[str], value: str, *, also: Sequence[str] = ()
) -> pl.DataFrame:
    """Means over replicates with the interval that Student's t gives, of what chance alone does.

    mean -+ t sd / sqrt(n), not below 0 where no draw is, where t is the quantile for n - 1 degrees
    of freedom. One replicate has none.
    """
    made = rows.group_by(by, maintain_order=True).agg(
        replicates=pl.len(),
        mean=pl.col(value).mean(),
        sd=pl.col(value).std(),
        least=pl.col(value).min(),
        **{name: pl.col(name).mean() for name in also},
    )
    half = pl.col("sd") * pl.col("replicates").map_elements(_reach, return_dtype=pl.Float64)
    return (
        made.with_columns(low=pl.col("mean") - half, high=pl.col("mean") + half)
        .with_columns(pl.when(pl.col("least") < 0).then("low").otherwise(_not_below_0("low")))
        .drop("sd", "least")
        .rename({"mean": value})
    )


def _not_below_0(name: str) -> pl.Expr:
    return pl.col(name).clip(lower_bound=0)


def _reach(replicates: int) -> float | None:
    from scipy.stats import t

    if replicates < 2:
        return None
    return float(t.ppf((1 + CONFIDENCE) / 2, replicates - 1) / sqrt(replicates))


def _certain(rows: pl.DataFrame) -> pl.DataFrame:
    claimed = pl.col("claimed").sum()
    wrong = pl.when(claimed > 0).then(100 * pl.col("wrong").sum() / claimed)
    more = rows.group_by(CHAIN, maintain_order=True).agg(wrong_percent=wrong)
    means = interval(rows, CHAIN, "right_percent", also=("small", "claimed", "right", "wrong"))
    return means.join(more, on=CHAIN, maintain_order="left")


def _errors(rows: pl.DataFrame) -> pl.DataFrame:
    by = [*CHAIN, "level", "attribute", "group"]
    means = mean_errors()
    named = rows.with_columns(
        percent=means["percent"], mean_error=means["error"], bias_percent=means["bias_percent"]
    )
    also = ("counts", "people", "mean_error", "bias_percent", "lost_people")
    return interval(named, by, "percent", also=also)


def _surfaces(
    found: dict[str, pl.DataFrame],
    targets: BetTargets,
    ladder: Sequence[tuple[str, float]],
    claim: str,
) -> Any:
    """The surface of each replicate, with the risk of bets on this claim."""
    risk = found["bets"].filter(attacker=TOGETHER, claim=claim, odds=1)
    rates = tuple(map(float, RATES))

    def grid(rows: pl.DataFrame) -> Any:
        known = {(rate, name): value for rate, name, value in rows.iter_rows()}
        return np.array([[known[rate, name] for name, _ in ladder] for rate in rates])

    for (replicate,), own in risk.group_by("replicate", maintain_order=True):
        cost = found["cost"].filter(replicate=replicate)
        yield (
            replicate,
            Surface(
                rates=rates,
                noise=tuple(strength for _, strength in ladder),
                risk=grid(own.select("rate", "method", "percent")),
                errors={
                    level: grid(cost.filter(level=level).select("rate", "method", "percent"))
                    for level in targets.levels
                },
            ),
        )


def _surface_table(
    surfaces: dict[int, Surface], ladder: Sequence[tuple[str, float]], lowest: str
) -> pl.DataFrame:
    rows = [
        {
            "rate": rate,
            "x": x,
            "method": name,
            "noise": noise,
            "y": y,
            "replicate": replicate,
            "risk": float(one.risk[x, y]),
            "error": float(one.errors[lowest][x, y]),
        }
        for replicate, one in surfaces.items()
        for x, rate in enumerate(one.rates)
        for y, (name, noise) in enumerate(ladder)
    ]
    by = ["rate", "x", "method", "noise", "y"]
    frame = pl.DataFrame(rows)
    errors = frame.group_by(by, maintain_order=True).agg(pl.col("error").mean())
    return interval(frame, by, "risk").join(errors, on=by, maintain_order="left")


def _contours(surfaces: dict[int, Surface], lowest: str) -> pl.DataFrame:
    """Lines on the mean of all replicates."""
    grids = {
        "risk": (np.mean([one.risk for one in surfaces.values()], axis=0), RISKS),
        "error": (np.mean([one.errors[lowest] for one in surfaces.values()], axis=0), ERRORS),
    }
    rows = [
        {"of": of, "value": level, "x": x, "y": y}
        for of, (grid, levels) in grids.items()
        for level in levels
        for x, y in contour(grid, level)
    ]
    schema = {"of": pl.String, "value": pl.Float64, "x": pl.Float64, "y": pl.Float64}
    return pl.DataFrame(rows, schema=schema)


def _price_runs(surfaces: dict[int, Surface]) -> pl.DataFrame:
    """Prices of each replicate; of mixes that with the least error at each level."""
    levels = list(next(iter(surfaces.values())).errors)
    schema = {
        "replicate": pl.Int64,
        "risk": pl.Float64,
        "level": pl.String,
        "by": pl.String,
        "rate": pl.Float64,
        "noise": pl.Float64,
        "error": pl.Float64,
    }
    rows = []
    for replicate, one in surfaces.items():
        for risk in RISKS:
            prices = list(one.prices(risk))
            for level in levels:
                for by in ("swapping", "noise", "mix"):
                    own = [price for price in prices if price["by"] == by]
                    if own:
                        best = min(own, key=lambda price: price[level])
                        named = {name: best[name] for name in ("by", "rate", "noise")}
                        place = {"replicate": replicate, "risk": risk, "level": level}
                        rows.append({**place, **named, "error": best[level]})
    return pl.DataFrame(rows, schema=schema)


def _prices(runs: pl.DataFrame, levels: Sequence[str]) -> pl.DataFrame:
    by = ["claim", "risk", "level", "by"]
    return interval(runs, by, "error", also=("rate", "noise")).filter(pl.col("level").is_in(levels))


def _about(data: Tabulated, targets: BetTargets, settings: Settings) -> pl.DataFrame:
    truth, geography = targets.truth, data.counts.geography
    return pl.DataFrame(
        [
            {
                "people": int(data.counts.totals().sum()),
                "levels": ", ".join(targets.levels),
                "lowest": targets.lowest,
                "places": geography.size(targets.lowest),
                "kinds": truth.shape[1],
                "counts": truth.size,
                "ones": int((truth == 1).sum()),
                "twos": int((truth == 2).sum()),
                "within": settings.swapped_within,
                "stands_out": ", ".join(settings.stands_out),
            }
        ]
    )
