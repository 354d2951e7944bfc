"""Published tables whose counts are changed: what a published value may stand for.

Cell keys and rounding change counts and withhold few or none. A value of theirs is not the count
behind it, and whoever reads the table must not take it for that. ``Off`` says how far off it may
be, as far as the office that made it says so; ``ChangeRules`` by which rules it was made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headcount.arrays import Ends, Flags, Ints
from headcount.errors import ConfigError

CHANGED = "changed"
"""The kind of rules under which counts are changed, in files."""


@dataclass(frozen=True, kw_only=True)
class Off:
    """By how much a published value may miss the count behind it.

    where
        down            the count is at most so much below the value; None if nothing is said
        up              the count is at most so much above the value; None if nothing is said
        zero_hides      the largest count that is published as 0; None if nothing is said
        raises_zeros    whether a count of 0 may be published as more
        exact_above     detailed cells with a larger value are exact; None if none is
        exact_totals    whether the table's total is exact
        sums            whether subtotals are sums of changed cells: then nothing more is said of
                        them than their detail says
        multiples_of    every value is a multiple of this; 1 if any number can be one
        withheld_below  what a withheld cell holds is less than this; None if nothing is said
    """

    down: int | None = None
    up: int | None = None
    zero_hides: int | None = None
    raises_zeros: bool = False
    exact_above: int | None = None
    exact_totals: bool = False
    sums: bool = False
    multiples_of: int = 1
    withheld_below: int | None = None

    def __post_init__(self) -> None:
        for place in ("down", "up", "zero_hides", "exact_above", "withheld_below"):
            value = getattr(self, place)
            if value is not None and value < 0:
                raise ConfigError("off", place=place, found=str(value), expected="0 or more")
        if self.multiples_of < 1:
            raise ConfigError(
                "off", place="multiples_of", found=str(self.multiples_of), expected="1 or more"
            )

    def ends(self, value: Ints, *, inner: Flags, total: Flags, unknown: int) -> Ends:
        """The smallest and the largest count that may be behind each value (units x cells).

        where
            inner     which cells are detail
            total     which cell is the table's total
            unknown   stands for an upper end of which nothing is said
        """
        least = 0 if self.raises_zeros else 1
        low = np.where(value > 0, least, 0)
        if self.down is not None:
            low = np.where(value > 0, np.maximum(value - self.down, least), 0)
        high = np.full_like(value, unknown) if self.up is None else value + self.up
        hidden = unknown if self.zero_hides is None else self.zero_hides
        high = np.where(value == 0, hidden, high)
        if self.exact_above is not None:
            exact = (value > self.exact_above) & inner
            low, high = np.where(exact, value, low), np.where(exact, value, high)
        if self.sums:
            low = np.where(inner, low, np.where(value > 0, least, 0))
            high = np.where(inner, high, unknown)
        if self.exact_totals:
            low, high = np.where(total, value, low), np.where(total, value, high)
        return low, high


@dataclass(frozen=True, kw_only=True)
class ChangeRules:
    """The rules by which counts were changed, as far as they are disclosed.

    where
        method   name of the mechanism
        tables   the tables that it changed
        words    what was done, in plain sentences
    """

    method: str
    tables: tuple[str, ...]
    words: tuple[str, ...]


def change_rules_to_json(rules: ChangeRules) -> dict[str, Any]:
    """Rules as JSON, with their kind."""
    return {
        "kind": CHANGED,
        "method": rules.method,
        "tables": list(rules.tables),
        "words": list(rules.words),
    }


def change_rules_from_json(data: Mapping[str, Any]) -> ChangeRules:
    """The rules that ``change_rules_to_json`` wrote."""
    return ChangeRules(
        method=data["method"], tables=tuple(data["tables"]), words=tuple(data["words"])
    )


def off_to_json(off: Off) -> dict[str, Any]:
    """What is said of values, as JSON."""
    return asdict(off)


def off_from_json(data: Mapping[str, Any]) -> Off:
    """What ``off_to_json`` wrote."""
    return Off(**data)
