"""What can be published without noise, what it costs and what it proves of people.

A study of our own. The same people and the same wanted tables: larger areas, tables apart,
suppression, rounding, swapping and TopDown, side by side. It measures, and takes no side in the
question whether noise should be used.
"""

from headcount_papers.frame.paper import Paper
from headcount_papers.without_noise.settings import NAME, Settings

STUDY = Paper(
    name=NAME,
    package=__name__,
    title="Coarsening, suppression, rounding, swapping and TopDown: errors, proofs and claims.",
    about="Two kinds of wanted tables on synthetic towns, and on people of your own. The default "
    "takes a few minutes of CPU.\n\n"
    "Example: headcount study without-noise --out out/without --people 5000",
    settings=Settings,
)
