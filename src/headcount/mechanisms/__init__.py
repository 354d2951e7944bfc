"""Ways to protect counts."""

from headcount.mechanisms._base import (
    Context,
    CountsOutcome,
    Mechanism,
    TablesOutcome,
    complete_guarantee,
    mechanism_digest,
    protect,
)
from headcount.mechanisms.averaged import Averaged
from headcount.mechanisms.geometric import Geometric
from headcount.mechanisms.identity import Identity
from headcount.mechanisms.raked import Raked
from headcount.mechanisms.sampling import Sampling

__all__ = [
    "Averaged",
    "Context",
    "CountsOutcome",
    "Geometric",
    "Identity",
    "Mechanism",
    "Raked",
    "Sampling",
    "TablesOutcome",
    "complete_guarantee",
    "mechanism_digest",
    "protect",
]
