"""Ways to protect counts."""

from headcount.mechanisms.base import Context, Mechanism, Outcome, complete_guarantee, protect
from headcount.mechanisms.counting import Averaged, Geometric, Identity, Raked
from headcount.mechanisms.sampling import Sampling

__all__ = [
    "Averaged",
    "Context",
    "Geometric",
    "Identity",
    "Mechanism",
    "Outcome",
    "Raked",
    "Sampling",
    "complete_guarantee",
    "protect",
]
