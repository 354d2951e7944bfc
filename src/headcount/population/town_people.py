"""The people of a generated state, in census terms: who lives near whom, and with whom.

Communities by race and Hispanic origin are mixed unevenly over the land; households have
householders, partners, children and others, with age, sex and race.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Floats, Ints, Ints32
from headcount.geography import Geography
from headcount.schema import Attribute, Follows

OLDEST = 90
"""Ages stop here: 90 stands for 90 and over."""

SINGLE_RACES = ("white", "black", "aian", "asian", "nhpi", "other")

RACE_SETS: tuple[tuple[int, ...], ...] = tuple(
    chosen for size in range(1, 7) for chosen in combinations(range(6), size)
)
"""The 63 combinations of the six races: singles first, then pairs, ..., each in order."""

AGE = Attribute("age", tuple(str(age) for age in range(OLDEST + 1)))
SEX = Attribute("sex", ("male", "female"))
RACE = Attribute("race", tuple(str(code) for code in range(1, 64)))
HISPANIC = Attribute("hispanic", ("not_hispanic", "hispanic"))
TENURE = Attribute("tenure", ("own", "rent", "none"), Follows.DWELLING)
HOUSEHOLD_SIZE = Attribute("household_size", ("1", "2", "3", "4+", "none"), Follows.SIZE)
"""Of vacant dwellings and group quarters, tenure and household size are "none"."""

MALE, FEMALE = 0, 1
OWN, RENT, NO_TENURE = 0, 1, 2
NO_SIZE = 4

KINDS = (
    "household",
    "vacant",
    "correctional",
    "juvenile",
    "nursing",
    "other_institutional",
    "college",
    "military",
    "other_noninstitutional",
)


def _mask_of(races: tuple[int, ...]) -> int:
    """A set of races as bits: white 1, black 2, ..., other 32."""
    return sum(1 << race for race in races)


def race_of_mask() -> NDArray[np.int16]:
    """For each set of races as bits (1 to 63) the position of its race level."""
    position = np.full(64, -1, dtype=np.int16)
    position[[_mask_of(races) for races in RACE_SETS]] = np.arange(len(RACE_SETS))
    return position


COMMUNITIES = np.array(
    [
        *(0.637, 0.122, 0.0075, 0.047, 0.0016, 0.0020),
        *(0.087, 0.005, 0.0030, 0.0008, 0.0004, 0.0660),
    ]
)
"""Shares of communities: six races, not Hispanic, then Hispanic (United States, 2010)."""

CONCENTRATION = {"county": 14.0, "tract": 10.0, "block": 4.0}
"""Dirichlet concentration of each level's mix about that of the level above: lower, more apart."""

SECOND_RACE = np.array([0.012, 0.035, 0.30, 0.08, 0.45, 0.04])
"""Probability that a person of one race reports another too, by the first."""

OTHER_RACE = np.array([0.56, 0.14, 0.12, 0.08, 0.02, 0.08])
"""Which other."""

ANOTHER_RACE = 0.08
"""Probability of each further one."""

Masks = NDArray[np.uint8]


def mixes(rng: np.random.Generator, geography: Geography) -> dict[str, Floats]:
    """Shares of the communities in each county, tract and block.

    mix(unit) ~ Dirichlet(c mix(parent))

    where
        c   the concentration of the level

    Shares of the whole state are those of the nation only in the mean over seeds.
    """
    found: dict[str, Floats] = {"state": COMMUNITIES[None, :] / COMMUNITIES.sum()}
    above = "state"
    for level, concentration in CONCENTRATION.items():
        mean = found[above][geography.ancestors(above, of=level)]
        drawn = rng.standard_gamma(concentration * mean)
        total = drawn.sum(axis=1, keepdims=True)
        # Shapes near zero can all underflow; such a unit is like its parent.
        found[level] = np.where(total > 0, drawn / np.where(total > 0, total, 1.0), mean)
        above = level
    return found


def draw_community(rng: np.random.Generator, mix: Floats, unit: Ints32) -> NDArray[np.int16]:
    """One community for each row, from the mix of its unit."""
    upto = np.cumsum(mix, axis=1)
    upto /= upto[:, -1:]
    point = rng.random(len(unit))
    community = np.zeros(len(unit), dtype=np.int16)
    for k in range(mix.shape[1] - 1):
        community += point >= upto[unit, k]
    return community


def race_mask(rng: np.random.Generator, community: NDArray[np.int16]) -> Masks:
    """The races a member of each community reports, as bits; mostly one."""
    first = community % 6
    mask = np.left_shift(1, first).astype(np.uint8)
    more = np.flatnonzero(rng.random(len(mask)) < SECOND_RACE[first])
    while len(more):
        extra = rng.choice(6, size=len(more), p=OTHER_RACE)
        mask[more] |= np.left_shift(1, extra).astype(np.uint8)
        more = more[rng.random(len(more)) < ANOTHER_RACE]
    return mask


SIZES = np.array([0.2674, 0.3276, 0.1607, 0.1339, 0.0646, 0.0256])
"""Shares of households of 1 to 6 people (United States, 2010); the rest are larger."""

