"""From a file to a config that runs: what is in the file, and what to make of it."""

from headcount.init.beside import draft_of
from headcount.init.decide import Ask, Draft, TakeProposals, draft
from headcount.init.told import Told
from headcount.init.write import config_name, write_draft

__all__ = [
    "Ask",
    "Draft",
    "TakeProposals",
    "Told",
    "config_name",
    "draft",
    "draft_of",
    "write_draft",
]
