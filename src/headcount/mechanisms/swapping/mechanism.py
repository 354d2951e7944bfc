"""Household swapping in the style of the census of 2010, with all settings tried since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.fields import Rate
from headcount.geography import Geography
from headcount.mechanisms._base import EVERYTHING, HOUSEHOLDS, PEOPLE, Preserved
from headcount.mechanisms.swapping._need import Fits, alone
from headcount.mechanisms.swapping._pairing import Stage, SwapPairs, choose_pairs
from headcount.mechanisms.swapping.households import (
    HouseholdStep,
    Swapped,
    make_report,
    move,
    some_households,
)
from headcount.mechanisms.swapping.keys import (
    ADULTS,
    SIZE,
    PseudoUnits,
    SizeNoise,
    combined,
    depth_of,
    household_values,
    noisy_size,
    pairs_for,
    pseudo_units,
    share,
    some_apart,
)
from headcount.mechanisms.swapping.risk import NEVER, DwellingRisk, Risk, by_risk, standing
from headcount.population import Population
from headcount.population.population import Households
from headcount.schema.schema import first_repeated
from headcount.typed import PRESET, from_table

LARGEST_CODE = 1 << 62
"""Largest number of a group and a place together."""


@dataclass(frozen=True, kw_only=True)
class HouseholdSwapping(HouseholdStep):
    """Pairs of alike households change places (Hawes & Rodriguez 2021; the 2010 census).

        pairs = rate x households / 2, to the nearest whole number

    where
        rate           share of all households that move, 0 to 1
        key            what partners have in common: "size", "adults", attributes of dwellings
        within         partners share the unit of this level; the whole if empty
        between        partners are in different units of this level; the leaf if empty
        nearest        levels within which a partner is looked for, nearest first; if empty, every
                       level from above ``between`` (or from that of ``pseudo``) up to
                       ``within``, which always comes last
        risk           who must be swapped: those at risk come first, up to the rate, and move out
                       of the coarsest unit in which they are at risk (so far as ``within``
                       allows). Without it all have the same chance
        rate_is_floor  everyone at risk who can be is swapped, even beyond the rate
        size_noise     noise in the size in the key, and nowhere else; left out where it leaves no
                       two households alike
        pseudo         households preferred as partners as if they stood elsewhere

    Two households *fit* if key and unit of ``within`` are the same, and each lives outside the unit
    that the other has to leave: that of ``between``, or for one at risk the coarsest in which it
    is. As many of those at risk are swapped as pairs that fit can hold, with no more pairs than the
    rate asks for unless it is a floor; of the choices that swap most, the one that has the riskiest
    (coarsest unit, then smallest group, ties at random), then the next, and so on. So nobody at
    risk is left while a partner exists, nobody moves in their place, and a higher rate never swaps
    fewer of them. Then come others, until the rate is met or no more pairs can be.

    Whole households move, with all that is known of them. Group quarters and vacant dwellings
    never move; households for which no partner is found stay, and are counted.
    """

    rate: Rate
    key: tuple[str, ...] = (SIZE, ADULTS)
    within: str = ""
    between: str = ""
    nearest: tuple[str, ...] = ()
    risk: Risk | None = None
    rate_is_floor: bool = False
    size_noise: SizeNoise | None = None
    pseudo: PseudoUnits | None = None
    name = "swapping"
    person_seconds = 8e-7
    presets = "headcount.mechanisms.swapping.presets"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", share(self.rate, "rate"))
        object.__setattr__(self, "key", tuple(self.key))
        object.__setattr__(self, "nearest", tuple(self.nearest))
        if (repeated := first_repeated(self.key)) is not None:
            raise ConfigError(
                "swapping", place="key", found=f"{repeated!r} twice", expected="distinct parts"
            )
        if self.size_noise is not None and SIZE not in self.key:
            raise ConfigError(
                "swapping", place="size_noise", found=f"no {SIZE!r} in the key", expected="it there"
            )
        if self.rate_is_floor and (self.risk is None or not self.risk.k):
            raise ConfigError(
                "swapping",
                place="rate_is_floor",
                found="no rule that says who must be swapped",
                expected="risk with k of 1 or more",
            )

    @classmethod
    def from_preset(cls, name: str, **keys: Any) -> Self:
        """With the settings of a preset, but for the keys that are given."""
        return from_table(cls, {PRESET: name, **keys}, source="swapping")

    def preserves(self, domain: Domain) -> tuple[Preserved, ...]:
        """All within the level that nobody leaves, and in each leaf what partners share."""
        leaf, geography = domain.leaf, domain.geography
        whole = geography.levels[self._depths(geography).within]
        kept = [*super().preserves(domain), Preserved(EVERYTHING, whole)]
        if self.size_noise is None:
            if self.key:
                kept.append(Preserved(HOUSEHOLDS, leaf, self.key))
            if SIZE in self.key:
                kept.append(Preserved(PEOPLE, leaf))
        return tuple(kept)

    def check(self, population: Population) -> tuple[str, ...]:
        """Refuse data without households, without what the key needs, or without any partner."""
        households = some_households(population, self.name)
        rows = np.flatnonzero(households.is_household)
        reach = self._depths(households.geography)
        if self.risk is not None:
            households.cells(self.risk.attributes)
            for level in self.risk.levels:
                depth_of(households.geography, level, "risk.levels")
        key = self._key(households, rows, reach, rng=None)
        if self.rate and not self._some_fit(households, rows, reach, key):
            self._nobody()
        return ()

    def swap(self, households: Households, rng: np.random.Generator) -> Swapped:
        """Swap the households once."""
        rows = np.flatnonzero(households.is_household)
        reach = self._depths(households.geography)
        risks = standing(households, self.risk) if self.risk is not None else None
        wanted = pairs_for(self.rate, len(rows))
        order = rng.permutation(len(rows))
        at_risk = 0
        if risks is not None:
            order = by_risk(_of(risks, rows), order)
            at_risk = int(np.count_nonzero(risks.depth[rows] != NEVER))
        depth = reach.leaving(risks, rows)

        def paired(noise_in_size: np.random.Generator | None) -> SwapPairs:
            key = self._key(households, rows, reach, noise_in_size)
            fits, stages = self._stages(households, rows, reach, key=key, depth=depth, rng=rng)
            return choose_pairs(
                order,
                fits,
                stages,
                wanted=wanted,
                at_risk=at_risk,
                all_at_risk=self.rate_is_floor,
                rng=rng,
            )

        pairs = paired(rng)
        if wanted and not len(pairs) and self.size_noise is not None:
            pairs = paired(None)  # the noise left no two alike: better swapped without it
        if wanted and not len(pairs):
            self._nobody()
        partner = np.full(len(households.block), -1, dtype=np.int64)
        partner[rows[pairs.first]] = rows[pairs.second]
        partner[rows[pairs.second]] = rows[pairs.first]
        report = make_report(
            households,
            partner,
            mechanism=repr(self),
            rate=self.rate,
            asked=2 * wanted,
            unpaired=len(pairs.unpaired),
            keys=[(SIZE,), *([self.key] if self.key not in ((), (SIZE,)) else [])],
            standing=risks,
            k=self.risk.k if self.risk is not None else 0,
        )
        return Swapped(move(households, partner), partner, report)

    def _depths(self, geography: Geography) -> _Reach:
        within = depth_of(geography, self.within, "within") if self.within else 0
        between = depth_of(geography, self.between or geography.leaf, "between")
        if within >= between:
            raise ConfigError(
                "swapping",
                place="within and between",
                found=f"{geography.levels[within]!r} and {geography.levels[between]!r}",
                expected="within above between: partners share the first and not the second",
            )
        paired_at = between - 1 if self.pseudo is None else self._pseudo_depth(geography)
        near = [depth_of(geography, level, "nearest") for level in self.nearest]
        near = near or list(range(min(between - 1, paired_at), within, -1))
        stages = sorted({within, *(d for d in near if within < d < between)}, reverse=True)
        if self.pseudo is not None and stages[0] > paired_at:
            raise ConfigError(
                "swapping",
                place="nearest",
                found=f"{geography.levels[stages[0]]!r}, below the pseudo-units",
                expected=f"levels from {self.pseudo.level!r} upwards",
            )
        return _Reach(within=within, between=between, stages=tuple(stages))

    def _pseudo_depth(self, geography: Geography) -> int:
        """The depth at which households are paired as if elsewhere, if its settings fit."""
        assert self.pseudo is not None
        depth = depth_of(geography, self.pseudo.level, "pseudo.level")
        for level, _ in self.pseudo.permute:
            if depth_of(geography, level, "pseudo.permute") >= depth:
                raise ConfigError(
                    "swapping",
                    place="pseudo.permute",
                    found=f"level {level!r}",
                    expected=f"levels above {self.pseudo.level!r}",
                )
        return depth

    def _key(
        self,
        households: Households,
        rows: Ints,
        reach: _Reach,
        rng: np.random.Generator | None,
    ) -> Ints:
        """The key of each household, with the unit it may not leave."""
        parts = []
        for name in self.key:
            values = household_values(households, name)[rows]
            if name == SIZE and self.size_noise is not None and rng is not None:
                values = noisy_size(values, self.size_noise, rng)
            parts.append(values)
        parts.append(self._units(households, reach.within)[households.block[rows]].astype(np.int64))
        return combined(parts, len(rows))

    def _units(self, households: Households, depth: int) -> Ints32:
        geography = households.geography
        return geography.ancestors(geography.levels[depth])

    def _stages(
        self,
        households: Households,
        rows: Ints,
        reach: _Reach,
        *,
        key: Ints,
        depth: Ints,
        rng: np.random.Generator,
    ) -> tuple[Fits, list[Stage]]:
        """Who fits whom, and every level within which partners are looked for, nearest first."""
        geography, block = households.geography, households.block[rows]
        near, of = block, geography.leaf
        if self.pseudo is not None:
            near, of = pseudo_units(block, geography, self.pseudo, rng), self.pseudo.level
        # units in random order, so that who meets whom does not follow the map
        depths, fits = self._fits(households, rows, key, depth, rng)
        stages = []
        for within in reach.stages:
            # the key has the unit that nobody leaves: in the end all that fit may meet, whatever
            # their pseudo-units
            group = key
            if within > reach.within:
                level = geography.levels[within]
                unit = geography.ancestors(level, of=of)[near].astype(np.int64)
                group = key * geography.size(level) + unit
            most = int(group.max(initial=0)) + 1
            if (
                most * geography.size(geography.leaf) > LARGEST_CODE
            ):  # times places must stay in 64 bits
                group = np.unique(group, return_inverse=True)[1].astype(np.int64)
            for d, size, place in zip(
                depths[::-1], fits.sizes[::-1], fits.places[::-1], strict=True
            ):
                if d > within:
                    stages.append(Stage(group, place, size, joins=depth >= d))
        return fits, stages

    def _fits(
        self,
        households: Households,
        rows: Ints,
        key: Ints,
        depth: Ints,
        rng: np.random.Generator | None = None,
    ) -> tuple[list[int], Fits]:
        """Who fits whom, with the depths that somebody has to leave; units at random if asked."""
        depths = [int(d) for d in np.unique(depth)]
        sizes = [households.geography.size(households.geography.levels[d]) for d in depths]
        block = households.block[rows]
        places = [self._units(households, d)[block].astype(np.int64) for d in depths]
        if rng is not None:
            places = [rng.permutation(n)[one] for n, one in zip(sizes, places, strict=True)]
        depth_number = np.searchsorted(depths, depth)
        return depths, Fits(key, tuple(places), tuple(sizes), depth_number)

    def _some_fit(
        self,
        households: Households,
        rows: Ints,
        reach: _Reach,
        key: Ints,
    ) -> bool:
        """Whether any two households could change places, those at risk as far as they must."""
        farthest = self._units(households, reach.within + 1)[households.block[rows]]
        if some_apart(key, farthest):  # far enough for everybody
            return True
        risks = standing(households, self.risk) if self.risk is not None else None
        _, fits = self._fits(households, rows, key, reach.leaving(risks, rows))
        return int(alone(np.arange(len(rows)), fits)[1].sum()) < len(rows)

    def _nobody(self) -> None:
        raise InputError(
            "swapping",
            place=f"key {list(self.key)}",
            found="no two households that could change places",
            expected="some with the same key in different units: use a coarser key, a wider "
            "within, or a finer between",
        )


@dataclass(frozen=True)
class _Reach:
    """Depths: the unit kept, the unit left, and where partners are looked for, nearest first."""

    within: int
    between: int
    stages: tuple[int, ...]

    def leaving(self, risks: DwellingRisk | None, rows: Ints) -> Ints:
        """The depth of the unit that each household has to leave."""
        if risks is None:
            return np.full(len(rows), self.between, dtype=np.int64)
        below_kept = np.maximum(risks.depth[rows], self.within + 1)
        return np.asarray(np.minimum(self.between, below_kept), dtype=np.int64)


def _of(risks: DwellingRisk, rows: Ints) -> DwellingRisk:
    """The same for some of the dwellings."""
    return DwellingRisk(risks.depths, risks.fewest[:, rows], risks.depth[rows], risks.count[rows])