LARGE = 0.48
"""Households of 7 and more: 6 + a geometric variable with this probability, 14 at most."""

ALONE, COUPLE, PARENT, OTHERS = range(4)
TYPES = np.array(
    [
        [1.00, 0.00, 0.00, 0.00],
        [0.00, 0.66, 0.14, 0.20],
        [0.00, 0.63, 0.25, 0.12],
        [0.00, 0.75, 0.17, 0.08],
        [0.00, 0.76, 0.17, 0.07],
    ]
)
"""Shares of household types by size 1, 2, 3, 4, 5 and more: alone, couple, parent, others."""

OTHER_MEMBER = 0.10
"""In a family, share of members beyond parents who are not children of the householder."""

SAME_SEX = 0.01
OTHER_COMMUNITY = 0.09
"""Share of partners from another community; of unrelated members it is three times that."""

AGES = {
    "alone": (
        (18, 22, 26, 40, 50, 60, 70, 80, 88, 90),
        (0.3, 1.3, 1.6, 1.0, 1.5, 2.0, 1.6, 1.4, 1.0, 2.0),
    ),
    "pair": (
        (18, 23, 28, 34, 42, 52, 60, 68, 78, 86, 90),
        (0.1, 1.7, 1.8, 0.8, 0.8, 2.0, 2.9, 2.1, 1.0, 0.3, 0.1),
    ),
    "family": (
        (18, 22, 30, 38, 45, 52, 60, 75, 90),
        (0.1, 0.4, 1.6, 2.7, 3.2, 2.8, 1.1, 0.15, 0),
    ),
    "parent": ((18, 24, 34, 42, 50, 60, 80, 90), (0.5, 1.3, 2.0, 2.3, 1.9, 1.1, 0.6, 0.3)),
    "others": ((18, 22, 28, 40, 60, 80, 90), (2.5, 3.5, 2.6, 1.2, 1.0, 0.5, 0.2)),
    "member": ((0, 17, 18, 24, 35, 60, 80, 90), (0.7, 0.7, 2.2, 3.0, 1.0, 0.7, 0.6, 0.2)),
}
"""Ages of householders and of other members: heights at knots, straight lines between."""


@dataclass(frozen=True, eq=False)
class TownPeople:
    """Codes of people in the order of their dwellings; races as bits."""

    age: NDArray[np.int16]
    sex: NDArray[np.int16]
    races: Masks
    hispanic: NDArray[np.int16]


def nobody(number: int) -> TownPeople:
    """Room for so many people, to be filled in."""
    age, sex, hispanic = np.zeros((3, number), dtype=np.int16)
    return TownPeople(age, sex, np.zeros(number, dtype=np.uint8), hispanic)


def household_sizes(rng: np.random.Generator, number: int) -> Ints:
    """Sizes of so many households."""
    size = 1 + rng.choice(7, size=number, p=[*SIZES, 1 - SIZES.sum()])
    large = np.flatnonzero(size == 7)
    size[large] = np.minimum(6 + rng.geometric(LARGE, size=len(large)), 14)
    return np.asarray(size, dtype=np.int64)


def age_chances(knots: tuple[int, ...], heights: tuple[float, ...]) -> Floats:
    """Probabilities of the ages 0 to 90 from heights at knots; nobody outside the knots."""
    height = np.interp(np.arange(OLDEST + 1), knots, heights, left=0, right=0)
    return np.asarray(height / height.sum())


def fill_households(
    rng: np.random.Generator,
    people: TownPeople,
    *,
    first: Ints,
    size: Ints,
    unit: Ints32,
    mix: Floats,
    wealth: Floats,
) -> NDArray[np.int16]:
    """Fill in the people of households and return each household's tenure.

    where
        first, size   position of the householder, and people in the household
        unit, mix     where the household is, and the mix of communities there
        wealth        how well off its neighbourhood is, in standard deviations
    """
    kind = _types(rng, size)
    community = draw_community(rng, mix, unit)
    _householders(rng, people, first, size, kind, community)
    couple = np.flatnonzero(kind == COUPLE)
    partner = _partners(rng, people, first[couple], unit[couple], community[couple], mix)
    rest = size - 1
    rest[couple] -= 1
    household = np.repeat(np.arange(len(size)), rest)
    place = np.arange(len(household)) - np.repeat(np.cumsum(rest) - rest, rest)
    person = first[household] + size[household] - 1 - place
    related = (kind[household] != OTHERS) & (rng.random(len(household)) >= OTHER_MEMBER)
    second = first.copy()
    second[couple] = partner
    _children(rng, people, person[related], first[household[related]], second[household[related]])
    free, head = person[~related], household[~related]
    _others(rng, people, free, unit[head], community[head], mix)
    return _tenure(rng, people.age[first], kind, wealth)


def _types(rng: np.random.Generator, size: Ints) -> NDArray[np.int8]:
    upto = np.cumsum(TYPES, axis=1)[np.minimum(size, len(TYPES)) - 1, :-1]
    return np.asarray((rng.random(len(size))[:, None] >= upto).sum(axis=1), dtype=np.int8)


