"""Protecting the cells of one region: route, then take up and route again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.mechanisms.suppression.moves import Floats, Ints, Move, Mover
from headcount.mechanisms.suppression.release import release

Flags = NDArray[np.bool_]
SMALL_REGION = 400
"""Regions of up to this many cells are tried several times."""


@dataclass(eq=False)
class _State:
    """Which moves stand, what they use and whom they protect."""

    need: Ints
    kept: Flags  # withheld whatever we do
    used: Ints  # standing moves through each cell
    covers: Ints  # standing moves that protect each cell
    moves: dict[int, Move] = field(default_factory=dict)
    serial: int = 0

    def add(self, one: Move, mover: Mover) -> int:
        self.used[one.cell] += 1
        self.covers[one.cell] += one.width >= self.need[one.cell]
        mover.set_free(one.cell, True)
        self.serial += 1
        self.moves[self.serial] = one
        return self.serial

    def drop(self, number: int, mover: Mover) -> Move:
        one = self.moves.pop(number)
        self.used[one.cell] -= 1
        self.covers[one.cell] -= one.width >= self.need[one.cell]
        mover.set_free(one.cell[(self.used[one.cell] == 0) & ~self.kept[one.cell]], False)
        return one

    def own(self, number: int) -> Ints:
        """Cells that are withheld for one move only."""
        cell = self.moves[number].cell
        return np.asarray(cell[(self.used[cell] == 1) & ~self.kept[cell]])


@dataclass(frozen=True, eq=False, kw_only=True)
class Protected:
    """What a region needs: cells to withhold, widths proven, and targets that nothing protects."""

    withheld: Flags
    proven: Ints
    failed: Ints
    programs: int


def protect_region(
    matrix: Any, x: Ints, price: Floats, *, withheld: Flags, targets: Ints, width: Ints, effort: int
) -> Protected:
    """Cheap moves that make each target uncertain by its width; ``withheld`` cells cost nothing.

    Small regions are tried several times with other orders and prices a little off, always the
    same ones; the cheapest try is kept.
    """
    best: Protected | None = None
    least = np.inf
    tries = 1 + (min(12, 2000 // len(x)) * effort if len(x) <= SMALL_REGION else 0)
    for number in range(tries):
        rng = np.random.default_rng(number)
        order = rng.permutation(len(targets)) if number else np.arange(len(targets))
        off = np.exp(0.3 * rng.standard_normal(len(x))) if number else 1.0
        made = _try(
            matrix, x, price * off, withheld=withheld, targets=targets[order], width=width[order],
            effort=effort,
        )  # fmt: skip
        cost = float(price[made.withheld & ~withheld].sum())
        if cost < least - 1e-9:
            best, least = made, cost
        if not cost:
            break
    assert best is not None
    return best


def _try(
    matrix: Any, x: Ints, price: Floats, *, withheld: Flags, targets: Ints, width: Ints, effort: int
) -> Protected:
    """Route, route again, release.

    First each target gets its cheapest move, given those before. Then, ``effort`` times over, each
    move is taken up and its targets are routed anew, now that others are withheld; the new moves
    stay if they cost less. Last, unless ``effort`` is 0, cells are published again, the dearest
    first, while the attacker's own programs still leave every target its width.
    """
    need = np.zeros(len(x), dtype=np.int64)
    need[targets] = width
    mover = Mover(matrix, x, price)
    mover.set_free(np.flatnonzero(withheld), True)
    state = _State(
        need=np.where(need > 0, need, np.iinfo(np.int64).max), kept=withheld,
        used=np.zeros(len(x), dtype=np.int64), covers=np.zeros(len(x), dtype=np.int64),
    )  # fmt: skip
    failed = [t for t in targets if not state.covers[t] and not _route(int(t), state, mover)]
    for _ in range(effort):
        if not _improve(state, mover):
            break
    need[failed] = 0
    pattern = withheld | (state.used > 0)
    if effort:
        pattern, proven = release(matrix, x, price, withheld=pattern, kept=withheld, need=need)
    else:
        proven = np.zeros(len(x), dtype=np.int64)
        for one in state.moves.values():
            proven[one.cell] = np.maximum(proven[one.cell], one.width)
    return Protected(
        withheld=pattern,
        proven=proven,
        failed=np.array(failed, dtype=np.int64),
        programs=state.serial,
    )


def _route(target: int, state: _State, mover: Mover) -> int:
    found = mover.cheapest(target, int(state.need[target]))
    return 0 if found is None else state.add(found, mover)


def _improve(state: _State, mover: Mover) -> bool:
    """Take up each move and route anew; whether anything was gained."""
    gained = False
    price = {number: mover.price[state.own(number)].sum() for number in state.moves}
    for number in sorted(price, key=lambda one: (-price[one], one)):
        if mover.price[state.own(number)].sum() > 0:
            gained |= _again(number, state, mover)
    return gained


def _again(number: int, state: _State, mover: Mover) -> bool:
    before = mover.price[state.own(number)].sum()
    old = state.drop(number, mover)
    bare = old.cell[(state.covers[old.cell] == 0) & (old.width >= state.need[old.cell])]
    fresh: list[int] = []
    after = 0.0
    for target in bare:
        if state.covers[target]:
            continue
        found = mover.cheapest(int(target), int(state.need[target]))
        if found is None:
            after = np.inf
            break
        after += mover.price[found.cell[~mover.free[found.cell]]].sum()
        fresh.append(state.add(found, mover))
        if after >= before:
            break
    if after < before - 1e-9 and all(state.covers[bare]):
        return True
    for one in fresh:
        state.drop(one, mover)
    state.add(old, mover)
    return False
