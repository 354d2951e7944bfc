"""The 63 combinations of six races, numbered as the Bureau does, and groups of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations

SIX = ("white", "black", "aian", "asian", "nhpi", "other")
"""Races as the 2010 census has them; "other" is some other race."""

REST = "rest"
"""Stands for every combination that no other group holds."""


@cache
def combinations_of_races() -> tuple[tuple[str, ...], ...]:
    """All combinations by code - 1: 1-6 one race, 7-21 pairs, ..., 63 all six."""
    return tuple(c for size in range(1, 7) for c in combinations(SIX, size))


def race_name(code: int) -> str:
    """The races of a code, joined by '+'."""
    return "+".join(combinations_of_races()[code - 1])


def alone(race: str) -> frozenset[int]:
    """The code of one race alone."""
    return frozenset({SIX.index(race) + 1})


def in_combination(race: str) -> frozenset[int]:
    """The codes of a race alone or in combination with others."""
    return frozenset(
        code for code, races in enumerate(combinations_of_races(), start=1) if race in races
    )


def race_codes(terms: Sequence[str]) -> frozenset[int]:
    """Codes of a group: "white+black" is that combination, "*white" all that include white."""
    codes: set[int] = set()
    for term in terms:
        if term.startswith("*"):
            codes |= in_combination(term[1:])
        else:
            codes.add(
                combinations_of_races().index(tuple(sorted(term.split("+"), key=SIX.index))) + 1
            )
    return frozenset(codes)
