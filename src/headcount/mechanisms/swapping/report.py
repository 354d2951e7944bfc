"""What a swap did: how many moved, how far, and which counts it left as they were."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.files import write_bytes_atomic, write_text_atomic
from headcount.mechanisms.swapping.keys import combined, household_values
from headcount.mechanisms.swapping.risk import DwellingRisk, at_risk_by_level
from headcount.population.dwellings import VACANT, Households

REPORT = "swap-report.json"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """In how many units of a level a count changed; 0 is an invariant."""

    count: str
    level: str
    changed: int
    units: int


@dataclass(frozen=True, kw_only=True)
class AtRisk:
    """Households with a member in a group of fewer than k, and uniques (a group of one).

    where
        by_level     by the coarsest level at which they are at risk
        swapped      of all of them; the others are ``left``: beyond the rate, or unpaired
        moved_out    swapped, and out of the coarsest unit in which they are at risk
    """

    k: int
    by_level: Mapping[str, int]
    swapped: int
    moved_out: int
    left: int
    uniques: int
    uniques_swapped: int


@dataclass(frozen=True, kw_only=True)
class SwapReport:
    """The account of one swap. Computed from the truth: it belongs to the curator.

    where
        households       households that could be asked to move: neither vacant nor group quarters
        asked            households that the rate asks for; pairs, so an even number
        swapped          households that moved
        rate             swapped / households
        unpaired         selected, but nobody to swap with was found; they stay where they are
        partners         pairs by the finest level whose unit they share
        stayed           vacant dwellings and group quarters, which never move
        kept             counts left unchanged, or in how many units they changed
    """

    mechanism: str
    households: int
    asked_rate: str
    asked: int
    swapped: int
    rate: float
    unpaired: int
    partners: Mapping[str, int]
    stayed: Mapping[str, int]
    at_risk: AtRisk | None
    kept: tuple[Kept, ...]

    @property
    def short(self) -> int:
        """Households that the rate asked for and that did not move."""
        return max(self.asked - self.swapped, 0)

    def share_within(self, level: str, *, levels: Sequence[str]) -> float:
        """The share of pairs that stayed within a unit of a level."""
        finer = levels[levels.index(level) :]
        pairs = sum(self.partners.values())
        return sum(self.partners.get(one, 0) for one in finer) / pairs if pairs else 0.0


@dataclass(frozen=True, eq=False)
class Swapped:
    """Households after a swap.

    where
        households    the same dwellings in their new places
        partner       for each dwelling the one it changed places with, -1 for none
        report        what happened
    """

    households: Households
    partner: Ints
    report: SwapReport


def make_report(
    before: Households,
    partner: Ints,
    *,
    mechanism: str,
    rate: Fraction,
    asked: int,
    unpaired: int,
    keys: Sequence[Sequence[str]],
    standing: DwellingRisk | None = None,
    k: int = 0,
) -> SwapReport:
    """Count what a swap did; ``keys`` are combinations of household values to look at."""
    is_household = before.is_household
    total, moved = int(is_household.sum()), partner >= 0
    swapped = int(np.count_nonzero(moved))
    vacant = int(np.count_nonzero(before.kind == VACANT))
    return SwapReport(
        mechanism=mechanism,
        households=total,
        asked_rate=str(rate),
        asked=asked,
        swapped=swapped,
        rate=swapped / total if total else 0.0,
        unpaired=unpaired,
        partners=partners_by_level(before, partner),
        stayed={"vacant": vacant, "group quarters": len(partner) - total - vacant},
        at_risk=None if standing is None else _at_risk(before, standing, partner, k),
        kept=changed_counts(before, partner, keys=keys),
    )


def _at_risk(before: Households, standing: DwellingRisk, partner: Ints, k: int) -> AtRisk:
    is_household, moved = before.is_household, partner >= 0
    risky = is_household & (standing.depth < len(before.geography.levels))
    unique = is_household & standing.unique
    return AtRisk(
        k=k,
        by_level=at_risk_by_level(standing, before.geography.levels, is_household),
        swapped=int(np.count_nonzero(risky & moved)),
        moved_out=_moved_out(before, standing, partner),
        left=int(np.count_nonzero(risky & ~moved)),
        uniques=int(np.count_nonzero(unique)),
        uniques_swapped=int(np.count_nonzero(unique & moved)),
    )


def _moved_out(before: Households, standing: DwellingRisk, partner: Ints) -> int:
    moved = np.flatnonzero(partner >= 0)
    new, old = before.block[partner[moved]], before.block[moved]
    out = 0
    for depth in standing.depths:
        unit = before.geography.ancestors(before.geography.levels[depth])
        left = (unit[new] != unit[old]) & (standing.depth[moved] == depth)
        out += int(np.count_nonzero(left))
    return out


def partners_by_level(before: Households, partner: Ints) -> dict[str, int]:
    """Pairs by the finest level at which both stood in the same unit."""
    first = np.flatnonzero(partner > np.arange(len(partner)))
    here, there = before.block[first], before.block[partner[first]]
    geography = before.geography
    found: dict[str, int] = {}
    apart = np.ones(len(first), dtype=bool)
    for level in reversed(geography.levels):
        unit = geography.ancestors(level)
        together = apart & (unit[here] == unit[there])
        found[level] = int(np.count_nonzero(together))
        apart &= ~together
    return found


def changed_counts(
    before: Households, partner: Ints, *, keys: Sequence[Sequence[str]]
) -> tuple[Kept, ...]:
    """People, households, and households by each key: the units in which their number changed.

    Only who moved can change a count, so only they are added up: +1 in the new unit, -1 in the old.
    """
    moved = np.flatnonzero(partner >= 0)
    new, old = before.block[partner[moved]], before.block[moved]
    size = before.size[moved].astype(np.int64)
    once, nothing = np.ones(len(moved), dtype=np.int64), np.zeros(len(moved), dtype=np.int64)
    looked: list[tuple[str, Ints, Ints]] = [
        ("people", size, nothing),
        ("households", once, nothing),
    ]
    for names in keys:
        values = [household_values(before, name)[moved] for name in names]
        looked.append((f"households by {' x '.join(names)}", once, combined(values, len(moved))))
    kept = []
    for level in before.geography.levels:
        unit = before.geography.ancestors(level)
        for what, weight, group in looked:
            changed = _units_changed(unit[new], unit[old], weight, group)
            units = before.geography.size(level)
            kept.append(Kept(count=what, level=level, changed=changed, units=units))
    return tuple(kept)


def _units_changed(
    new: Ints32,
    old: Ints32,
    weight: Ints,
    group: Ints,
) -> int:
    crossed = new != old
    groups = int(group.max(initial=0)) + 1
    codes = np.concatenate([new[crossed], old[crossed]]).astype(np.int64) * groups
    codes += np.concatenate([group[crossed]] * 2)
    change = np.concatenate([weight[crossed], -weight[crossed]])
    known, place = np.unique(codes, return_inverse=True)
    total = np.bincount(place, weights=change, minlength=len(known))
    return len(np.unique(known[total != 0] // groups))


def log_shortfall(mechanism: str) -> None:
    """Say that partners were short; how many is for the curator's account only."""
    _log.warning(
        "%s: fewer were swapped than the rate asks for, because partners were short; internal/%s "
        "says how many",
        mechanism,
        REPORT,
    )


def log_nobody(mechanism: str) -> None:
    """Say that a rate above 0 came to nothing: the release is the truth."""
    _log.warning("%s: nobody was swapped: after rounding, the rate asks for no pair", mechanism)


def write_provenance(path: Path, before: Households, swaps: Mapping[int, Swapped]) -> None:
    """Write who was swapped with whom, one row per household that moved, and the reports beside it.

    For scoring and for the curator only: it takes the protection away.
    """
    import polars as pl

    codes = before.geography.units[-1]
    parts = []
    for run, swap in swaps.items():
        moved = np.flatnonzero(swap.partner >= 0)
        parts.append(
            pl.DataFrame(
                {
                    "run": np.full(len(moved), run, dtype=np.int32),
                    "dwelling": moved,
                    "partner": swap.partner[moved],
                    "old_unit": codes[before.block[moved]],
                    "new_unit": codes[swap.households.block[moved]],
                }
            )
        )
    content = io.BytesIO()
    pl.concat(parts).write_parquet(content)
    write_bytes_atomic(path, content.getvalue())
    told = {str(run): asdict(swap.report) for run, swap in swaps.items()}
    write_text_atomic(path.with_name(REPORT), json.dumps(told, indent=2) + "\n")
