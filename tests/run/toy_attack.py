"""Somebody else's attack: a module that knows releases, and nothing of the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headcount.attacks import Attack, ClaimedPeople, People
from headcount.release import Release
from headcount.report.finding import SUPPORTED, Support
from headcount.schema import Schema


@dataclass(frozen=True, kw_only=True)
class First(Attack):
    """Says of everybody that they are of the first kind."""

    name = "toy-first"

    def supports(self, release: Release) -> Support:
        """Releases with something to learn."""
        return SUPPORTED if release.schema.attributes else Support("nothing to learn: a toy")

    def knows(self, schema: Schema) -> tuple[str, ...]:
        """Nothing but where people live."""
        return ()

    def run(self, release: Release, people: People, *, engine: Any = None) -> ClaimedPeople:
        """The first level of the first attribute, for all."""
        return ClaimedPeople(
            attack=self.name,
            title="Is everybody of the first kind?",
            schema=release.schema,
            geography=release.geography,
            words="A toy that says the same of everybody.",
            people=people,
            learnt=release.schema.names[:1],
            value=np.zeros(len(people), dtype=np.int64),
        )
