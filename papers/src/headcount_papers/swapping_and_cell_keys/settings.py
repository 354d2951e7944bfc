"""What the study is run with: whom it protects, and every chain that is tried."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from headcount.comparison.study import Option, Seed, StudySettings
from headcount_papers.frame.dwellings import in_dwellings

if TYPE_CHECKING:
    from headcount.population import Population

NAME = "swapping-and-cell-keys"
PEOPLE = 40_000
AGES = ("0-17", "18-64", "65+")
SCHEMA = "sex-age38-race7-hispanic"
"""The shipped schema whose sexes, races and origins the synthetic people have."""
TABLES = {
    "age_race": ("age", "race"),
    "sex_race": ("sex", "race"),
    "race_origin": ("race", "hispanic"),
}
"""Tables of the synthetic people: three that have a margin in common, which an attacker can add up
in three ways."""
RISK = ("race", "hispanic")
"""By what synthetic people stand out, for targeted swapping."""

RATES = tuple(map(Fraction, ("0", "0.02", "0.05", "0.1", "0.2", "0.5")))
"""Shares of households that are swapped."""
BASES = (3, 5, 10)


@dataclass(frozen=True, kw_only=True)
class Keys:
    """One setting of cell keys: D, V and js of the perturbation table."""

    largest: int
    variance: Fraction
    blocked: int = 0

    @property
    def name(self) -> str:
        """For tables and figures."""
        blocked = f", no 1 to {self.blocked}" if self.blocked > 1 else ", no 1"
        words = f"keys ±{self.largest}, variance {float(self.variance):g}"
        return words + (blocked if self.blocked else "")


LADDER = tuple(
    Keys(largest=largest, variance=Fraction(variance))
    for largest, variance in (
        *((1, "0.1"), (1, "0.25"), (1, "0.5"), (2, "1"), (3, "2"), (5, "3"), (8, "8")),
    )
)
"""Settings of cell keys that differ in how strong they are: the second axis of the risk surface."""
OTHER_KEYS = (
    Keys(largest=3, variance=Fraction(1)),
    Keys(largest=2, variance=Fraction("1.05"), blocked=1),
    Keys(largest=5, variance=Fraction(3), blocked=2),
)
"""Eurostat's test table; and tables that publish no small counts."""
EPSILONS = tuple(map(Fraction, (1, 4, 16, 64)))


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    """Whom the study is run on, and how often each chain is."""

    people: Annotated[
        int | None, Option(help="People in the synthetic state; default 40,000.", least=1_000)
    ] = None
    population: Annotated[
        Path | None,
        Option(
            help="People of your own: a TOML file with a table [population] whose people live in "
            "households, such as a config of headcount protect."
        ),
    ] = None
    risk: Annotated[
        tuple[str, ...],
        Option(help="Attributes by which people stand out, for swapping; with commas."),
    ] = ()
    within: Annotated[
        str, Option(help="Households are swapped within units of this level; below the whole.")
    ] = ""
    epsilons: Annotated[
        tuple[Fraction, ...],
        Option(
            help="Another epsilon of TopDown in place of 1, 4, 16 and 64; may be repeated.",
            name="epsilon",
        ),
    ] = EPSILONS
    replicates: Annotated[
        int, Option(help="Draws of every chain.", least=1, most=1_000, always=True)
    ] = 5
    slow: Annotated[
        int,
        Option(help="Small counts that the slow attacks look at.", least=1, most=100_000),
    ] = 100
    seed: Seed = 2026

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.population is not None and self.people:
            raise self.refused(
                "--people",
                found=f"--population {self.population.name} beside it",
                expected="it for synthetic people only",
            )

    def identity(self) -> dict[str, Any]:
        """The people go by their digest: other people are another study."""
        from headcount.tabulate import Tabulated

        digest = Tabulated.of(self.protected).digest.hex()
        named = "towns" if self.population is None else self.population.name
        return {**super().identity(), "population": named, "digest": digest}

    @property
    def tables(self) -> Any:
        """The tables that are published: of own data each attribute and small pairs."""
        return TABLES if self.population is None else "auto"

    @property
    def stands_out(self) -> tuple[str, ...]:
        """By what people stand out."""
        default = RISK if self.population is None else self.protected.schema.names
        return self.risk or default

    @property
    def swapped_within(self) -> str:
        """The level whose units nobody leaves: by default the first below the whole."""
        levels = self.protected.geography.levels
        return self.within or (levels[1] if len(levels) > 2 else "")

    @cached_property
    def protected(self) -> Population:
        """The people who are protected, with their dwellings."""
        if self.population is None:
            return synthetic(self.people or PEOPLE)
        return in_dwellings(self.population)[0]


def synthetic(people: int) -> Population:
    """A synthetic state by sex, age in three groups, race in seven and Hispanic origin."""
    from headcount.population.from_households import to_population
    from headcount.population.towns import towns
    from headcount.schema import Attribute, Schema, load_schema

    known = load_schema(SCHEMA)
    sex, race, origin = (known.attribute(name) for name in ("sex", "race", "hispanic"))
    schema = Schema((sex, Attribute("age", AGES), race, origin))
    return to_population(towns(people=people), schema=schema)
