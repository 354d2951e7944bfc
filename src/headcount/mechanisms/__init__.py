"""Ways to protect counts."""

from headcount.mechanisms.base import Mechanism, Outcome, complete_guarantee, protect
from headcount.mechanisms.counting import Averaged, Geometric, Identity, Raked

__all__ = [
    "Averaged",
    "Geometric",
    "Identity",
    "Mechanism",
    "Outcome",
    "Raked",
    "complete_guarantee",
    "protect",
]
