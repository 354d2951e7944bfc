"""Targeted record swapping with the rules and options of sdcMicro's ``recordSwap``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from headcount.arrays import Flags, Floats, Ints, Ints32
from headcount.compiled import kernel
from headcount.domain import Domain
from headcount.engines import Engine, InOrder
from headcount.errors import ConfigError, InputError
from headcount.fields import AtLeast0, Rate
from headcount.geography import Geography
from headcount.mechanisms._base import EVERYTHING, HOUSEHOLDS, PEOPLE, Context, Preserved
from headcount.mechanisms.swapping._pairing import first_free
from headcount.mechanisms.swapping.households import (
    HouseholdStep,
    Swapped,
    carried,
    make_report,
    move,
    some_households,
    swapped_population,
)
from headcount.mechanisms.swapping.keys import (
    ADULTS,
    SIZE,
    combined,
    depth_of,
    household_values,
    pairs_for,
    share,
    some_apart,
)
from headcount.mechanisms.swapping.risk import DwellingRisk, Risk, standing
from headcount.noise import Noise
from headcount.population import Population
from headcount.population.population import Households


@dataclass(frozen=True, kw_only=True)
class TargetedSwapping(HouseholdStep):
    """Swap those at risk, and others by risk up to the rate (sdcMicro's ``recordSwap``).

    1. risk(household, level) = max over members of 1 / (people like them in the unit).
    2. A household *must* be swapped at the coarsest level where its risk is above 1/k.
    3. From the coarsest level to the finest, unit by unit, those who must take a donor: the
       first, in an order drawn by risk, that is unused, outside the unit, and alike.
    4. At the finest level more are drawn by risk until the unit's part of the rate is full.

    where
        rate            share of households, 0 to 1: a floor, because everyone who must be swapped
                        and finds a donor left is swapped
        risk_variables  attributes of persons or dwellings that make someone stand out
        hierarchy       levels from the coarsest to the finest; if empty, all below the whole
        similar         profiles: donors are alike in the first, or else the second, and so on
        k               0 turns the rule of step 2 off
        carry_along     attributes of dwellings that stay with the place
        within          donors share the unit of this level; the whole if empty

    Differences: ``within`` is new; who finds no donor at a level is tried again at the finer
    ones; the time grows with the number of households, not with its square.
    Templ, Kowarik & Meindl (2015), "Statistical disclosure control for micro-data using sdcMicro".
    """

    rate: Rate
    risk_variables: tuple[str, ...]
    hierarchy: tuple[str, ...] = ()
    similar: tuple[tuple[str, ...], ...] = ((SIZE, ADULTS), (SIZE,))
    k: AtLeast0 = 3
    carry_along: tuple[str, ...] = ()
    within: str = ""
    name = "targeted-swapping"
    person_seconds = 2e-6

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", share(self.rate, "rate"))
        object.__setattr__(self, "similar", tuple(tuple(profile) for profile in self.similar))
        for name in ("risk_variables", "hierarchy", "carry_along"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.similar:
            raise ConfigError(self.name, place="similar", found="none", expected="one or more")
        if not self.risk_variables:
            raise ConfigError(
                self.name, place="risk_variables", found="none", expected="one or more"
            )
        Risk(attributes=self.risk_variables, levels=self.hierarchy or ("all",), k=self.k)

    def preserves(self, domain: Domain) -> tuple[Preserved, ...]:
        """What all profiles share, what stays with the place, and all that nobody moves out of."""
        leaf, geography = domain.leaf, domain.geography
        whole = geography.levels[self._levels(geography)[1]]
        kept = list(super().preserves(domain))
        shared = tuple(n for n in self.similar[0] if all(n in names for names in self.similar))
        if by := tuple(dict.fromkeys((*shared, *self.carry_along))):
            kept.append(Preserved(HOUSEHOLDS, leaf, by))
        if SIZE in shared:
            kept.append(Preserved(PEOPLE, leaf))
        if not self.carry_along:
            kept.append(Preserved(EVERYTHING, whole))
        elif others := tuple(n for n in domain.schema.names if n not in self.carry_along):
            kept.append(Preserved(PEOPLE, whole, others))
        return tuple(kept)

    def check(self, population: Population) -> tuple[str, ...]:
        """Refuse data without households, without what the settings name, or without any donor."""
        households = some_households(population, self.name)
        levels, within = self._levels(households.geography)
        households.cells(self.risk_variables)
        carried(population, households, self.carry_along)
        rows = np.flatnonzero(households.is_household)
        alike = self._alike(households, rows, within)
        if self.rate:
            finest = households.geography.ancestors(levels[-1])[households.block[rows]]
            self._refuse_nobody(alike, finest)
        return ()

    def apply(
        self, population: Population, noise: Noise, *, run: int, context: Context
    ) -> Population:
        """The population after the swap of a run, made by units of ``within``."""
        swap = partial(self.swap, engine=context.engine)
        return swapped_population(
            self.name, swap, population, noise, rate=self.rate, run=run, context=context
        )

    def swap(
        self,
        households: Households,
        rng: np.random.Generator,
        *,
        risk: Floats | None = None,
        threshold: float = 0,
        engine: Engine | None = None,
    ) -> Swapped:
        """Swap the households once.

        ``risk``, levels of the hierarchy x dwellings, replaces steps 1 and 2: those with a risk
        above ``threshold`` must be swapped; 0 means that nobody must.
        """
        rows = np.flatnonzero(households.is_household)
        geography = households.geography
        levels, within = self._levels(geography)
        risks = standing(households, Risk(attributes=self.risk_variables, levels=levels, k=self.k))
        chance, must = self._chances(risks, rows, risk, threshold)
        unit = np.stack([geography.ancestors(level)[households.block[rows]] for level in levels])
        alike = self._alike(households, rows, within)
        quota = quotas(unit[-1], geography.size(levels[-1]), self.rate, rng)
        mate, unpaired = swap_areas(
            unit,
            chance=chance,
            must=must,
            alike=alike,
            quota=quota,
            rng=rng,
            first_level=sum(geography.depth(level) <= within for level in levels),
            within=geography.ancestors(geography.levels[within])[households.block[rows]],
            engine=engine,
        )
        if quota.sum() and (mate < 0).all():
            self._refuse_nobody(alike, unit[-1])
        partner = np.full(len(households.block), -1, dtype=np.int64)
        paired = mate >= 0
        partner[rows[paired]] = rows[mate[paired]]
        report = make_report(
            households,
            partner,
            mechanism=repr(self),
            rate=self.rate,
            asked=2 * int(quota.sum()),
            unpaired=unpaired,
            keys=list(self.similar),
            standing=risks,
            k=self.k,
        )
        return Swapped(move(households, partner, carry=self.carry_along), partner, report)

    def _levels(self, geography: Geography) -> tuple[tuple[str, ...], int]:
        """The hierarchy, and the depth of the unit that nobody leaves."""
        levels = self.hierarchy or geography.levels[1:]
        if not levels:
            raise ConfigError(
                self.name,
                place="hierarchy",
                found="one place",
                expected="levels below the whole: households are swapped between places",
            )
        depths = [depth_of(geography, level, "hierarchy") for level in levels]
        if depths != sorted(set(depths)):
            raise ConfigError(
                self.name,
                place="hierarchy",
                found=str(list(levels)),
                expected="levels from the coarsest to the finest",
            )
        within = depth_of(geography, self.within, "within") if self.within else 0
        if within >= depths[-1]:
            raise ConfigError(
                self.name,
                place="within",
                found=repr(self.within),
                expected=f"a level above {levels[-1]!r}, the finest of the hierarchy",
            )
        return tuple(levels), within

    def _alike(self, households: Households, rows: Ints, within: int) -> list[Ints]:
        """For each profile the group of each household, with the unit that nobody leaves."""
        kept = households.geography.ancestors(households.geography.levels[within])
        inside = kept[households.block[rows]].astype(np.int64)
        return [
            combined([*(household_values(households, n)[rows] for n in names), inside], len(rows))
            for names in self.similar
        ]

    def _refuse_nobody(self, alike: list[Ints], finest: Ints32) -> None:
        """An error if no two households are alike in different units."""
        if not any(some_apart(group, finest) for group in alike):
            raise InputError(
                self.name,
                place=f"similar {[list(profile) for profile in self.similar]}",
                found="no two households that could change places",
                expected="some that are alike in different units: use coarser profiles",
            )

    def _chances(
        self, risks: DwellingRisk, rows: Ints, risk: Floats | None, threshold: float
    ) -> tuple[Floats, Flags]:
        """For each level and household its risk, and whether it must be swapped there."""
        if risk is None:
            fewest = risks.fewest[:, rows]
            return 1 / fewest, fewest < self.k
        if risk.shape != risks.fewest.shape or not (np.isfinite(risk) & (risk >= 0)).all():
            raise InputError(
                self.name,
                place="risk",
                found=f"an array of shape {risk.shape}",
                expected=f"{risks.fewest.shape}: a number of 0 or more for each level and dwelling",
            )
        chosen = risk[:, rows]
        return chosen, (chosen > threshold) & (threshold > 0)


def quotas(unit: Ints32, units: int, rate: Fraction, rng: np.random.Generator) -> Ints:
    """Swaps for each unit: its part of rate x households / 2, rounded at random to the total."""
    size = np.bincount(unit, minlength=units)
    total = pairs_for(rate, len(unit))
    ends = np.cumsum(size) * (total / max(len(unit), 1)) + rng.random()
    ends = np.minimum(np.floor(ends), total).astype(np.int64)
    if units:
        ends[-1] = total
    return np.asarray(np.diff(ends, prepend=0), dtype=np.int64)


PIECE = 1 << 16
"""Households of a piece of work, or somewhat more: units that nobody leaves stay whole."""


def swap_areas(
    unit: Ints32,
    *,
    chance: Floats,
    must: Flags,
    alike: Sequence[Ints],
    quota: Ints,
    rng: np.random.Generator,
    first_level: int = 0,
    within: Ints32 | None = None,
    engine: Engine | None = None,
) -> tuple[Ints, int]:
    """For each household the one it is swapped with, or -1; and how many found no donor.

    where
        unit           levels x households, from the coarsest level
        chance, must   levels x households: weight in the draw, and who must be swapped
        alike          for each profile the group of each household
        quota          swaps for each unit of the finest level
        first_level    levels before this one are left out
        within         the unit that each household stays in, which ``alike`` tells apart: units
                       have nothing to do with each other, and are pieces of work of the engine
    """
    levels, households = unit.shape
    # The largest of risk / Exp(1): sampling by risk without replacement.
    order = np.empty((levels - first_level, households))
    for level, row in enumerate(order, start=first_level):
        row[:] = -chance[level] / rng.standard_exponential(households)
    seeking = _Seeking(unit, order, must, tuple(alike), quota, first_level)
    if within is None:
        return seeking.paired(np.arange(households))
    mate, unpaired = np.full(households, -1, dtype=np.int64), 0
    pieces = _pieces(within)
    for rows, (own, alone) in zip(
        pieces, (engine or InOrder()).map(seeking.paired, pieces), strict=True
    ):
        mate[rows] = np.where(own >= 0, rows[own], -1)
        unpaired += alone
    return mate, unpaired


def _pieces(within: Ints32) -> list[Ints]:
    """Households of whole units, some of them together: each piece in the order of all."""
    by_unit = np.argsort(within, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(within[by_unit])) + 1, len(within))
    full = np.diff(ends // PIECE, prepend=0) > 0
    return [np.sort(rows) for rows in np.split(by_unit, ends[full & (ends < len(within))])]


@dataclass(frozen=True, eq=False, repr=False)
class _Seeking:
    """Who seeks, in what order at each level, and among whom; see ``swap_areas``."""

    unit: Ints32
    order: Floats
    must: Flags
    alike: tuple[Ints, ...]
    quota: Ints
    first_level: int

    def paired(self, rows: Ints) -> tuple[Ints, int]:
        """Some households: who is swapped with whom, as places in ``rows``, and who is left."""
        finest, own = np.unique(self.unit[-1, rows], return_inverse=True)
        unit = np.concatenate([self.unit[:-1, rows], own[None].astype(np.int32)])
        return _swap(
            unit,
            order=self.order[:, rows],
            must=self.must[:, rows],
            alike=[group[rows] for group in self.alike],
            quota=self.quota[finest],
            first_level=self.first_level,
        )


def _swap(
    unit: Ints32,
    *,
    order: Floats,
    must: Flags,
    alike: Sequence[Ints],
    quota: Ints,
    first_level: int,
) -> tuple[Ints, int]:
    """The pairs of households that have nothing to do with others."""
    levels, households = unit.shape
    mate = np.full(households, -1, dtype=np.int64)
    started = np.zeros(len(quota), dtype=np.int64)
    due = must[:first_level].any(axis=0)
    found_nobody = np.zeros(households, dtype=np.bool_)
    for level in range(first_level, levels):
        due |= must[level]
        finest = level == levels - 1
        drawn = np.argsort(order[level - first_level], kind="stable")
        seeking = drawn if finest else drawn[due[drawn]]
        seeking = seeking[mate[seeking] < 0]
        found_nobody[:] = False  # they seek again
        if not len(seeking):
            continue
        seeking = seeking[np.lexsort((~due[seeking], unit[level][seeking]))]
        donors = np.stack([drawn[np.argsort(group[drawn], kind="stable")] for group in alike])
        place = np.empty_like(donors)
        for profile in range(len(alike)):
            place[profile, donors[profile]] = np.arange(households)
        end = np.stack([_ends(group, row) for group, row in zip(alike, donors, strict=True)])
        begin = np.stack([_begins(group, row) for group, row in zip(alike, donors, strict=True)])
        match(
            seeking,
            due,
            unit[level].astype(np.int64),
            unit[-1].astype(np.int64),
            quota if finest else np.zeros_like(quota),
            started,
            donors,
            place,
            begin,
            end,
            mate,
            found_nobody,
        )
    return mate, int(np.count_nonzero(found_nobody & (mate < 0)))


def _begins(group: Ints, order: Ints) -> Ints:
    """For each household where the donors of its group begin in the order."""
    return np.searchsorted(group[order], group)


def _ends(group: Ints, order: Ints) -> Ints:
    """For each household where the donors of its group end in the order."""
    return np.searchsorted(group[order], group, side="right")


@kernel
def match(
    seeking: Ints,
    due: Flags,
    unit: Ints,
    finest: Ints,
    quota: Ints,
    started: Ints,
    order: Ints,
    place: Ints,
    begin: Ints,
    end: Ints,
    mate: Ints,
    found_nobody: Flags,
) -> None:
    """Go through those who seek, unit by unit, and note who is paired and who found nobody.

    ``cursor`` remembers for each profile and group how far this unit has looked: whoever it has
    passed is used or lives in the unit. So a unit passes each of its own households once, and
    ``free`` leads past those used: the time is linear but for the length of the links.
    """
    profiles, households = order.shape
    free = np.empty((profiles, households + 1), dtype=np.int64)
    cursor = np.zeros((profiles, households), dtype=np.int64)
    looked_by = np.full((profiles, households), -1, dtype=np.int64)
    for profile in range(profiles):
        free[profile] = np.arange(households + 1)
        for i in range(households):
            if mate[order[profile, i]] >= 0:
                free[profile, i] = i + 1
    for who in seeking:
        if mate[who] >= 0 or (not due[who] and started[finest[who]] >= quota[finest[who]]):
            continue
        donor = -1
        for profile in range(profiles):
            first = begin[profile, who]
            at = cursor[profile, first] if looked_by[profile, first] == unit[who] else first
            at = first_free(free[profile], at)
            while at < end[profile, who] and unit[order[profile, at]] == unit[who]:
                at = first_free(free[profile], at + 1)
            cursor[profile, first] = at
            looked_by[profile, first] = unit[who]
            if at < end[profile, who]:
                donor = order[profile, at]
                break
        if donor < 0:
            found_nobody[who] = True
            continue
        mate[who], mate[donor] = donor, who
        started[finest[who]] += 1
        for profile in range(profiles):
            for one in (who, donor):
                free[profile, place[profile, one]] = place[profile, one] + 1
