"""What the study is run with, and the two mechanisms it compares."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from headcount.errors import ConfigError, InputError
from headcount.evaluate.epl import EmpiricalLoss, published
from headcount.mechanisms.sampling import Sampling
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.population import Population
from headcount.schema import load_schema
from headcount.tabulate import TOTAL, Query

STUDY = "petti-flaxman-2020"
EPSILONS = tuple(Fraction(e) for e in ("1/4", "1/2", "3/4", "1", "2", "4", "6", "8"))
FRACTIONS = tuple(Fraction(k, 20) for k in range(1, 20))

Level = Literal["state", "county", "enumeration_district"]
LEVELS: tuple[Level, ...] = ("state", "county", "enumeration_district")
CountType = Literal["TC", "SC"]
COUNT_TYPES: tuple[CountType, ...] = ("TC", "SC")

STRATA = Query("strata", ("voting_age", "hispanic", "race"))
"""The 24 cells of a stratified count."""
STRATA_SHAPE = (2, 2, 6)
QUERIES: dict[CountType, Query] = {"TC": TOTAL, "SC": STRATA}

PRINTED_2019: dict[str, float] = {"range_percentile": 99.0, "range_multiplier": 1.5}
"""The recipe behind the sampling losses printed in the paper; all others use 95 and 1."""

_PRESET = "e2e-2018"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Parameters to sweep, and the replicates pooled at each of them."""

    epsilons: tuple[Fraction, ...] = EPSILONS
    fractions: tuple[Fraction, ...] = FRACTIONS
    replicates: int = 4
    seed: int = 1940

    def __post_init__(self) -> None:
        for place, values, most in (
            ("epsilons", self.epsilons, None),
            ("fractions", self.fractions, Fraction(1)),
        ):
            wrong = [v for v in values if v <= 0 or (most is not None and v >= most)]
            if wrong or len(set(values)) != len(values) or not values:
                raise ConfigError(
                    f"study {STUDY}",
                    place=place,
                    found=", ".join(str(v) for v in values) or "none",
                    expected="distinct numbers above 0" + (", below 1" if most else ""),
                )
        if self.replicates < 1:
            raise ConfigError(
                f"study {STUDY}",
                place="replicates",
                found=str(self.replicates),
                expected="1 or more",
            )


def topdown(epsilon: Fraction) -> TopDown:
    """TopDown with every choice of the 2018 end-to-end test but epsilon."""
    return TopDown.from_preset(_PRESET, epsilon=epsilon)


def sampling(fraction: Fraction) -> Sampling:
    """A simple random sample of the whole population."""
    return Sampling(fraction=fraction)


def loss_of(residuals: Any, **recipe: float) -> EmpiricalLoss:
    """Empirical privacy loss by the paper's recipe: kernel factor 0.1, percentile 95, times 1."""
    return published(residuals, **{"kernel_factor": 0.1, **recipe})


def refuse_other_shape(population: Population) -> None:
    """The study needs the levels of 1940 and the person table of the 2018 test."""
    found = population.geography.levels
    if found[1:] != LEVELS or population.schema != load_schema(_PRESET):
        raise InputError(
            population.name,
            place=f"study {STUDY}",
            found=f"levels {list(found)}, attributes {list(population.schema.names)}",
            expected=f"a whole and {list(LEVELS)}, with the schema {_PRESET!r}",
        )
