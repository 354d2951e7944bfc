"""Ways to protect counts."""

from headcount.mechanisms.base import Context, Mechanism, Outcome, complete_guarantee, protect
from headcount.mechanisms.counting import Averaged, Geometric, Identity, Raked

__all__ = [
    "Averaged",
    "Context",
    "Geometric",
    "Identity",
    "Mechanism",
    "Outcome",
    "Raked",
    "complete_guarantee",
    "protect",
]
