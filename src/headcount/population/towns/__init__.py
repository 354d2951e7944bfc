"""A seeded synthetic state: people in dwellings, blocks to counties, places, group quarters."""

from headcount.population.towns.generate import towns
from headcount.population.towns.levels import RACE_SETS

__all__ = ["RACE_SETS", "towns"]
