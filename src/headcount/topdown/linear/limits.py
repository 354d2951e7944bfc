"""What least squares cannot do: refused in words, before memory runs out.

Counts that nothing takes apart (components.py) are estimated together, by matrices of as many rows.
Structural zeros and groups of levels are what leaves many together.
"""

from __future__ import annotations

from headcount.errors import ConfigError
from headcount.memory import gib, memory_limit

MOST_TOGETHER = 1_000
"""Rows of one matrix. To take one of 990 apart takes 9 s and 0.7 GiB, and time goes with the cube
of it."""
LITTLE = 1 << 30
"""Bytes that any machine has."""
SCALAR = 8


class TooManyTogether(ConfigError):
    """Counts that least squares would have to estimate together are too many."""


def refuse_too_many(rows: int) -> None:
    """Refuse combinations of levels that are too many for one matrix."""
    if rows > MOST_TOGETHER:
        raise TooManyTogether(
            "least squares",
            place="structural zeros and groups of levels",
            found=f"{rows:,} combinations of levels that they tell apart, to be estimated together",
            expected=f"at most {MOST_TOGETHER:,}: fewer structural zeros, or queries that group "
            "levels in the same way",
        )


def refuse_beyond_memory(matrices: int, rows: int, *, of: str) -> None:
    """Refuse more square matrices than this machine can hold at once."""
    need = matrices * rows**2 * SCALAR
    if need > LITTLE and need > (most := memory_limit()):
        raise TooManyTogether(
            "least squares",
            place="memory",
            found=f"{rows:,} counts to be estimated together in {of}, which needs {gib(need)}",
            expected=f"at most the {gib(most)} of this machine: fewer structural zeros, or queries "
            "that group levels in the same way",
        )
