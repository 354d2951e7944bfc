"""Protecting the cells of one region: route, then take up and route again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.mechanisms.suppression._prune import prune
from headcount.mechanisms.suppression.moves import Mover, Need, Proof

SMALL_REGION = 400
"""Regions of up to this many cells are tried several times."""


@dataclass(eq=False)
class _State:
    """Which proofs stand, what they use and whom they protect."""

    need: Need
    fixed: Flags  # withheld whatever we do
    used: Ints  # standing proofs through each cell
    covers: Ints  # standing proofs that protect each cell
    proofs: dict[int, Proof] = field(default_factory=dict)
    serial: int = 0

    def add(self, one: Proof, mover: Mover) -> int:
        self.used[one.cell] += 1
        self.covers[one.cell] += self.need.met(one)
        mover.set_free(one.cell, True)
        self.serial += 1
        self.proofs[self.serial] = one
        return self.serial

    def drop(self, number: int, mover: Mover) -> Proof:
        one = self.proofs.pop(number)
        self.used[one.cell] -= 1
        self.covers[one.cell] -= self.need.met(one)
        mover.set_free(one.cell[(self.used[one.cell] == 0) & ~self.fixed[one.cell]], False)
        return one

    def own(self, number: int) -> Ints:
        """Cells that are withheld for one proof only."""
        cell = self.proofs[number].cell
        return np.asarray(cell[(self.used[cell] == 1) & ~self.fixed[cell]])

    def uncovered_without(self, number: int) -> Ints:
        """Cells that one proof alone protects."""
        one = self.proofs[number]
        return np.asarray(one.cell[self.need.met(one) & (self.covers[one.cell] == 1)])


@dataclass(frozen=True, eq=False, kw_only=True)
class Protected:
    """What a region needs: cells to withhold, and the proofs that they are enough."""

    withheld: Flags
    proofs: tuple[Proof, ...]
    failed: Ints
    programs: int


def protect_region(
    matrix: Any, x: Ints, price: Floats, *, withheld: Flags, targets: Ints, need: Need, effort: int
) -> Protected:
    """Cheap moves that give each target what it needs; ``withheld`` cells cost nothing.

    Small regions are tried several times with other orders and prices a little off, always the
    same ones; the try that protects most is kept, among such the cheapest.
    """
    best: Protected | None = None
    least = (len(targets) + 1, np.inf)
    tries = 1 + (min(12, 2000 // len(x)) * effort if len(x) <= SMALL_REGION else 0)
    for number in range(tries):
        rng = np.random.default_rng(number)
        order = rng.permutation(len(targets)) if number else np.arange(len(targets))
        off = np.exp(0.3 * rng.standard_normal(len(x))) if number else 1.0
        made = _try(
            matrix,
            x,
            price * off,
            withheld=withheld,
            targets=targets[order],
            need=need,
            effort=effort,
        )
        cost = (len(made.failed), float(price[made.withheld & ~withheld].sum()))
        if cost < (least[0], least[1] - 1e-9):
            best, least = made, cost
        if not any(cost):
            break
    assert best is not None
    return best


def _try(
    matrix: Any, x: Ints, price: Floats, *, withheld: Flags, targets: Ints, need: Need, effort: int
) -> Protected:
    """Route, route again, release.

    First each target gets its cheapest move, given those before. Then, ``effort`` times over, each
    proof is taken up and its targets are routed anew, now that others are withheld; the new ones
    stay if they cost less. Last, unless ``effort`` is 0, cells are published again, the dearest
    first, while moves on the others still give every target what it needs.
    """
    mover = Mover(matrix, x, price)
    mover.set_free(np.flatnonzero(withheld), True)
    wanted = np.zeros(len(x), dtype=bool)
    wanted[targets] = True
    state = _State(
        need=Need(rise=need.rise, width=np.where(wanted, need.width, 0)),
        fixed=withheld,
        used=np.zeros(len(x), dtype=np.int64),
        covers=np.zeros(len(x), dtype=np.int64),
    )
    failed = [t for t in targets if not state.covers[t] and not _route(int(t), state, mover)]
    failed = [t for t in failed if not state.covers[t]]
    for _ in range(effort):
        if not _improve(state, mover):
            break
    _thin(state, mover)
    pattern, proofs = withheld | (state.used > 0), tuple(state.proofs.values())
    if effort:
        state.need.width[failed] = 0
        pattern, proofs = prune(
            matrix, x, price, withheld=pattern, fixed=withheld, need=state.need, known=proofs
        )
    return Protected(
        withheld=pattern,
        proofs=proofs,
        failed=np.array(failed, dtype=np.int64),
        programs=state.serial,
    )


def _route(target: int, state: _State, mover: Mover) -> int:
    found = mover.cheapest(target, state.need)
    return 0 if found is None else state.add(found, mover)


def _thin(state: _State, mover: Mover) -> None:
    """Drop proofs whose targets have others by now, those first that cost most."""
    price = {number: mover.price[state.own(number)].sum() for number in state.proofs}
    for number in sorted(price, key=lambda one: (-price[one], one)):
        if not len(state.uncovered_without(number)):
            state.drop(number, mover)


def _improve(state: _State, mover: Mover) -> bool:
    """Take up each proof and route anew; whether anything was gained."""
    gained = False
    price = {number: mover.price[state.own(number)].sum() for number in state.proofs}
    for number in sorted(price, key=lambda one: (-price[one], one)):
        if mover.price[state.own(number)].sum() > 0:
            gained |= _again(number, state, mover)
    return gained


def _again(number: int, state: _State, mover: Mover) -> bool:
    before, uncovered = mover.price[state.own(number)].sum(), state.uncovered_without(number)
    old = state.drop(number, mover)
    fresh: list[int] = []
    after = 0.0
    for target in uncovered:
        if state.covers[target]:
            continue
        found = mover.cheapest(int(target), state.need)
        if found is None:
            after = np.inf
            break
        after += mover.price[found.cell[~mover.free[found.cell]]].sum()
        fresh.append(state.add(found, mover))
        if after >= before:
            break
    if after < before - 1e-9 and all(state.covers[uncovered]):
        return True
    for one in fresh:
        state.drop(one, mover)
    state.add(old, mover)
    return False
