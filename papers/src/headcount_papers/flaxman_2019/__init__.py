"""Flaxman (2019), "Empirical quantification of privacy loss", run again and extended.

A. D. Flaxman, "Empirical quantification of privacy loss with examples relevant to the 2020 US
Census". One million synthetic people are counted in 9,261 areas; three mechanisms protect the
counts; how much of the promised loss epsilon can be seen in the result?

Two variants of the noise are run. ``exact`` is the mechanism the paper describes and headcount
ships. ``published`` is what the paper's code did: see ``PublishedNoise``.
"""

from headcount_papers.flaxman_2019.settings import Settings
from headcount_papers.frame.paper import Paper

STUDY = Paper(
    name="flaxman-2019",
    package=__name__,
    title="Flaxman (2019): how much privacy do simple counting mechanisms lose, measured three "
    "ways?",
    about="Example: headcount study flaxman-2019 --out out/flaxman\n\nWith counts of your own: "
    "headcount study flaxman-2019 --out out/mine --population config.toml --epsilon 0.2,0.5",
    settings=Settings,
)
