"""The law of a sum of changes, by adding up: what theory says of gaps and means."""

from collections.abc import Mapping

import numpy as np


def gap_law(law: Mapping[int, float], terms: int) -> dict[int, float]:
    """The law of a sum of so many independent changes, each of this law."""
    values = np.arange(min(law), max(law) + 1)
    one = np.array([float(law.get(int(v), 0)) for v in values])
    found = np.ones(1)
    for _ in range(terms):
        found = np.convolve(found, one)
    first = terms * int(values[0])
    return {first + n: float(p) for n, p in enumerate(found)}


def chance_of_proof(law: Mapping[int, float], terms: int) -> float:
    """The chance that one gap proves the largest change: |gap| > terms (D - 1).

    Of large counts, whose zeros say nothing.
    """
    largest = max(abs(v) for v, p in law.items() if p)
    return sum(p for v, p in gap_law(law, terms).items() if abs(v) > terms * (largest - 1))
