"""What the mechanisms with one epsilon and geometric noise have in common."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar

from headcount.fields import Positive
from headcount.geography import Geography
from headcount.mechanisms._base import PostTabular
from headcount.mechanisms._measured import Measured, guarantee_of, law_of_all
from headcount.mechanisms._units import Neighbours, refuse_housemates, refuse_uncut
from headcount.noise import TwoSidedGeometric
from headcount.population import Population
from headcount.privacy import Guarantee
from headcount.privacy.loss import positive
from headcount.schema import Schema
from headcount.tabulate import Counts


@dataclass(frozen=True, kw_only=True, repr=False)
class Noisy(Neighbours, PostTabular):
    """A loss of ``epsilon`` under a unit of privacy, spent on measurements of one rate.

    where
        epsilon   the loss under the unit of privacy: an exact number

    A mechanism says what it measures at rate 1 (``measures``); the plan has the rate at which all
    of it costs epsilon.
    """

    epsilon: Positive
    name: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, name=f"{self.name}: epsilon"))
        for key, value in vars(self.checked(name=self.name)).items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        # Epsilon and its unit always, other parameters where they are not the default.
        shown = {"epsilon": self.epsilon, "unit": self.unit}
        for field in fields(self):
            if (value := getattr(self, field.name)) != field.default:
                shown.setdefault(field.name, value)
        said = ", ".join(f"{key}={value!r}" for key, value in shown.items())
        return f"{type(self).__name__}({said})"

    def measures(self, schema: Schema, geography: Geography) -> tuple[Measured, ...]:
        """What is measured, with noise of rate 1."""
        raise NotImplementedError

    def plan(self, schema: Schema, geography: Geography) -> tuple[Measured, ...]:
        """Every measurement, at the one rate at which together they cost epsilon."""
        law = self.law(schema, geography)
        return tuple(replace(one, law=law) for one in self.measures(schema, geography))

    def law(self, schema: Schema, geography: Geography) -> TwoSidedGeometric:
        """The noise of every measurement."""
        refuse_housemates(schema, self, name=self.name)
        at_rate_1 = self.measures(schema, geography)
        return law_of_all(self.epsilon, unit=self.unit, plan=at_rate_1, name=self.name)

    def guarantee(self, schema: Schema, geography: Geography) -> Guarantee:
        """Epsilon under the chosen unit, and what the same noise costs under the other."""
        stated = guarantee_of(self.plan(schema, geography), first=self.unit)
        return stated.meaning(*self.statements(schema))

    @property
    def cut_to(self) -> int | None:
        """People to which larger households are cut first, where households are the units."""
        return self.largest_household

    def check(self, counts: Counts) -> tuple[str, ...]:
        """Refuse an epsilon that no sampler can draw."""
        self.plan(counts.schema, counts.geography)
        return ()

    def check_people(self, population: Population) -> None:
        """Refuse people whom the plan is not for."""
        refuse_uncut(population, self, name=self.name)
