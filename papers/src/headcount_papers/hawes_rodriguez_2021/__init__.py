"""Hawes & Rodríguez (2021), "Determining the privacy-loss budget: alternatives to DP".

M. Hawes and R. Rodríguez, slides of the U.S. Census Bureau, 4 June 2021. What would suppression by
the rules of 1980, or swapping of households, have withheld or blurred, and how well would each
have stood up to reconstruction and re-identification? Here beside TopDown, on one schema.
"""

from headcount_papers.frame.paper import Paper
from headcount_papers.hawes_rodriguez_2021.settings import NAME, Settings

STUDY = Paper(
    name=NAME,
    package=__name__,
    title="Hawes & Rodriguez (2021): suppression and swapping beside TopDown, under attack.",
    about="An unfinished study goes on where it stopped. The default takes about nine minutes "
    "of CPU.\n\n"
    "Example: headcount study hawes-rodriguez-2021 --out out/hawes --people 20000",
    settings=Settings,
    keeps="methods",
)
