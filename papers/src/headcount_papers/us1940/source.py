"""``kind = "us1940"``: a synthetic nation of 1940."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated

from headcount.fields import VIEW, AtLeast0, Share
from headcount.population import Generated
from headcount.population.population import Population
from headcount.processes import Progress, silent
from headcount_papers.us1940 import us1940


@dataclass(frozen=True, kw_only=True)
class Us1940(Generated):
    """The synthetic nation of 1940, with its living quarters.

    where
        seed          one seed, one nation
        scale         share of its places, of the same sizes
        states        some states only; all if empty
        nurse_nva_0   nobody under 18 in homes for the elderly or poor: a structural zero
        presence      an assumption: a group is in a county as a cluster or not at all
    """

    kind = "us1940"
    seed: AtLeast0 = 1940
    scale: Share = Fraction(1)
    states: tuple[str, ...] = ()
    nurse_nva_0: Annotated[bool, VIEW] = False
    presence: bool = False

    def read(self, progress: Progress = silent) -> Population:
        """Generate the people and their living quarters."""
        people, quarters = us1940(
            seed=self.seed,
            scale=float(self.scale),
            states=self.states or None,
            nurse_nva_0=self.nurse_nva_0,
            presence=self.presence,
        )
        return replace(people, quarters=quarters)