def _householders(
    rng: np.random.Generator,
    people: TownPeople,
    first: Ints,
    size: Ints,
    kind: NDArray[np.int8],
    community: NDArray[np.int16],
) -> None:
    female = np.select([kind == PARENT, kind == COUPLE], [0.76, 0.38], 0.47)
    groups = {
        "alone": kind == ALONE,
        "pair": (kind == COUPLE) & (size == 2),
        "family": (kind == COUPLE) & (size > 2),
        "parent": kind == PARENT,
        "others": kind == OTHERS,
    }
    for name, chosen in groups.items():
        people.age[first[chosen]] = _ages(rng, name, int(chosen.sum()))
    age = people.age[first]
    female[(kind == ALONE) & (age >= 65)] = 0.71  # women outlive men
    people.sex[first] = np.where(rng.random(len(first)) < female, FEMALE, MALE)
    people.races[first] = race_mask(rng, community)
    people.hispanic[first] = community // 6


def _ages(rng: np.random.Generator, name: str, number: int) -> NDArray[np.int16]:
    drawn = rng.choice(OLDEST + 1, size=number, p=age_chances(*AGES[name]))
    return np.asarray(drawn, dtype=np.int16)


def _partners(
    rng: np.random.Generator,
    people: TownPeople,
    head: Ints,
    unit: Ints32,
    community: NDArray[np.int16],
    mix: Floats,
) -> Ints:
    """Partners are of about the same age, mostly of the other sex and the same community."""
    person = head + 1
    same = rng.random(len(head)) < SAME_SEX
    sex = np.where(same, people.sex[head], FEMALE - people.sex[head])
    older = np.where(sex == MALE, 2.0, -2.0)
    gap = np.rint(rng.normal(older, 4.0, size=len(head)))
    people.age[person] = np.clip(people.age[head] + gap, 18, OLDEST)
    people.sex[person] = sex
    _same_or_other(rng, people, person, unit, community, mix, other=OTHER_COMMUNITY)
    return person


def _same_or_other(
    rng: np.random.Generator,
    people: TownPeople,
    person: Ints,
    unit: Ints32,
    community: NDArray[np.int16],
    mix: Floats,
    *,
    other: float,
) -> None:
    community = community.copy()
    moved = np.flatnonzero(rng.random(len(person)) < other)
    # From anywhere in the state: half the time someone met here, half the time someone from afar.
    near = draw_community(rng, mix, unit[moved])
    far = draw_community(rng, mix, rng.permutation(unit[moved]))
    community[moved] = np.where(rng.random(len(moved)) < 0.5, near, far)
    people.races[person] = race_mask(rng, community)
    people.hispanic[person] = community // 6


def _children(
    rng: np.random.Generator,
    people: TownPeople,
    person: Ints,
    one: Ints,
    two: Ints,
) -> None:
    """Children of a parent or of two: ages a generation below, races and origin of either or both.

    Most who would be grown have left home: a child at home takes their place if the parent is
    young enough to have one.
    """
    parent = people.age[one].astype(np.int64)
    age = np.rint(parent - rng.normal(28.0, 5.5, size=len(person)))
    most = np.clip(parent - 16, 0, 17)
    redrawn = (age < 0) | ((age > 18) & (parent <= 62) & (rng.random(len(person)) < 0.60))
    people.age[person] = np.where(redrawn, rng.integers(0, most + 1), np.clip(age, 0, OLDEST))
    people.sex[person] = rng.random(len(person)) < 0.489
    choice = rng.random(len(person))
    first, second = people.races[one], people.races[two]
    people.races[person] = np.select([choice < 0.5, choice < 0.75], [first | second, first], second)
    both = people.hispanic[one] | people.hispanic[two]
    people.hispanic[person] = both & (
        (people.hispanic[one] == people.hispanic[two]) | (rng.random(len(person)) < 0.7)
    )


def _others(
    rng: np.random.Generator,
    people: TownPeople,
    person: Ints,
    unit: Ints32,
    community: NDArray[np.int16],
    mix: Floats,
) -> None:
    people.age[person] = _ages(rng, "member", len(person))
    people.sex[person] = rng.random(len(person)) < 0.5
    _same_or_other(rng, people, person, unit, community, mix, other=3 * OTHER_COMMUNITY)


def _tenure(
    rng: np.random.Generator,
    age: NDArray[np.int16],
    kind: NDArray[np.int8],
    wealth: Floats,
) -> NDArray[np.int16]:
    """Owners are older, in couples, and in well-off neighbourhoods: a logistic rule."""
    score = -0.25 + 0.055 * (np.minimum(age, 68) - 35.0) + 1.2 * wealth
    score += np.select([kind == COUPLE, kind == PARENT], [1.15, -0.1], -0.35)
    own = rng.random(len(age)) < 1 / (1 + np.exp(-score))
    return np.where(own, OWN, RENT).astype(np.int16)
