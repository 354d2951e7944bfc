"""Swapping, cell keys, rounding and both together: what each gives away, and what it costs.

A study of our own. Ten European offices protected the census of 2021 by swapping records and then
changing every count by cell keys; the guidelines say that no measure exists for the risk that both
leave together. Here one attacker bets on small counts, against the people before any swap.
"""

from headcount_papers.frame.paper import Paper
from headcount_papers.swapping_and_cell_keys.settings import NAME, Settings

STUDY = Paper(
    name=NAME,
    package=__name__,
    title="Swapping, cell keys, rounding and their mixes: what is given away, what it costs.",
    about="84 chains and TopDown beside them, attacked against the people before any swap. An "
    "unfinished study goes on where it stopped. The default takes some minutes of CPU.\n\n"
    "Example: headcount study swapping-and-cell-keys --out out/mix --people 10000",
    settings=Settings,
    keeps="chains",
)
