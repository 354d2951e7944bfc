"""A seeded synthetic state: people in dwellings, blocks to counties, places, group quarters."""

from headcount.population.towns.levels import RACE_SETS
from headcount.population.towns.population import towns

__all__ = ["RACE_SETS", "towns"]
