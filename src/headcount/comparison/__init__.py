"""Several ways to protect one population, run and measured side by side: ``headcount compare``.

A study of a person's own file. Its runs are seeded: they spend nothing, are never a release, and
what is computed from them is as confidential as the data.
"""

from headcount.comparison.settings import NAME, Settings
from headcount.comparison.study import Study

STUDY = Study(
    name=NAME,
    package=__name__,
    title="Several ways to protect one population, side by side",
    about="",
    settings=Settings,
    keeps="cases",
)
