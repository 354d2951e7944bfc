"""Petti & Flaxman (2020), "Differential privacy in the 2020 US census: what will it do?".

S. Petti and A. Flaxman, Gates Open Research 3:1722. TopDown with the choices of the 2018
end-to-end test, on the census of 1940: how large are its errors, how much of the promised loss
can be seen in them, whom do they favour, and which simple random sample is it like?
"""

from headcount.studies.petti_flaxman_2020.settings import (
    COUNT_TYPES,
    EPSILONS,
    FRACTIONS,
    LEVELS,
    STUDY,
    Settings,
)
from headcount.studies.petti_flaxman_2020.study import PettiFlaxmanStudy, run_study

__all__ = [
    "COUNT_TYPES",
    "EPSILONS",
    "FRACTIONS",
    "LEVELS",
    "STUDY",
    "PettiFlaxmanStudy",
    "Settings",
    "run_study",
]
