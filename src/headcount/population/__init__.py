"""Who lives where: readers for microdata and count tables, and seeded generators."""

from headcount.population.households import Households
from headcount.population.population import Population, cut_households
from headcount.population.uniform import uniform

__all__ = ["Households", "Population", "cut_households", "uniform"]
