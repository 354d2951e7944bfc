"""From a file to a config that runs: what is in the file, and what to make of it."""

from headcount.init.decide import Ask, Draft, TakeProposals, draft
from headcount.init.write import write_draft

__all__ = ["Ask", "Draft", "TakeProposals", "draft", "write_draft"]
