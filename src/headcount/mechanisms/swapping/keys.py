"""What partners must have in common: the swap key, its noise, and pseudo-units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints, Ints32
from headcount.errors import ConfigError, InputError
from headcount.fields import Named, Pairs, Rate
from headcount.geography import Geography
from headcount.population.population import Households, adults
from headcount.privacy.loss import exact
from headcount.schema.schema import combine

SIZE, ADULTS = "size", "adults"
"""Parts of a key that are counted: people in the household, and those of 18 or more."""


@dataclass(frozen=True, kw_only=True)
class SizeNoise:
    """The household size in the key, and there only, is one less or one more for some.

    where
        minus, plus    shares of households; the others keep their size

    Partners may then differ in size by 2, and unit totals change (Hawes & Rodriguez 2021).
    """

    minus: Rate
    plus: Rate

    def __post_init__(self) -> None:
        for place in ("minus", "plus"):
            object.__setattr__(self, place, share(getattr(self, place), place, of="size_noise"))
        if self.minus + self.plus > 1:
            raise ConfigError("size_noise", found="minus + plus above 1", expected="at most 1")


@dataclass(frozen=True, kw_only=True)
class PseudoUnits:
    """Some households are paired as if they stood in another unit (Hawes & Rodriguez 2021).

    where
        level      whose units are exchanged: "tract"
        permute    (level, share): for that share of households the units are permuted within
                   each unit of that level, so every unit keeps its number of households

    The others, 1 minus the shares, keep their own.
    """

    level: str
    permute: Annotated[tuple[tuple[str, Fraction], ...], Named(Rate)]

    def __post_init__(self) -> None:
        named = Pairs.of(self.permute)
        shares = Pairs((name, share(part, f"permute.{name}", of="pseudo")) for name, part in named)
        object.__setattr__(self, "permute", shares)
        if sum(part for _, part in shares) > 1:
            raise ConfigError(
                "pseudo", place="permute", found="shares above 1 together", expected="at most 1"
            )


def share(value: Fraction | str | int, place: str, *, of: str = "swapping") -> Fraction:
    """An exact number from 0 to 1."""
    number = exact(value, name=f"{of}: {place}")
    if not 0 <= number <= 1:
        raise ConfigError(of, place=place, found=str(number), expected="from 0 to 1")
    return number


def depth_of(geography: Geography, level: str, place: str) -> int:
    """The depth of a level that a setting names; an error that names the setting."""
    if level not in geography.levels:
        raise ConfigError(
            "swapping",
            place=place,
            found=f"level {level!r}",
            expected=f"one of {list(geography.levels)}",
        )
    return geography.depth(level)


def pairs_for(rate: Fraction, households: int) -> int:
    """The number of pairs whose 2 x pairs / households is nearest to the rate; a tie goes down."""
    return int(-(-(rate * households - 1) // 2))


def household_values(households: Households, name: str) -> Ints:
    """One part of a key for each dwelling: its size, its adults, or an attribute of dwellings."""
    if name == SIZE:
        return households.size.astype(np.int64)
    if name == ADULTS:
        return adults(households)
    if name not in households.dwellings:
        known = [SIZE, ADULTS, *(a.name for a in households.dwelling_attributes)]
        raise InputError(
            households.name,
            place="swap key",
            found=f"{name!r}, which dwellings do not have",
            expected=f"one of {known}",
        )
    return households.dwellings[name].astype(np.int64)


def combined(parts: Sequence[Ints], rows: int) -> Ints:
    """One number for each combination of some non-negative columns, not many above ``rows``."""
    code = combine(parts, rows=rows)
    if int(code.max(initial=0)) > rows:
        code = np.unique(code, return_inverse=True)[1].astype(np.int64)
    return code


def some_apart(group: Ints, place: NDArray[np.integer]) -> bool:
    """Whether two of one group stand in different places."""
    order = np.lexsort((place, group))
    group, place = group[order], place[order]
    return bool(((group[1:] == group[:-1]) & (place[1:] != place[:-1])).any())


def noisy_size(size: Ints, noise: SizeNoise, rng: np.random.Generator) -> Ints:
    """Sizes, some one less and some one more; the size 0 that may come up is a key of its own."""
    drawn = rng.random(len(size))
    less = drawn < float(noise.minus)
    more = ~less & (drawn < float(noise.minus + noise.plus))
    return size - less + more


def pseudo_units(
    block: Ints32, geography: Geography, pseudo: PseudoUnits, rng: np.random.Generator
) -> Ints32:
    """For each household the unit of ``pseudo.level`` as which it is paired."""
    own = geography.ancestors(pseudo.level)[block]
    taken = own.copy()
    drawn = rng.random(len(block))
    low = 0.0
    for level, part in pseudo.permute:
        high = low + float(part)
        chosen = np.flatnonzero((drawn >= low) & (drawn < high))
        low = high
        within = geography.ancestors(level, of=pseudo.level)[own[chosen]]
        receivers = chosen[np.argsort(within, kind="stable")]
        shuffled = rng.permutation(len(chosen))
        givers = chosen[shuffled[np.argsort(within[shuffled], kind="stable")]]
        taken[receivers] = own[givers]
    return taken
