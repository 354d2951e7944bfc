"""Living quarters by IPUMS code: how many cells of districts the published file has of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.arrays import Floats, Ints
from headcount_papers.us1940.figures import GROUPS, model, published


@dataclass(frozen=True, kw_only=True)
class CodeSpread:
    """How codes 2 and 6 and the places of code 4 spread over districts (``model.toml``, [codes]).

    where
        shape   of the gamma variable of a district that multiplies the rate of its places
        place   people in a place of code 4 that is neither a barracks nor a dormitory
    """

    shape: float
    place: float

    @classmethod
    def assumed(cls) -> CodeSpread:
        """As the model assumes it."""
        return cls(**model()["codes"])

    def present(self, mean: Floats) -> Floats:
        """Probability that a district has any of what it expects so many of.

        1 - (1 + m/k)^-k, the chance that a negative binomial variable is above 0

        where
            m   expected number of places
            k   shape of the gamma variable that makes the number of a district uncertain
        """
        return np.asarray(1.0 - (1.0 + mean / self.shape) ** -self.shape)

    def fragments(self, households: Ints) -> float:
        """Expected cells of code 6; its people are spread one by one, so each person is a place.

        where
            households  people in households by district and cell (age x group)
        """
        return float(self.present(households * (_persons("fragments") / households.sum())).sum())

    def more_households(self, households: Ints) -> float:
        """Expected cells of code 2: households of one group, whose ages are drawn in it.

        A group with n people of whom the share a is of an age has a household with somebody of that
        age at the rate R n / N (1 - (1 - a)^s).

        where
            R, N    households of code 2 and people in households, in the nation
            s       people in a household of code 2
        """
        records = published()["quarters"]["more_households"]
        size = _persons("more_households") / records
        by_age = households.reshape(len(households), -1, len(GROUPS))
        group = by_age.sum(axis=1, keepdims=True)
        somebody = 1.0 - (1.0 - by_age / np.maximum(group, 1)) ** size
        return float(self.present(group * somebody * (records / households.sum())).sum())

    def other_places(self, persons: Ints, *, held: int) -> float:
        """Expected districts with a place of code 4, if such places hold so many people.

        where
            persons     people of each district
        """
        return float(self.present(persons * (held / self.place / persons.sum())).sum())


def _persons(code: str) -> float:
    """People of a code in the nation: their share in the three states where it is printed."""
    known = [state for state in published()["state"].values() if code in state]
    share = sum(state[code] for state in known) / sum(state["persons"] for state in known)
    return float(share * published()["totals"]["persons"])
