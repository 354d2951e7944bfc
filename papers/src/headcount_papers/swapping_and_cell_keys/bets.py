"""An attacker who bets on small counts, at stated odds, and only where he expects to win.

For every count the attacker may bet that it is exactly one, or exactly two ("exact"), or that it is
one or two ("few"). A right bet wins 1, a wrong one loses the odds o, so he bets where

    P(claim | clues) > o / (1 + o)

where
    clues   what he sees of the count: its published value, its range, the mean of its sums, and
            what the totals above let him expect

He learns P in one half of the places, where he is told the truth, and bets in the other half; then
the other way round. What he wins, less what he loses, as a share of all small counts is the risk:
100 % if every small count can be read off the release, 0 if no bet is worth making. Odds learnt
from few places can be wrong, so that he loses a little where there is next to nothing to win.

Clues come in steps from coarse to fine. A step that was rarely seen leans on the one before it:

    p_j = (k_j + l_j p_(j-1)) / (n_j + l_j)

where
    l_j   FIRST_LEAN at the first step, LEAN later: what it leans by, in places
    n_j   places of the learning half with the same clues up to step j
    k_j   those of them in which the claim is true
    p_0   the share of all counts of the learning half
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import InputError

FIRST_LEAN, LEAN = 1.0, 30.0
"""Of 3, 10, 30, 60 and 100, tried on eleven chains, the one with which the attacker won most; risks
above 10 % moved by 2 points at most."""
SMALLEST, LARGEST = 1, 2
"""The counts that offices call small."""
CLAIMS: dict[str, tuple[tuple[int, ...], ...]] = {"exact": ((1,), (2,)), "few": ((1, 2),)}
"""What can be claimed: exactly so many, or a few."""


@dataclass(frozen=True, kw_only=True)
class Bets:
    """How the bets ended.

    where
        small   counts of one or two people: what there is to win
        odds    what a wrong bet costs
    """

    small: int
    right: int
    wrong: int
    odds: int

    @property
    def percent(self) -> float:
        """What was won, less what was lost, in percent of what there was to win."""
        won = self.right - self.odds * self.wrong
        return 100 * won / self.small if self.small else float("nan")


def is_small(counts: Ints) -> Flags:
    """Counts of one or two people."""
    return (counts >= SMALLEST) & (counts <= LARGEST)


def joined(*clues: Ints, most: int) -> Ints:
    """Several clues as one number, each cut to 0 ... ``most``."""
    number = np.zeros(clues[0].shape, dtype=np.int64)
    for clue in clues:
        number = number * (most + 1) + np.clip(clue, 0, most)
    return number


def bet(steps: Sequence[Ints], truth: Ints, half: Flags, *, claim: str, odds: int) -> Bets:
    """Bet on every count.

    where
        steps   clues of each count, as numbers, from coarse to fine
        truth   the counts themselves
        half    in which half of the places each is
        claim   one of ``CLAIMS``
    """
    if any(step.shape != truth.shape for step in (*steps, half)):
        raise InputError("bets", found="clues of another shape", expected=f"{truth.shape}")
    right = wrong = 0
    for learning in (half, ~half):
        chances, claims = _chances(steps, truth, learning, CLAIMS[claim])
        best = chances.argmax(axis=0)
        speaks = ~learning & (chances.max(axis=0) > odds / (1 + odds))
        true = np.take_along_axis(claims, best[None], axis=0)[0]
        right += int((speaks & true).sum())
        wrong += int((speaks & ~true).sum())
    return Bets(small=int(is_small(truth).sum()), right=right, wrong=wrong, odds=odds)


def _chances(
    steps: Sequence[Ints], truth: Ints, learning: Flags, claims: tuple[tuple[int, ...], ...]
) -> tuple[Floats, Any]:
    """For each claim and count how likely it is, and whether it is true."""
    holds = np.stack([np.isin(truth, claim) for claim in claims])
    chances = np.empty(holds.shape)
    for number, true in enumerate(holds):
        known = true[learning]
        chance = np.full(truth.shape, known.mean() if known.size else 0.0)
        for step in steps:
            size = int(step.max(initial=0)) + 1
            seen = np.bincount(step[learning], minlength=size)
            won = np.bincount(step[learning], weights=known, minlength=size)
            lean = FIRST_LEAN if step is steps[0] else LEAN
            chance = (won[step] + lean * chance) / (seen[step] + lean)
        chances[number] = chance
    return chances, holds
