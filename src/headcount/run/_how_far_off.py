"""How far off the counts of a release are, by its receipt alone: beside how many they count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from math import isfinite, sqrt
from typing import Any

from headcount.noise import DiscreteGaussian, Law, TwoSidedGeometric
from headcount.noise.laws import reach
from headcount.release import CountsRelease, TablesRelease
from headcount.release.store import RECEIPT, Stored
from headcount.report.model import Block, Column, Prose, Table
from headcount.tabulate import CELLS
from headcount.topdown.rerun import settings_from_json

FINE, ROUGH = 0.1, 0.5
"""Errors up to these parts of a count leave it usable alone, or with care."""
NORMAL = 1.96
"""Standard deviations within which 19 of 20 sums of many draws are."""


@dataclass(frozen=True)
class _Off:
    """How far off counts of a level are, beside how many they count.

    where
        size    how many it counts, on average, as published
        within  19 of 20 are no further from the truth, by the noise alone
    """

    level: str
    query: str
    size: float
    within: float


def finest_total(one: Stored) -> _Off | None:
    """The finest total that something is known of."""
    totals = [error for error in _errors(one) if error.query == "total"]
    return totals[-1] if totals else None


def _errors(one: Stored) -> list[_Off]:
    """What the design or the receipt knows of errors; nothing where no noise is measured."""
    release, geography = one.release, one.release.geography
    if not isinstance(release, CountsRelease) or not one.receipt["measurements"]:
        return []
    whole = float(release.table(geography.levels[0]).sum())
    said, along = one.receipt.get("settings"), "measured" in one.receipt["geography"]
    known = _by_receipt(one) if said is None or along else _by_design(one, said)
    return [
        _Off(level, query, whole / (geography.size(level) * answers), within)
        for level, query, answers, within in known
        if isfinite(within)
    ]


def _by_design(one: Stored, said: Mapping[str, Any]) -> Iterator[tuple[str, str, int, float]]:
    """Level, query, answers in a unit and reach of the best linear estimates of topdown."""
    method = settings_from_json(said, source=RECEIPT)
    for error in method.on(one.release.domain).expected_errors():
        yield error.level, error.query, error.answers, error.within


def _by_receipt(one: Stored) -> Iterator[tuple[str, str, int, float]]:
    """The same of each answer by itself, from the laws in the receipt.

    Under ``geometric`` every other count is a sum of cells with noise of their own.
    """
    receipt, geography = one.receipt, one.release.geography
    weight = float(one.release.as_counts().weight)
    places = receipt["geography"].get("measured", receipt["geography"]["published"])["units"]
    for law in receipt["measurements"]:
        level, units = law["level"], places[law["level"]]
        if level not in geography.levels or law["counts"] < units:
            continue  # places of a spine alone; a distance, which is no count of people
        deviation = weight * sqrt(float(law["variance"]) / law["draws"])
        cells = law["counts"] // units
        if receipt["mechanism"].startswith("Geometric("):
            for above in geography.levels:
                parts = law["counts"] / geography.size(above)
                yield above, "total", 1, NORMAL * deviation * sqrt(parts)
        exact = _law(law) if law["draws"] == 1 else None
        yield level, law["query"], cells, weight * reach(exact) if exact else NORMAL * deviation


def _law(said: Mapping[str, Any]) -> Law | None:
    """The law of a measurement in a receipt; None of a law that is not ours."""
    kinds = {one.name: one for one in (TwoSidedGeometric, DiscreteGaussian)}
    kind = kinds.get(said["noise"])
    if kind is None:
        return None
    return kind(*(Fraction(said[field.name]) for field in fields(kind)))


def how_far_off(one: Stored, mark: str) -> tuple[Block, ...]:
    """Expected errors beside what is counted; of tables what their rules say."""
    release = one.release
    if isinstance(release, TablesRelease):
        return (Prose(_tables_off(release)),)
    errors = _errors(one)
    if not errors:
        return (
            Prose(
                "Nothing that is published says how far off counts are: the records themselves "
                "were changed, or nothing was. Only a comparison with the true counts could tell, "
                "which is the curator's."
            ),
        )
    levels = release.geography.levels
    errors.sort(key=lambda one: (levels.index(one.level), one.query != "total"))
    counted = str(release.counted)
    below = sum(each["negative"] for each in one.receipt.get("negative_counts", {}).values())
    negative = (
        f" {below:,} published counts are below 0: they are part of the noise, and setting them to "
        f"0 one by one would add {counted} who are not there."
        if below
        else ""
    )
    return (
        Table(
            name=f"errors{mark}",
            caption="**How far off counts are**, beside how many they count.",
            columns=(
                Column(key="query", label="Counts by"),
                Column(key="size", label="Counts about", unit=counted, format=",.12g"),
                Column(
                    key="within",
                    label="Off by at most",
                    unit=f"{counted}, 19 of 20",
                    format=",.12g",
                ),
                Column(key="use", label="Usable alone", shows="verdict"),
            ),
            rows=tuple(
                (
                    "every cell" if one.query == CELLS else one.query,
                    _short(one.size),
                    _short(one.within),
                    _use(one),
                )
                for one in errors
            ),
            groups=tuple(
                f"The whole ({one.level})" if one.level == levels[0] else f"Each {one.level}"
                for one in errors
            ),
            notes=f"From the settings of the noise{_before(one)}{_besides(one)}; nothing here was "
            "computed from the truth. *Counts about*: the mean of what is published. *Usable "
            f"alone*: yes where errors are {FINE:.0%} of the count or less, depends up to "
            f"{ROUGH:.0%}, no beyond. Sums over many places are surer than each of them.{negative}",
        ),
    )


def _before(one: Stored) -> str:
    """What was done to counts after the noise, of which these errors know nothing."""
    if "settings" not in one.receipt:
        return ""
    return (
        ", before counts were made whole and consistent. That brings small counts nearer to the "
        "truth on average, and makes small places too large and large ones too small"
    )


def _besides(one: Stored) -> str:
    """Words for a chain, whose steps err too."""
    return ". What earlier steps change comes on top of it" if "steps" in one.receipt else ""


def _short(number: float) -> float:
    """Three digits: more would say more than is known."""
    return float(f"{number:.3g}")


def _use(one: _Off) -> str:
    """Whether a single count of this kind says anything, by its error beside its size."""
    part = one.within / one.size if one.size > 0 else float("inf")
    return "yes" if part <= FINE else "depends" if part <= ROUGH else "no"


def _tables_off(release: TablesRelease) -> str:
    """What is withheld, or by what rules counts are changed."""
    lines = [] if not release.changed else list(getattr(release.rules, "words", ()))
    for one in release.published:
        gone = int(one.withheld.sum())
        said = f"Table {one.name}, {one.level}: {one.value.size:,} counts"
        if gone:
            said += f", {gone:,} of them withheld"
        if one.off is not None and (one.off.down is not None or one.off.up is not None):
            ends = [
                f"{number:,} {word}"
                for number, word in ((one.off.down, "lower"), (one.off.up, "higher"))
                if number is not None
            ]
            said += f"; the true count is at most {' or '.join(ends)}"
        elif not release.changed:
            hidden = f" (a 0 may stand for up to {one.zero_hides:,})" if one.zero_hides else ""
            said += f"; those that are published are exact{hidden}"
        lines.append(f"{said}.")
    return "\n".join(f"- {line}" for line in lines)
