"""How the slides' conclusions are measured here; ``published.toml`` has what they say."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isnan

import polars as pl

from headcount.comparison.template import cell
from headcount.evaluation.reidentified import ALL, COMMERCIAL, PERFECT, PROPORTIONAL, TELLING
from headcount_papers.frame.claims import MeasuredClaim, Tables
from headcount_papers.hawes_rodriguez_2021.accuracy import COUNTY, EVERY, RACE_ALONE
from headcount_papers.hawes_rodriguez_2021.crossing import OWN, POINTS
from headcount_papers.hawes_rodriguez_2021.methods import (
    COMPLEMENT,
    HI,
    LIKE_2010,
    MIDDLING,
    TOPDOWN,
    ZCDP,
)
from headcount_papers.hawes_rodriguez_2021.product_2020 import PRODUCT

BELOW = ("tract", "block_group", "block")


def _number(frame: pl.DataFrame, column: str, **where: object) -> float:
    """One number of a table; not a number if it is missing."""
    found = cell(frame, column, **where)
    return float("nan") if found is None else float(found)


def _true(finding: str, holds: bool, *needs: float) -> MeasuredClaim:
    """A statement that is true or not; not known if a number that decides is missing."""
    if any(isnan(number) for number in needs):
        return MeasuredClaim(finding=finding)
    return MeasuredClaim(finding=finding, true=int(holds), of=1)


def _percents(values: Sequence[float]) -> str:
    return " / ".join(f"{value:.1f}" for value in values) + " %"


def _withheld(tables: Tables, table: str, rule: str, levels: Sequence[str]) -> list[float]:
    found = tables["suppression"]
    return [_number(found, "percent", table=table, rule=rule, level=x) for x in levels]


def tables_withheld(tables: Tables, *, table: str, levels: Sequence[str]) -> MeasuredClaim:
    """The least share of tables withheld over some levels."""
    ours = _withheld(tables, table, "table", levels)
    return MeasuredClaim(
        value=_least_known(ours),
        finding=f"{_percents(ours)}{_by_state(tables, table, 'table', levels)}",
    )


def _by_state(tables: Tables, table: str, rule: str, levels: Sequence[str]) -> str:
    """The least and the most withheld in one state, at each level, in words."""
    ends = [
        [_number(tables["suppression"], end, table=table, rule=rule, level=x) for x in levels]
        for end in ("least", "most")
    ]
    if ends[0] == ends[1] or any(isnan(number) for number in ends[0]):
        return ""
    reach = (f"{low:.0f}-{high:.0f}" for low, high in zip(*ends, strict=True))
    return f" (by state {', '.join(reach)} %)"


def tiny_areas(tables: Tables, *, table: str, levels: Sequence[str]) -> MeasuredClaim:
    """Tracts and block groups so small that tables are withheld; not testable without any."""
    found = tables["suppression"].filter(pl.col("level").is_in(levels), table=table, rule="table")
    if not found["withheld"].sum():
        areas = " and ".join(f"{number:,}" for number in found["total"])
        return MeasuredClaim(
            finding="none",
            reason=f"of {areas} tracts and block groups none has so few people: the synthetic "
            "states have no such area",
        )
    ours = _withheld(tables, table, "table", levels)
    return MeasuredClaim(value=_least_known(ours), finding=_percents(ours))


def _least_known(values: Sequence[float]) -> float:
    return float("nan") if any(isnan(one) for one in values) else min(values)


def counties_withheld(tables: Tables) -> MeasuredClaim:
    """The least share of counties whose tables of adults are withheld."""
    ours = [
        *_withheld(tables, "P3", "table", [COUNTY]),
        *_withheld(tables, "P4", "table", [COUNTY]),
    ]
    return MeasuredClaim(value=_least_known(ours), finding=_percents(ours))


def grow_and_fall(tables: Tables, *, table: str) -> MeasuredClaim:
    """Whether cells changed to 0 grow from county to block group, then fall."""
    ours = _withheld(tables, table, "cell", (COUNTY, *BELOW))
    words = _percents(ours) + _by_state(tables, table, "cell", (COUNTY, *BELOW))
    return _true(words, ours[0] <= ours[1] <= ours[2] > ours[3], *ours)


def given_back(tables: Tables) -> MeasuredClaim:
    """Hidden block cells of P1 that other tables give back."""
    back = _number(tables["recovered"], "from_p12_percent", table="P1", level="block")
    words = "no cell was hidden" if isnan(back) else f"{back:.0f} % of hidden block cells of P1"
    return MeasuredClaim(value=back, finding=words)


def complement(tables: Tables) -> MeasuredClaim:
    """Cells of P1 and P2 withheld before and after the complementary step."""

    def cells(table: str, rule: str) -> str:
        found = tables["complement"]
        return _percents(
            [_number(found, "percent", table=table, rule=rule, level=level) for level in BELOW]
        )

    words = (
        f"{cells(table, 'cell')} before, {cells(table, COMPLEMENT)} after" for table in ("P1", "P2")
    )
    return MeasuredClaim(finding="; ".join(words))


def _rate(tables: Tables, method: str, attacker: str, universe: str = TELLING) -> float:
    """Precision in percent."""
    where = {"method": method, "attacker": attacker, "universe": universe}
    return _number(tables["reid"], "precision", **where)


def _interval(tables: Tables, method: str, attacker: str, universe: str = TELLING) -> str:
    """A precision in percent with its interval."""
    where = {"method": method, "attacker": attacker, "universe": universe}
    low, high = (cell(tables["reid"], f"precision_{end}", **where) for end in ("low", "high"))
    reach = "" if low is None or high is None else f" ({low:.1f} to {high:.1f})"
    return f"{_rate(tables, method, attacker, universe):.1f}{reach}"


def precision_falls(
    tables: Tables,
    *,
    attacker: str,
    methods: Sequence[str],
    words: str,
    universe: str = TELLING,
    least: float = -inf,
    most: float = inf,
) -> MeasuredClaim:
    """How many points precision is lower with the second method than with the first.

    ``words`` show both with their intervals; the fall is to be from ``least`` to ``most`` points.
    """
    one, other = (_rate(tables, method, attacker, universe) for method in methods)
    shown = (_interval(tables, method, attacker, universe) for method in methods)
    return _true(words.format(*shown), least <= one - other <= most, one, other)


def above_guess(tables: Tables, *, attacker: str) -> MeasuredClaim:
    """Precision on those hard to guess after HI, beside the guess."""
    hi, guess = (_rate(tables, method, attacker) for method in (HI, PROPORTIONAL))
    words = f"HI {_interval(tables, HI, attacker)}, proportional guess {guess:.1f} %"
    return _true(words, hi - guess > POINTS, hi, guess)


def prevented(tables: Tables, *, method: str) -> MeasuredClaim:
    """Precision of suppression on those hard to guess, beside the guess from the same release."""
    where = {"method": method, "attacker": PERFECT, "universe": TELLING}
    rate, guess = (
        _number(tables["reid"], column, **where) for column in ("precision", "proportional_guess")
    )
    words = f"{rate:.1f} % right, proportional guess {guess:.1f} %"
    return _true(words, rate - guess <= POINTS, rate, guess)


def less_accurate(tables: Tables, *, area: str, statistic: str) -> MeasuredClaim | None:
    """Errors after HI, beside those of TopDown by epsilon; the largest epsilon decides."""
    hi = mean_mae(tables["mae"], HI, area, statistic)
    noisy = _errors_by_epsilon(tables, area, statistic)
    if hi is None or not noisy:
        return None
    words = f"MAE {hi:.1f} people; TopDown {_by_epsilon(noisy)}"
    largest = noisy[max(noisy)]
    return _true(words, hi > largest, largest)


def less_accurate_2020(tables: Tables, *, area: str, statistic: str) -> MeasuredClaim | None:
    """Errors after HI, beside those of the redistricting product of 2020."""
    found = tables["redistricting"].filter(area=area, statistic=statistic)
    if found.is_empty():
        return None
    hi, product = (_number(found, "mae", method=method) for method in (HI, PRODUCT))
    return _true(f"MAE {hi:.1f} people; the product {product:.1f}", hi > product, product)


def middling_swap(tables: Tables) -> MeasuredClaim | None:
    """A middling swap beside TopDown: errors of races at each epsilon, and precision."""
    middle = mean_mae(tables["mae"], MIDDLING, COUNTY, RACE_ALONE)
    noisy = _errors_by_epsilon(tables, COUNTY, RACE_ALONE)
    known = [error for error in noisy.values() if not isnan(error)]
    before, swapped = (_rate(tables, m, COMMERCIAL, ALL) for m in (LIKE_2010, MIDDLING))
    if middle is None or not known:
        return None
    words = (
        f"{MIDDLING}: MAE of race alone {middle:.1f} people, TopDown {_by_epsilon(noisy)}; "
        f"precision {swapped:.1f}, {LIKE_2010} {before:.1f} %"
    )
    if isnan(before) or isnan(swapped):
        return MeasuredClaim(finding=words)
    hinders = before - swapped > POINTS
    matched = sum(middle <= error for error in known)
    return MeasuredClaim(finding=words, true=0 if hinders else matched, of=len(known))


def _errors_by_epsilon(tables: Tables, area: str, statistic: str) -> dict[float, float]:
    """MAE of TopDown (zCDP) at every epsilon, in order; not a number where it is missing."""
    noisy = tables["methods"].filter(kind=TOPDOWN, loss=ZCDP).sort("epsilon")
    errors = (mean_mae(tables["mae"], method, area, statistic) for method in noisy["method"])
    return {
        epsilon: float("nan") if error is None else error
        for epsilon, error in zip(noisy["epsilon"], errors, strict=True)
    }


def _by_epsilon(errors: dict[float, float]) -> str:
    listed = " / ".join("unknown" if isnan(one) else f"{one:.1f}" for one in errors.values())
    return f"{listed} at epsilon {' / '.join(f'{epsilon:g}' for epsilon in errors)}"


def not_measured(_tables: Tables) -> MeasuredClaim:
    """A plan, say."""
    return MeasuredClaim(finding="not tested")


def mean_mae(mae: pl.DataFrame, method: str, area: str, statistic: str) -> float | None:
    """MAE of a statistic over all areas; ``RACE_ALONE`` is the mean over races."""
    found = mae.filter(
        pl.col("statistic").str.starts_with(statistic),
        method=method,
        area=area,
        size_category=EVERY,
    )["mae"]
    return None if found.is_empty() else float(found.to_numpy().mean())


def formal(tables: Tables) -> MeasuredClaim:
    """What the mechanisms promise."""
    methods, topdown = tables["methods"], pl.col("kind") == TOPDOWN
    without = methods.filter(~topdown)["guarantee"].unique().to_list() == ["none"]
    backed = not (methods.filter(topdown)["guarantee"] == "none").any()
    return _true("no loss can be stated; TopDown states its own", without and backed)


def below_heavy_swap(tables: Tables, *, loss: str) -> MeasuredClaim:
    """Precision of TopDown on those hard to guess, beside HI."""
    rates = [_rate(tables, name, PERFECT) for name in _topdown(tables, loss)]
    hi = _rate(tables, HI, PERFECT)
    words = f"{_percents(rates)} by epsilon, HI {hi:.1f} %"
    return _true(words, max(rates) < hi, *rates, hi)


def leaves_guess(tables: Tables, *, loss: str) -> MeasuredClaim:
    """From which epsilon TopDown tells more than the guess."""
    where = {"attacker": PERFECT, "universe": TELLING}
    crossing = cell(tables["crossing"], "words", loss=loss, guess=OWN, **where)
    gaps = [
        _number(tables["reid"], "above_proportional", method=name, **where)
        for name in _topdown(tables, loss)
    ]
    points = ", ".join(f"{gap:+.1f}" for gap in gaps)
    return MeasuredClaim(finding=f"epsilon {crossing}; points above it by epsilon: {points}")


def _topdown(tables: Tables, loss: str) -> list[str]:
    found = tables["methods"].filter(kind=TOPDOWN, loss=loss).sort("epsilon")
    return found["method"].to_list()
