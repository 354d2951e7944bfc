"""An integer programme that finds the best swap of a small town, pair by pair.

The programme shares no code with the mechanism. It knows households by their key, where they live,
and how many people are like theirs in each unit, and it is told pair by pair who may meet:

    maximise  sum of value(e) x(e)   subject to   sum over e at h of x(e) <= 1 for each household h,
              = 1 for each that must be paired,   sum of x(e) <= pairs,   x(e) in {0, 1}

where
    e         a pair of households that may change places
    x(e)      whether it does
    value(e)  1, or the number of its households that are at risk
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.mechanisms.swapping.keys import PseudoUnits
from headcount.mechanisms.swapping.mechanism import HouseholdSwapping
from headcount.mechanisms.swapping.risk import Risk
from headcount.population.population import Households
from headcount.schema import Attribute

LEVELS = ("state", "county", "tract", "block")
RACES, TENURES = ("a", "b", "c"), ("own", "rent")


@dataclass(frozen=True)
class SwapVerdict:
    """What the programme says of one swap; all but the first three must be false.

    where
        at_risk    somebody was at risk
        scarce     not all at risk can be swapped, whoever moves
        short      the rate cannot be met
        misfit     a pair that may not be
        left       somebody at risk stayed who could have been swapped beside all who were
        fewer      fewer at risk were swapped than can be with the pairs that the rate asks for
        idle       two moved without risk while somebody at risk who could have been swapped stayed
        missed     not as many pairs as the rate asks for, though there could be
    """

    at_risk: bool
    scarce: bool
    short: bool
    misfit: bool
    left: bool
    fewer: bool
    idle: bool
    missed: bool


def examine(seed: int) -> SwapVerdict:
    """Swap one random population and judge it."""
    rng = np.random.default_rng(seed)
    town, mechanism = some_town(rng), some_mechanism(rng)
    try:
        partner = mechanism.swap(town, rng).partner
    except InputError:  # nobody could change places: that too is judged
        partner = np.full(len(town.block), -1)
    return judge(town, mechanism, partner)


def some_town(rng: np.random.Generator, *, households: int = 0) -> Households:
    """Households of one or two people on a small map, unevenly spread."""
    units, parents = [np.array(["s"])], [np.empty(0, dtype=np.int32)]
    for _ in LEVELS[1:]:
        children = rng.integers(1, 4, len(units[-1]))
        parents.append(np.repeat(np.arange(len(units[-1]), dtype=np.int32), children))
        units.append(np.array([f"{len(units)}.{i}" for i in range(children.sum())]))
    geography = Geography(LEVELS, tuple(units), tuple(parents))
    count = households or int(rng.integers(6, 31))
    weight = rng.dirichlet(np.full(len(units[-1]), rng.choice([0.3, 1, 5])))
    size = rng.integers(1, 3, count)
    people = int(size.sum())
    return Households(
        "town",
        geography,
        (Attribute("race", RACES),),
        (Attribute("tenure", TENURES),),
        ("household",),
        rng.choice(len(units[-1]), count, p=weight).astype(np.int32),
        np.zeros(count, dtype=np.int8),
        np.concatenate([[0], np.cumsum(size)]).astype(np.int64),
        {"race": rng.choice(3, people, p=[0.6, 0.25, 0.15])},
        {"tenure": rng.integers(0, 2, count)},
    )


def some_mechanism(rng: np.random.Generator) -> HouseholdSwapping:
    """Household swapping with settings at random."""
    within, between = [("", ""), ("county", ""), ("", "tract"), ("tract", "")][rng.integers(4)]
    levels = [level for level in LEVELS if rng.random() < 0.6] or ["block"]
    k = int(rng.integers(0, 5))
    elsewhere = PseudoUnits(level="tract", permute=(("state", Fraction(1, 2)),))
    return HouseholdSwapping(
        rate=Fraction(int(rng.integers(0, 11)), 10),
        key=("size",) if rng.random() < 0.5 else (),
        within=within,
        between=between,
        nearest=("state",) if rng.random() < 0.3 else (),
        risk=Risk(attributes=("race",), levels=tuple(levels), k=k),
        rate_is_floor=k > 0 and bool(rng.random() < 0.5),
        pseudo=elsewhere if rng.random() < 0.3 else None,
    )


def judge(town: Households, mechanism: HouseholdSwapping, partner: Ints) -> SwapVerdict:
    """Compare a swap with the best that there could be."""
    risky, edges = at_risk_and_pairs(town, mechanism)
    households = len(town.block)
    swaps = {(h, p) for h, p in enumerate(partner.tolist()) if p > h}
    moved = {h for pair in swaps for h in pair}
    asked = round((mechanism.rate * households - Fraction(1, 100)) / 2)  # a tie goes down
    limit = None if mechanism.rate_is_floor else asked
    at_risk = [len(risky & {*e}) for e in edges]
    possible = most(edges, households)
    served, stayed = risky & moved, risky - moved
    could = {r for r in stayed if most(edges, households, must=served | {r}, pairs=limit) >= 0}
    return SwapVerdict(
        at_risk=bool(risky),
        scarce=most(edges, households, value=at_risk) < len(risky),
        short=possible < asked,
        misfit=not swaps <= {*edges},
        left=bool(could),
        fewer=len(served) < most(edges, households, value=at_risk, pairs=limit),
        idle=bool(could) and any(not risky & {*pair} for pair in swaps),
        missed=len(swaps) < min(asked, possible)
        or (not mechanism.rate_is_floor and len(swaps) > asked),
    )


def at_risk_and_pairs(
    town: Households, mechanism: HouseholdSwapping
) -> tuple[set[int], list[tuple[int, int]]]:
    """Who is at risk, and who may change places with whom, by the definitions in the docs."""
    rule = mechanism.risk
    assert rule is not None
    tree = town.geography
    homes = range(len(town.block))
    lives = {level: tree.ancestors(level)[town.block].tolist() for level in tree.levels}
    race = town.persons["race"].tolist()
    members = [race[town.first[h] : town.first[h + 1]] for h in homes]
    leave = [mechanism.between or tree.leaf for _ in homes]
    risky = set()
    for level in sorted(rule.levels, key=tree.depth, reverse=True):  # the coarsest is the last word
        like = Counter((lives[level][h], r) for h in homes for r in members[h])
        kept = tree.depth(mechanism.within or tree.levels[0])
        for h in homes:
            if min(like[lives[level][h], r] for r in members[h]) < rule.k:
                risky.add(h)
                depth = max(tree.depth(level), kept + 1)
                leave[h] = tree.levels[min(depth, tree.depth(mechanism.between or tree.leaf))]
    kept_in = lives[mechanism.within or tree.levels[0]]
    key = [len(members[h]) if mechanism.key else 0 for h in homes]
    pairs = [
        (a, b)
        for a, b in combinations(homes, 2)
        if key[a] == key[b]
        and kept_in[a] == kept_in[b]
        and all(lives[leave[h]][a] != lives[leave[h]][b] for h in (a, b))
    ]
    return risky, pairs


def most(
    edges: Sequence[tuple[int, int]],
    households: int,
    *,
    value: Sequence[int] | None = None,
    must: set[int] | frozenset[int] = frozenset(),
    pairs: int | None = None,
) -> int:
    """The largest value of pairs that fit together, -1 if not all who must can be paired."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    if not edges:
        return -1 if must else 0
    ends = np.zeros((households + 1, len(edges)))
    for e, (a, b) in enumerate(edges):
        ends[[a, b, households], e] = 1
    low = np.array([float(h in must) for h in range(households)] + [0.0])
    high = np.array([1.0] * households + [float(len(edges) if pairs is None else pairs)])
    worth = np.ones(len(edges)) if value is None else np.array(value, dtype=float)
    solved = milp(
        -worth,
        constraints=LinearConstraint(ends, low, high),
        integrality=np.ones(len(edges)),
        bounds=Bounds(0, 1),
    )
    if solved.status == 2:
        return -1
    if solved.x is None or solved.status != 0:
        raise RuntimeError(f"the solver gave up: {solved.message}")
    return int(np.round(worth @ np.round(solved.x)))
