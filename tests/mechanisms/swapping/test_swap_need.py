"""Who is served, against every set of pairs that there could be."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.mechanisms.swapping import _pairing as pairing
from headcount.mechanisms.swapping._need import Fits, alone, serve
from headcount.mechanisms.swapping._pairing import Stage, choose_pairs, settle


@dataclass(frozen=True)
class Case:
    """Households on a map of three levels; the first ``at_risk`` of the order are at risk."""

    key: np.ndarray
    where: np.ndarray
    depth: np.ndarray
    order: np.ndarray
    at_risk: int

    @property
    def fits(self) -> Fits:
        places = (self.where // 4, self.where // 2, self.where)
        return Fits(self.key, places, (3, 6, 12), self.depth)

    @property
    def stages(self) -> list[Stage]:
        """Near by in a unit of the middle level, then anywhere."""
        places = self.fits.places
        near = [Stage(self.key * 6 + places[1], places[2], 12, self.depth >= 2)]
        far = [
            Stage(self.key, places[d], size, self.depth >= d)
            for d, size in ((2, 12), (1, 6), (0, 3))
        ]
        return near + far

    def may(self, a: int, b: int) -> bool:
        """Each lives outside the unit that the other has to leave."""
        unit = (4, 2, 1)
        return self.key[a] == self.key[b] and all(
            self.where[a] // unit[self.depth[h]] != self.where[b] // unit[self.depth[h]]
            for h in (a, b)
        )

    @cached_property
    def pairings(self) -> dict[frozenset[int], int]:
        """Every set of households that can be paired, with the number of its pairs."""
        found = {frozenset[int](): 0}

        def extend(start: int, taken: frozenset[int]) -> None:
            for a in range(start, len(self.key)):
                for b in range(a + 1, len(self.key)):
                    if a not in taken and b not in taken and self.may(a, b):
                        both = taken | {a, b}
                        found[both] = len(both) // 2
                        extend(a + 1, both)

        extend(0, frozenset())
        return found

    @property
    def possible(self) -> int:
        return max(self.pairings.values())

    def cost(self, some: set[int]) -> float:
        """The fewest pairs that serve all of some households."""
        return min((n for taken, n in self.pairings.items() if some <= taken), default=np.inf)

    def best(self, pairs: float) -> set[int]:
        """The first in the order of the sets at risk that can be served and are largest."""
        risky = self.order[: self.at_risk].tolist()
        sets = [taken & {*risky} for taken, n in self.pairings.items() if n <= pairs]
        largest = max(map(len, sets))
        sets = [one for one in sets if len(one) == largest]
        served: set[int] = set()
        for h in risky:
            if any(served | {h} <= one for one in sets):
                served.add(h)
        return served


@st.composite
def cases(draw: st.DrawFn, *, most: int = 9) -> Case:
    count = draw(st.integers(2, most))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    where = rng.choice(12, count, p=rng.dirichlet(np.full(12, rng.choice([0.2, 1.0]))))
    at_risk = int(rng.integers(0, count + 1))
    order = rng.permutation(count)
    depth = np.full(count, 2)
    depth[order[:at_risk]] = rng.choice(3, at_risk)
    keys = int(rng.integers(1, 3))
    return Case(rng.integers(0, keys, count), where, depth, order, at_risk)


@given(cases())
def test_as_many_stay_alone_as_must(case):
    groups, fewest = alone(np.arange(len(case.key)), case.fits)
    assert groups.tolist() == sorted(set(case.key.tolist()))
    assert fewest.sum() == len(case.key) - 2 * case.possible
    for group, left in zip(groups, fewest, strict=True):
        members = {*np.flatnonzero(case.key == group).tolist()}
        assert left == len(members) - max(len(taken & members) for taken in case.pairings)


@given(cases(), st.integers(-1, 5))
def test_served_are_as_many_as_can_be_riskiest_first(case, pairs):
    served = serve(case.order[: case.at_risk], case.fits, pairs=pairs)
    assert {*served.rows.tolist()} == case.best(np.inf if pairs < 0 else pairs)
    for h in served.hopeless.tolist():
        before = case.order[: case.order.tolist().index(h)]
        assert case.cost({h, *np.intersect1d(served.rows, before).tolist()}) == np.inf


@given(cases(), st.integers(0, 5), st.booleans(), st.integers(0, 99))
def test_those_served_come_first_and_the_rate_is_met_where_it_can_be(case, wanted, every, seed):
    pairs = choose_pairs(
        case.order,
        case.fits,
        case.stages,
        wanted=wanted,
        at_risk=case.at_risk,
        all_at_risk=every,
        rng=np.random.default_rng(seed),
    )
    both = np.concatenate([pairs.first, pairs.second]).tolist()
    assert len({*both}) == len(both)
    assert all(case.may(a, b) for a, b in zip(pairs.first, pairs.second, strict=True))
    served = case.best(np.inf if every else wanted)
    assert {*both} & {*case.order[: case.at_risk].tolist()} == served
    assert len(pairs) == max(min(wanted, case.possible), case.cost(served) if every else 0)
    assert not {*both} & {*pairs.unpaired.tolist()}


@given(cases())
def test_a_higher_rate_never_serves_fewer(case):
    """Served at one rate, served at every higher one: and as many as can be, given enough pairs."""
    served = [case.best(pairs) for pairs in range(case.possible + 1)]
    assert all(low <= high for low, high in pairwise(served))
    risky = {*case.order[: case.at_risk].tolist()}
    assert len(served[-1]) == max(len(risky & taken) for taken in case.pairings)


@given(cases(), st.integers(0, 99))
def test_from_any_pairs_the_most_pairs_are_reached(case, seed):
    rng = np.random.default_rng(seed)
    made = [taken for taken in case.pairings if len(taken) == 2]
    first: list[int] = []
    second: list[int] = []
    used: set[int] = set()
    for a, b in (sorted(one) for one in rng.permutation(np.array(made, dtype=object))):
        if not {a, b} & used and rng.random() < 0.8:
            used |= {a, b}
            first, second = [*first, a], [*second, b]
    left = np.array([h for h in range(len(case.key)) if h not in used], dtype=np.int64)
    one, other, still = settle(np.array(first, int), np.array(second, int), left, case.fits)
    assert len(one) == len(other) == case.possible
    assert all(case.may(a, b) for a, b in zip(one, other, strict=True))
    everyone = np.concatenate([one, other, still])
    assert np.array_equal(np.sort(everyone), np.arange(len(case.key)))


def test_without_breaking_pairs_up_fewer_are_reached(monkeypatch):
    """Two in one block, a pair of neighbours elsewhere: all move if the pair is broken up."""
    unit, block = np.array([0, 0, 1, 1]), np.array([0, 0, 2, 3])
    fits = Fits(np.zeros(4, int), (unit, block), (2, 4), np.ones(4, int))
    first, second, left = np.array([2]), np.array([3]), np.array([0, 1])
    one, _, still = settle(first, second, left, fits)
    assert len(one) == 2
    assert len(still) == 0
    monkeypatch.setattr(pairing, "_break_up", lambda *_: None)
    one, _, still = settle(first, second, left, fits)
    assert len(one) == 1
    assert sorted(still.tolist()) == [0, 1]


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_large_populations_reach_the_most_pairs(share):
    """Thousands, one place with a large part of them: as many pairs as the counts allow."""
    rng = np.random.default_rng(3)
    count = 4001
    where = np.where(rng.random(count) < share, 5, rng.integers(0, 12, count))
    order, at_risk = rng.permutation(count), 1500
    depth = np.full(count, 2)
    depth[order[:at_risk]] = rng.choice(3, at_risk)
    case = Case(rng.integers(0, 2, count), where, depth, order, at_risk)
    rows = np.arange(count)
    pairs = choose_pairs(order, case.fits, case.stages, wanted=count, at_risk=at_risk, rng=rng)
    assert all(case.may(a, b) for a, b in zip(pairs.first, pairs.second, strict=True))
    assert 2 * len(pairs) == count - alone(rows, case.fits)[1].sum()
