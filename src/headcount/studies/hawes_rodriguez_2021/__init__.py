"""Hawes & Rodríguez (2021), "Determining the privacy-loss budget: alternatives to DP".

M. Hawes and R. Rodríguez, slides of the U.S. Census Bureau, 4 June 2021. What would suppression by
the rules of 1980, or swapping of households, have withheld or blurred, and how well would each
have stood up to reconstruction and re-identification? Here beside TopDown, on one schema.
"""

from headcount.studies.hawes_rodriguez_2021.settings import (
    EPSILONS,
    PEOPLE,
    STUDY,
    Settings,
    default_counties,
)
from headcount.studies.hawes_rodriguez_2021.study import (
    HawesRodriguezStudy,
    households_digest,
    run_study,
)

__all__ = [
    "EPSILONS",
    "PEOPLE",
    "STUDY",
    "HawesRodriguezStudy",
    "Settings",
    "default_counties",
    "households_digest",
    "run_study",
]
