"""Petti & Flaxman (2020), "Differential privacy in the 2020 US census: what will it do?".

S. Petti and A. Flaxman, Gates Open Research 3:1722. TopDown with the choices of the 2018
end-to-end test, on the census of 1940: how large are its errors, how much of the promised loss
can be seen in them, whom do they favour, and which simple random sample is it like?
"""

from headcount_papers.frame.paper import Paper
from headcount_papers.petti_flaxman_2020.settings import STUDY as NAME
from headcount_papers.petti_flaxman_2020.settings import Settings

STUDY = Paper(
    name=NAME,
    package=__name__,
    title="Petti & Flaxman (2020): what TopDown does to the counts of 1940, beside a random "
    "sample.",
    about="An unfinished study goes on where it stopped. The nation takes about four minutes of "
    "CPU.\n\n"
    "Example: headcount study petti-flaxman-2020 --out out/petti --states WA,GA",
    settings=Settings,
    keeps="releases",
)
