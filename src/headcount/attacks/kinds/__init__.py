"""Attacks: what can be done with a release, one module each, found by its name."""

from headcount.attacks.kinds._base import (
    Attack,
    ClaimedPeople,
    ClaimedRecords,
    Claims,
    People,
    whole_people,
)

__all__ = ["Attack", "ClaimedPeople", "ClaimedRecords", "Claims", "People", "whole_people"]
