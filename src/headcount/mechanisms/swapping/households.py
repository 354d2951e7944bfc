"""Steps that move whole households: dwellings in new places, and the account of what a swap did.

The account says how many moved, how far, and which counts were left as they were. It is computed
from the truth, and belongs to the curator.
"""

from __future__ import annotations

import io
import json
import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.domain import Domain
from headcount.errors import InputError
from headcount.files import write_bytes_atomic, write_text_atomic
from headcount.mechanisms._base import (
    GROUP_QUARTERS,
    HOUSEHOLDS,
    Context,
    Preserved,
    PreTabular,
    StepDesign,
)
from headcount.mechanisms.swapping.keys import combined, household_values
from headcount.mechanisms.swapping.risk import DwellingRisk, at_risk_by_level
from headcount.noise import Noise, Stream
from headcount.noise.source import SEED_DRAWS, generator
from headcount.population import Population
from headcount.population.population import VACANT, Households
from headcount.privacy import Guarantee

REPORT = "swap-report.json"
PROVENANCE = "provenance.parquet"
"""Who changed places with whom: in the curator's folder, never part of a release."""

NO_BOUND = "who changes places with whom depends on the records of everybody"
"""Why no swap has a proved stability."""


class HouseholdStep(PreTabular):
    """A step that moves whole households."""

    of_households = True
    rate: Fraction
    person_seconds: ClassVar[float | None] = None

    @abstractmethod
    def swap(self, households: Households, rng: np.random.Generator) -> Swapped:
        """Swap the households once."""

    def apply(
        self, population: Population, noise: Noise, *, run: int, context: Context
    ) -> Population:
        """The population after the swap of a run."""
        return swapped_population(
            self.name, self.swap, population, noise, rate=self.rate, run=run, context=context
        )

    def on(self, domain: Domain) -> StepDesign:
        """No guarantee, and it says so; what no swap changes is released exactly."""
        kept = self.preserves(domain)
        return StepDesign(
            domain=domain,
            guarantee=Guarantee.none(
                "a household that is not swapped is published where it lives, one that is swapped "
                "is published whole in another place, and neither is hidden by noise"
            ).also_exact(*map(str, kept)),
            preserves=kept,
            no_bound=NO_BOUND,
            person_seconds=self.person_seconds,
        )

    def preserves(self, domain: Domain) -> tuple[Preserved, ...]:
        """What every swap of households leaves as it is."""
        return (Preserved(HOUSEHOLDS, domain.leaf), Preserved(GROUP_QUARTERS, domain.leaf))


def some_households(population: Population, mechanism: str) -> Households:
    """The households of some people; an error if they are not known."""
    if population.households is None:
        raise InputError(
            mechanism,
            found="a population without households",
            expected="persons in dwellings: who lives with whom must be known",
        )
    if not population.households.is_household.any():
        raise InputError(
            mechanism,
            found="no occupied household",
            expected="at least one: vacant dwellings and group quarters never move",
        )
    return population.households


def move(households: Households, partner: Ints, *, carry: Sequence[str] = ()) -> Households:
    """Each dwelling where its partner stood; ``carry`` are attributes that stay with the place."""
    moved = partner >= 0
    block = np.where(moved, households.block[partner], households.block).astype(np.int32)
    codes = dict(households.dwellings)
    for name in carry:
        codes[name] = np.where(moved, codes[name][partner], codes[name])
    return replace(households, block=block, dwellings=codes)


def carried(
    population: Population, households: Households, carry: Sequence[str]
) -> tuple[str, ...]:
    """Those of ``carry`` that are in the schema; their levels must be those of the dwellings."""
    known = [attribute.name for attribute in households.dwelling_attributes]
    for name in carry:
        if name not in known:
            raise InputError(
                households.name,
                place="carry_along",
                found=f"{name!r}, which dwellings do not have",
                expected=f"one of {known}",
            )
        counted = name in population.schema.names
        if counted and population.schema.attribute(name) != households.attribute(name):
            raise InputError(
                households.name,
                place="carry_along",
                found=f"{name!r} recoded in the counts",
                expected="counts with the levels of the dwellings",
            )
    return tuple(name for name in carry if name in population.schema.names)


def swapped_population(
    name: str,
    swap: Callable[[Households, np.random.Generator], Swapped],
    population: Population,
    noise: Noise,
    *,
    rate: Fraction,
    run: int,
    context: Context,
) -> Population:
    """The population after the swap of a run, with a trace of it on the curator's side."""
    households = some_households(population, name)
    stream = Stream(level=population.geography.leaf, query="swap", size=SEED_DRAWS)
    made = swap(households, generator(noise, stream, run))
    if made.report.short:
        log_shortfall(name)
    elif rate and not made.report.swapped:
        log_nobody(name)
    if context.curator is not None:
        moved = np.flatnonzero(made.partner >= 0)
        codes = population.geography.units[-1]
        columns = {
            "dwelling": moved,
            "partner": made.partner[moved],
            "old_unit": codes[households.block[moved]],
            "new_unit": codes[made.households.block[moved]],
        }
        write_provenance(context.curator, run, columns, made.report)
    return moved_population(population, made.households)


def moved_population(population: Population, moved: Households) -> Population:
    """The people whose dwellings have moved, some with what is known of the place."""
    assert population.households is not None
    before, cell = population.households.dwellings, population.cell
    stride = population.schema.size
    for attribute in population.schema.attributes:
        stride //= attribute.size
        name = attribute.name
        if name in before and moved.dwellings[name] is not before[name]:
            change = moved.dwellings[name].astype(np.int32) - before[name].astype(np.int32)
            cell = cell + change[moved.dwelling] * np.int32(stride)
    unit = moved.block[moved.dwelling]
    return replace(population, unit=unit, cell=cell, households=moved)


_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """In how many units of a level a count changed; 0 is an invariant."""

    count: str
    level: str
    changed: int
    units: int


@dataclass(frozen=True, kw_only=True)
class _AtRisk:
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
    at_risk: _AtRisk | None
    kept: tuple[_Kept, ...]

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


def _at_risk(before: Households, standing: DwellingRisk, partner: Ints, k: int) -> _AtRisk:
    is_household, moved = before.is_household, partner >= 0
    risky = is_household & (standing.depth < len(before.geography.levels))
    unique = is_household & standing.unique
    return _AtRisk(
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
) -> tuple[_Kept, ...]:
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
            kept.append(_Kept(count=what, level=level, changed=changed, units=units))
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


def write_provenance(folder: Path, run: int, columns: Mapping[str, Any], report: Any) -> None:
    """Write who was swapped with whom, a row each, and the report of the swap beside it.

    For scoring and for the curator only: with the release it gives the truth back.
    """
    import polars as pl

    rows = len(next(iter(columns.values())))
    content = io.BytesIO()
    pl.DataFrame({"run": np.full(rows, run, dtype=np.int32), **columns}).write_parquet(content)
    write_bytes_atomic(folder / PROVENANCE, content.getvalue())
    text = json.dumps({str(run): asdict(report)}, indent=2) + "\n"
    write_text_atomic(folder / REPORT, text)
