"""The published figures and the model's shapes, read from the data files beside this module."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from headcount.arrays import Floats, Ints

RACES = ("white", "black", "american_indian", "chinese", "japanese", "other")
GROUPS = (*RACES, *(f"{race}_hispanic" for race in RACES))
"""Race x ethnicity in the order of the schema: ethnicity first, then race."""


@dataclass(frozen=True, kw_only=True)
class State:
    """One row of ``states.csv``."""

    fips: str
    name: str
    persons: int
    races: tuple[int, ...]
    hispanic: float
    adults: float
    district_size: float


@cache
def states() -> tuple[State, ...]:
    """The 51 states and territories in the order of their FIPS codes."""
    return tuple(
        State(
            fips=row[0],
            name=row[1],
            persons=int(row[2]),
            races=tuple(int(value) for value in row[3:8]),
            hispanic=float(row[8]),
            adults=float(row[9]),
            district_size=float(row[10]),
        )
        for row in _rows("states.csv")
    )


@cache
def counties() -> Mapping[str, int]:
    """Printed population of every county by its FIPS code, in the order of the codes."""
    return {fips: int(persons) for fips, persons in _rows("counties.csv")}


@cache
def published() -> Mapping[str, Any]:
    """What is printed about the 1940 file."""
    return tomllib.loads(_text("published.toml"))


@cache
def model() -> Mapping[str, Any]:
    """Fitted shapes and guesses."""
    return tomllib.loads(_text("model.toml"))


def apportion(weights: Floats, total: int) -> Ints:
    """Whole numbers in proportion to weights that add to a total, by largest remainder."""
    exact = weights * (total / weights.sum())
    whole: Ints = np.floor(exact).astype(np.int64)
    short = total - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:short]] += 1
    return whole


def fill(weights: Floats, known: Floats, *, total: int) -> Ints:
    """Whole numbers that add to a total: the known ones (not NaN), the rest by weight."""
    free = np.isnan(known)
    whole: Ints = np.where(free, 0, np.rint(known)).astype(np.int64)
    if free.any():
        whole[free] = apportion(weights[free], total - int(whole.sum()))
    return whole


def _rows(name: str) -> list[list[str]]:
    lines = [line for line in _text(name).splitlines() if not line.startswith("#")]
    return [line.split(",") for line in lines[1:]]


def _text(name: str) -> str:
    return (resources.files(__package__) / "data" / name).read_text(encoding="utf-8")
