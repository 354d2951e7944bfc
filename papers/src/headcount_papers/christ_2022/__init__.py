"""Swapping and differential privacy for minorities: Christ, Radway & Bellovin (2022).

M. Christ, S. Radway and S. M. Bellovin, "Differential privacy and swapping: examining
de-identification's impact on minority representation and privacy preservation in the U.S. Census",
IEEE Symposium on Security and Privacy. Block groups of nine counties, five ways to swap people, a
noisy histogram, and an attacker with a list of names.
"""

from headcount_papers.christ_2022.settings import NAME, Settings
from headcount_papers.frame.paper import Paper

STUDY = Paper(
    name=NAME,
    package=__name__,
    title="Christ, Radway & Bellovin (2022): swapping beside noise, and what both do to "
    "minorities.",
    about="An unfinished study goes on where it stopped. All nine counties take about seven "
    "minutes of CPU."
    "\n\nExample: headcount study christ-2022 --out out/christ --counties Alameda,Washington",
    settings=Settings,
    keeps="pieces",
)
