"""Swapping of persons, as Christ, Radway & Bellovin (2022) model it."""

from headcount_papers.person_swapping.mechanism import PersonSwapping

__all__ = ["PersonSwapping"]
