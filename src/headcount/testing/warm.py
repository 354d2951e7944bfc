"""Compile beforehand what releases and attacks use: ``python -m headcount.testing.warm``.

Small runs of every kind, in two processes that share one cache: each loop is compiled by whoever
comes to it first, and loaded by the other. With names, only those runs. Afterwards nothing has to
be compiled, until the loops themselves change.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from time import monotonic

import numpy as np

from headcount.attacks.kinds.reconstruction import Reconstruct
from headcount.attacks.kinds.reidentification import Reidentify
from headcount.compiled import forced
from headcount.evaluation.attack import attack
from headcount.mechanisms import Chain, protect
from headcount.mechanisms.identity import Identity
from headcount.mechanisms.person_swapping import PersonSwapping
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.mechanisms.swapping.mechanism import HouseholdSwapping
from headcount.mechanisms.targeted_swapping import TargetedSwapping
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.population import Population
from headcount.population.from_households import to_population
from headcount.population.towns import towns

TENTH = Fraction(1, 10)
