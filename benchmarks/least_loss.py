"""Is the least loss that ``plan --within`` finds enough, and how much less would have been?

Goals are planned by facts that could be public, and real people are then protected at the loss that
was found, with fresh noise: 95 % of their errors should be within the goal. The same search on the
real people themselves gives the least loss that keeps it.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Reading
from benchmarks.predicted_errors import BEFORE, SEED, facts_about, populations
from headcount.mechanisms import Chain
from headcount.run.how_far_off import how_far_off
from headcount.run.plan import Goal, currency_of, least_loss
from headcount.run.public_facts import Facts
from headcount.topdown.mechanism import TopDown

QUICK = {"replicates": 16}
GOALS = {
    "uneven areas": ("level_2.total=20", "level_2.cells=10", "level_2.age=15"),
    "hamlets": ("level_2.total=10", "level_2.sex=8", "level_1.total=20", "level_1.cells=10"),
    "estates": ("block.total=10", "block.tenure=8", "block_group.total=25"),
}
LEAST, MOST = 94.0, 97.0
SPARE = 15.0
"""How much more than needed may be spent, in %, in the median."""


def measure(*, replicates: int = 100, directory: Path | None = None) -> list[Reading]:
    """For each goal and kind of facts the share that was within it, and what was spent too much."""
    readings, shares, spared = [], [], []
    for name, people in populations(directory):
        truth = Facts("the truth", (people,), 0.0)
        method = TopDown(epsilon=Fraction(1), pool=True, shares="totals")
        for text in GOALS.get(name, ()):
            goal = Goal.of(*text.split("="))
            start = Chain.of(method).on(people.domain)
            needed = _amount(least_loss(start, [goal], truth))
            for kind, facts in facts_about(people).items():
                found = least_loss(start, [goal], facts)
                far = how_far_off(found, truth, runs=replicates, seed=SEED, by_formula=False)
                told = far[goal.level, goal.query].share
                share = 100 * told(goal.people) if told else 0.0
                more = 100 * (_amount(found) / needed - 1)
                note = f"epsilon {_amount(found):.3g}; {needed:.3g} was enough, {more:+.0f} %"
                at_least = f"{name}: {text} by {kind}"
                readings.append(Reading(at_least, share, "%", note))
                if kind == BEFORE:
                    shares.append(share)
                spared.append(more)
    inside = 100 * float(np.mean([LEAST <= one <= MOST for one in shares]))
    note = f"of goals planned by an older census; {min(shares):.1f} to {max(shares):.1f} %"
    spent = float(np.median(spared))
    return [
        *readings,
        Reading(f"within the goal {LEAST:g} to {MOST:g} % of counts", inside, "%", note),
        Reading("spent beyond need: median", spent, "%", at_most=SPARE),
        Reading("spent beyond need: most", max(spared), "%"),
    ]


def _amount(design: Any) -> float:
    """The loss of a design."""
    return float(getattr(design.chain.last, currency_of(design.chain)))
