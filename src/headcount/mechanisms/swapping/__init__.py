"""Record swapping: people or whole households change places with others elsewhere."""

from headcount.mechanisms.swapping.households import HouseholdSwapping
from headcount.mechanisms.swapping.keys import PseudoUnits, SizeNoise
from headcount.mechanisms.swapping.person_mechanism import PersonSwapping
from headcount.mechanisms.swapping.report import Swapped, SwapReport
from headcount.mechanisms.swapping.risk import Risk
from headcount.mechanisms.swapping.targeted import TargetedSwapping

__all__ = [
    "HouseholdSwapping",
    "PersonSwapping",
    "PseudoUnits",
    "Risk",
    "SizeNoise",
    "SwapReport",
    "Swapped",
    "TargetedSwapping",
]
