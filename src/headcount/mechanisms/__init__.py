"""Ways to protect counts."""

from headcount.mechanisms.base import Mechanism, Outcome, protect
from headcount.mechanisms.counting import Averaged, Geometric, Identity, Raked

__all__ = ["Averaged", "Geometric", "Identity", "Mechanism", "Outcome", "Raked", "protect"]
