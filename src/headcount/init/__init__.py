"""From a file to a config that runs: what is in the file, and what to make of it."""

from headcount.init.decide import Ask, Draft, TakeProposals, draft
from headcount.init.told import Told
from headcount.init.write import config_name, write_draft

__all__ = ["Ask", "Draft", "TakeProposals", "Told", "config_name", "draft", "write_draft"]
