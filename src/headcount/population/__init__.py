"""Who lives where: one module per kind of population, readers of files, and seeded generators."""

from headcount.population._base import FromFile, Generated, InDwellings, Source
from headcount.population.people_table import UNITS_READ_OFF
from headcount.population.population import Households, Population, cut_households
from headcount.population.uniform import uniform

__all__ = [
    "UNITS_READ_OFF",
    "FromFile",
    "Generated",
    "Households",
    "InDwellings",
    "Population",
    "Source",
    "cut_households",
    "uniform",
]
