"""Ways to protect counts."""

from headcount.mechanisms._base import Context, Mechanism, Outcome, complete_guarantee, protect
from headcount.mechanisms.averaged import Averaged
from headcount.mechanisms.geometric import Geometric
from headcount.mechanisms.identity import Identity
from headcount.mechanisms.raked import Raked
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
