"""A seeded synthetic United States of 1940, fitted to published tabulations."""

from headcount.population.us1940.fit import fit
from headcount.population.us1940.generate import us1940
from headcount.population.us1940.microdata import to_microdata

__all__ = ["fit", "to_microdata", "us1940"]
