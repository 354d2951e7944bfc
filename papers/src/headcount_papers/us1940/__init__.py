"""A seeded synthetic United States of 1940, fitted to published tabulations."""

from headcount_papers.us1940._generate import us1940
from headcount_papers.us1940.fit import fit

__all__ = ["fit", "us1940"]
