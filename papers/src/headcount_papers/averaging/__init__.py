"""Averaging over partitions (Asghar & Kaafar, PETS 2020): the attack, and the scores of its claims.

The attack sees no truth, so what is compared with the truth has a module of its own.
"""

from headcount_papers.averaging import scored as scored  # registers how claims are scored
from headcount_papers.averaging.attack import Average, share_recovered

__all__ = ["Average", "share_recovered"]
