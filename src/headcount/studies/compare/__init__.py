"""Several ways to protect one population, run and measured side by side: ``headcount compare``.

A study of a person's own file. Its runs are seeded: they spend nothing, are never a release, and
what is computed from them is as confidential as the data.
"""

from headcount.studies.compare.settings import NAME, Settings
from headcount.studies.frame.study import Study

STUDY = Study(
    name=NAME,
    title="Several ways to protect one population, side by side",
    about="",
    settings=Settings,
    keeps="cases",
)
