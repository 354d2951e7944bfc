"""Attacks: what can be done with a release, one module each, found by its name."""

from headcount.attacks._base import (
    Attack,
    ClaimedCounts,
    ClaimedPeople,
    ClaimedRecords,
    Claims,
    CountRanges,
    People,
    changed_tables,
    whole_people,
)

__all__ = [
    "Attack",
    "ClaimedCounts",
    "ClaimedPeople",
    "ClaimedRecords",
    "Claims",
    "CountRanges",
    "People",
    "changed_tables",
    "whole_people",
]
