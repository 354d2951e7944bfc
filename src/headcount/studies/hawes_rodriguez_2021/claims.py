"""The slides' conclusions one by one, against this run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

import polars as pl

from headcount.attacks.guesses import PROPORTIONAL
from headcount.evaluate.attackers import COMMERCIAL, PERFECT
from headcount.evaluate.reidentified import ALL, TELLING
from headcount.studies.hawes_rodriguez_2021.accuracy import COUNTY, EVERY, RACE, TOTAL
from headcount.studies.hawes_rodriguez_2021.crossing import OWN, POINTS
from headcount.studies.hawes_rodriguez_2021.methods import (
    COMPLEMENT,
    COMPLEMENTARY,
    HI,
    LO,
    NONE,
    PURE,
    SUPPRESSION,
    TOPDOWN,
    ZCDP,
)
from headcount.studies.hawes_rodriguez_2021.published import OURS, REPORT, SLIDES, first
from headcount.studies.hawes_rodriguez_2021.settings import PLACE

Frames = Mapping[str, pl.DataFrame]
Row = dict[str, object]

MIDDLING = "swapping 25 %"
REPORTED, NOT_KNOWN, NOT_TESTED = "reported", "not known", "not tested"
BELOW = ("tract", "block_group", "block")
WITHIN, APART, MINIMAL = 2.0, 10.0, 10.0
"""Points: LO is like none; HI is below LO on those hard to guess; "only a minimal impact"."""


def claims_table(tables: Frames) -> pl.DataFrame:
    """claim, paper, ours, holds, criterion, source.

    ``holds`` is yes or no; "not known" if a number that decides is missing here; "reported" for
    numbers that nothing was claimed about; "not tested".
    """
    rows = [
        *_suppression_claims(tables),
        *_swapping_claims(tables["reid"]),
        *_accuracy_claims(tables),
        *_formal_claims(tables),
    ]
    return pl.DataFrame(rows)


def _claim(
    claim: str,
    paper: str,
    ours: str,
    holds: bool | str,
    criterion: str,
    source: str = SLIDES,
    *,
    needs: Sequence[float] = (),
) -> Row:
    """A row; ``needs`` are the numbers that decide, so that a missing one is not taken for no."""
    verdict = holds if isinstance(holds, str) else "yes" if holds else "no"
    if any(isnan(number) for number in needs):
        verdict = NOT_KNOWN
    return {
        "claim": claim,
        "paper": paper,
        "ours": ours,
        "holds": verdict,
        "criterion": criterion,
        "source": source,
    }


def _suppression_claims(tables: Frames) -> list[Row]:
    found = tables["suppression"]

    def shares(table: str, rule: str, levels: tuple[str, ...]) -> list[float]:
        values = [first(found, "percent", table=table, rule=rule, level=x) for x in levels]
        return [value if value is not None else float("nan") for value in values]

    rows = []
    for table, least, paper in (("P3", 83.8, "84.3 / 95.7 / 83.8 %"),
                                ("P4", 87.7, "99.7 / 100.0 / 87.7 %")):  # fmt: skip
        ours = shares(table, "table", BELOW)
        rows.append(
            _claim(f"{table} would be withheld for most tracts, block groups and blocks", paper,
                   _listed(ours), min(ours) >= least, f"each at least {least} %", needs=ours)
        )  # fmt: skip
    for table, least in (("SF1_person", 38.7), ("SF1_housing", 32.8)):
        (ours_block,) = shares(table, "table", ("block",))
        kind = "person" if table == "SF1_person" else "housing"
        rows.append(
            _claim(f"Other {kind} tables would be withheld for many blocks", f"{least} %",
                   f"{ours_block:.1f} %", ours_block >= least, f"at least {least} %",
                   needs=[ours_block])
        )  # fmt: skip
    upper = shares("SF1_person", "table", BELOW[:2])
    rows.append(
        _claim("Some tracts and block groups would lose their other person tables too",
               "0.2 / 0.1 %", _listed(upper), min(upper) > 0, "more than none of either",
               needs=upper)
    )  # fmt: skip
    counties = [*shares("P3", "table", (COUNTY,)), *shares("P4", "table", (COUNTY,))]
    rows.append(
        _claim("Extreme amounts of table suppression even for counties (P3, P4)", "51.2 / 84.2 %",
               _listed(counties), min(counties) >= 50, "at least half of the counties",
               needs=counties)
    )  # fmt: skip
    for table, paper in (("P1", "2.4 / 5.5 / 10.1 / 8.1 %"), ("P2", "6.8 / 10.8 / 14.5 / 5.8 %")):
        ours = shares(table, "cell", (COUNTY, *BELOW))
        rising = ours[0] <= ours[1] <= ours[2]
        rows.append(
            _claim(f"{table}: cells changed to 0 grow from county to block group, then fall", paper,
                   _listed(ours), rising and ours[3] < ours[2], "in this order", needs=ours)
        )  # fmt: skip
    back = first(tables["recovered"], "from_p12_percent", table="P1", level="block")
    said = "no cell was hidden" if back is None else f"{back:.0f} % of hidden block cells of P1"
    rows.append(
        _claim("Complementary suppression would be needed: other tables give hidden counts back",
               "not counted", said, NOT_KNOWN if back is None else back > 0,
               "any hidden cell follows from P12A to P12I")
    )  # fmt: skip
    first_only = shares("P1", "cell", BELOW), shares("P2", "cell", BELOW)
    in_all = shares("P1", COMPLEMENT, BELOW), shares("P2", COMPLEMENT, BELOW)
    rows.append(
        _claim("What the complementary step withholds besides (P1; P2: tract, block group, block)",
               "not counted",
               "; ".join(f"{_listed(few)} before, {_listed(many)} after"
                         for few, many in zip(first_only, in_all, strict=True)),
               REPORTED, "cells of P1 and P2 withheld", OURS)
    )  # fmt: skip
    return rows


def _listed(values: list[float]) -> str:
    return " / ".join(f"{value:.1f}" for value in values) + " %"


def _precision(reid: pl.DataFrame, method: str, attacker: str, universe: str) -> float:
    """In percent."""
    value = first(reid, "precision", method=method, attacker=attacker, universe=universe)
    return float("nan") if value is None else value


def _told(reid: pl.DataFrame, method: str, attacker: str, universe: str) -> str:
    """A precision in percent with its interval."""
    where = {"method": method, "attacker": attacker, "universe": universe}
    low, high = first(reid, "precision_low", **where), first(reid, "precision_high", **where)
    reach = "" if low is None or high is None else f" ({low:.1f} to {high:.1f})"
    return f"{_precision(reid, method, attacker, universe):.1f}{reach}"


def _swapping_claims(reid: pl.DataFrame) -> list[Row]:
    rows = []
    for attacker, universe, paper, source in (
        (COMMERCIAL, ALL, "37.79, LO 37.23 %", SLIDES),
        (PERFECT, ALL, "77.9, LO 78.0 %", REPORT),
        (COMMERCIAL, TELLING, "95.4, LO 98.2 %", REPORT),
        (PERFECT, TELLING, "95.2, LO 97.4 %", REPORT),
    ):
        none, lo = (_precision(reid, m, attacker, universe) for m in (NONE, LO))
        told, swapped = (_told(reid, m, attacker, universe) for m in (NONE, LO))
        rows.append(
            _claim(f"Low swap rates have essentially no impact ({attacker} attacker, {universe})",
                   paper, f"{told}, LO {swapped} %", abs(none - lo) <= WITHIN,
                   f"precision within {WITHIN:g} points of none", source, needs=[none, lo])
        )  # fmt: skip
    for attacker, paper, drop, source in (
        (COMMERCIAL, "37.79, HI 30.37 %", 7.4, SLIDES),
        (PERFECT, "77.9, HI 67.6 %", 10.3, REPORT),
    ):
        none, hi = (_precision(reid, m, attacker, ALL) for m in (NONE, HI))
        told, swapped = (_told(reid, m, attacker, ALL) for m in (NONE, HI))
        rows.append(
            _claim(f"High swap rates have only a minimal impact ({attacker} attacker, {ALL})",
                   paper, f"{told}, HI {swapped} %", none - hi <= MINIMAL,
                   f"precision at most {MINIMAL:g} points below none (published: {drop:g})",
                   source, needs=[none, hi])
        )  # fmt: skip
    for attacker, paper in ((COMMERCIAL, "98.2, HI 76.4 %"), (PERFECT, "97.4, HI 77.9 %")):
        lo, hi, guess = (_precision(reid, m, attacker, TELLING) for m in (LO, HI, PROPORTIONAL))
        light, heavy = (_told(reid, m, attacker, TELLING) for m in (LO, HI))
        rows.append(
            _claim(f"HI protects those who are hard to guess better than LO ({attacker} attacker)",
                   f"LO {paper}", f"LO {light}, HI {heavy} %", lo - hi >= APART,
                   f"{TELLING}: HI at least {APART:g} points below LO", REPORT, needs=[lo, hi])
        )  # fmt: skip
        rows.append(
            _claim("Even high swap rates leave re-identification far above guessing "
                   f"({attacker} attacker)",
                   f"HI {paper.split('HI ')[1]}, guess 20 to 21 %",
                   f"HI {heavy}, proportional guess {guess:.1f} %", hi - guess > POINTS,
                   f"{TELLING}: HI more than {POINTS:g} points above the guess", REPORT,
                   needs=[hi, guess])
        )  # fmt: skip
    for method, asked in ((SUPPRESSION, "do the rules of 1980?"),
                          (COMPLEMENTARY, "does the complementary step?")):  # fmt: skip
        where = {"method": method, "attacker": PERFECT, "universe": TELLING}
        rate, guess = (
            number if (number := first(reid, column, **where)) is not None else float("nan")
            for column in ("precision", "proportional_guess")
        )
        rows.append(
            _claim(f"Enough suppression can prevent the attack: {asked}", "no rate given",
                   f"{rate:.1f} % right, proportional guess {guess:.1f} %", rate - guess <= POINTS,
                   f"{TELLING}, perfect attacker: within {POINTS:g} points of the guess from the "
                   "same release", needs=[rate, guess])
        )  # fmt: skip
    return rows


def _accuracy_claims(tables: Frames) -> list[Row]:
    mae, reid = tables["mae"], tables["reid"]
    noisy = tables["methods"].filter(kind=TOPDOWN, loss=ZCDP).sort("epsilon")
    best, tried = noisy["method"][-1], " / ".join(f"{e:g}" for e in noisy["epsilon"])
    rows = []
    for area, what in ((COUNTY, TOTAL), (PLACE, TOTAL), (COUNTY, RACE)):
        hi = mean_mae(mae, HI, area, what)
        off = [
            one
            for method in noisy["method"]
            if (one := mean_mae(mae, method, area, what)) is not None
        ]
        if hi is None or not off:
            continue
        listed = " / ".join(f"{one:.1f}" for one in off)
        name = "mean of race groups" if what == RACE else what
        rows.append(
            _claim(f"HI is less accurate than TopDown: {area}, {name}", "worse than PPMF of 4/28",
                   f"MAE {hi:.1f} people; TopDown {listed} at epsilon {tried}",
                   hi > off[-1],
                   f"larger mean absolute error than {best}")
        )  # fmt: skip
    middle, td = (mean_mae(mae, method, COUNTY, RACE) for method in (MIDDLING, best))
    none, swapped = (_precision(reid, m, COMMERCIAL, ALL) for m in (NONE, MIDDLING))
    if middle is not None and td is not None:
        rows.append(
            _claim("Middling swap rates may match TopDown in accuracy but hardly hinder the attack",
                   "no numbers",
                   f"{MIDDLING}: race MAE {middle:.1f}, {best} {td:.1f} people; precision "
                   f"{swapped:.1f}, none {none:.1f} %",
                   middle <= td and none - swapped <= POINTS,
                   "race MAE of counties at most TopDown's, and precision (all people, "
                   f"{COMMERCIAL} attacker) at most {POINTS:g} points below none",
                   needs=[none, swapped])
        )  # fmt: skip
    return rows


def mean_mae(mae: pl.DataFrame, method: str, area: str, statistic: str) -> float | None:
    """MAE of a statistic over all areas; ``RACE`` is the mean over race groups."""
    found = mae.filter(
        pl.col("statistic").str.starts_with(statistic),
        method=method, area=area, size_category=EVERY,
    )["mae"]  # fmt: skip
    return None if found.is_empty() else float(found.to_numpy().mean())


def _formal_claims(tables: Frames) -> list[Row]:
    methods, reid = tables["methods"], tables["reid"]
    topdown = pl.col("kind") == TOPDOWN
    bare = methods.filter(~topdown)["guarantee"].unique().to_list() == ["none"]
    backed = not (methods.filter(topdown)["guarantee"] == "none").any()
    rows = [
        _claim("Neither suppression nor swapping adheres to a formal definition of privacy",
               "none of the algorithms", "no loss can be stated; TopDown states its own",
               bare and backed, "what each mechanism itself promises")
    ]  # fmt: skip
    for loss in (PURE, ZCDP):
        names = methods.filter(kind=TOPDOWN, loss=loss).sort("epsilon")["method"].to_list()
        rates = [_precision(reid, name, PERFECT, TELLING) for name in names]
        hi = _precision(reid, HI, PERFECT, TELLING)
        rows.append(
            _claim(f"TopDown ({loss}) is below HI on those who are hard to guess",
                   "21.8, HI 77.9 %",
                   _listed(rates) + f" by epsilon, HI {hi:.1f} %", max(rates) < hi,
                   f"{TELLING}, perfect attacker: every epsilon below HI", REPORT,
                   needs=[*rates, hi])
        )  # fmt: skip
        crossing = tables["crossing"].filter(
            loss=loss, attacker=PERFECT, universe=TELLING, guess=OWN
        )["words"][0]
        gaps = [
            gap if (gap := first(reid, "above_proportional", method=name, attacker=PERFECT,
                                       universe=TELLING)) is not None else float("nan")
            for name in names
        ]  # fmt: skip
        points = ", ".join(f"{gap:+.1f}" for gap in gaps)
        rows.append(
            _claim(f"Epsilon at which TopDown ({loss}) leaves the proportional guess",
                   "not asked", f"epsilon {crossing}; points above it by epsilon: {points}",
                   REPORTED, f"{TELLING}, perfect attacker: {POINTS:g} points above", OURS)
        )  # fmt: skip
    rows.append(
        _claim("Either alternative would take six months more to produce", "6 months", NOT_TESTED,
               NOT_TESTED, "a plan, not a measurement")
    )  # fmt: skip
    return rows
