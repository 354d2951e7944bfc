"""Perturbed tables: which true counts a published value may stand for, with what probability.

Cell keys and rounding change counts and withhold few or none. A value of theirs is not the count
behind it, and whoever reads the table must not take it for that. ``Off`` says how far off it may
be, as far as the office that made it says so; ``ChangeRules`` by which rules it was made.

``ChangeTable`` is the law of the changes, as an adversary knows it who has the settings. An office
may keep its largest change and its perturbation table to itself, and a release then says nothing of
them. A protection that holds only as long as nobody has read the settings is none, so an evaluation
gives them to the attacker. They are settings, never counts, and are never written with a release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ends, Flags, Floats, Ints
from headcount.errors import ConfigError
from headcount.fields import AtLeast0, AtLeast1


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ChangeTable:
    """For each count the probability of each change.

    where
        chance   (counts 0, 1, ... x changes first, first + 1, ...)
        first    the change of the first column
        cycle    counts beyond the last row use the last so many rows in turn: 1 where the last row
                 serves them all, 250 in tables of the ONS, the base for rounding
        raised   the largest value that an empty cell may be given besides; 0 if it stays empty
    """

    chance: Floats
    first: int
    cycle: int = 1
    raised: int = 0

    @classmethod
    def of(
        cls, rows: Sequence[Mapping[int, float]], *, cycle: int = 1, raised: int = 0
    ) -> ChangeTable:
        """From change -> probability of counts 0, 1, ...; what has none is no possible change."""
        first = min(v for row in rows for v, p in row.items() if p)
        last = max(v for row in rows for v, p in row.items() if p)
        chance = np.zeros((len(rows), last - first + 1))
        for number, row in enumerate(rows):
            for change, p in row.items():
                if p:
                    chance[number, change - first] = p
        return cls(chance=chance, first=first, cycle=cycle, raised=raised)

    @property
    def last(self) -> int:
        """The largest change upwards."""
        return self.first + int(self.chance.shape[1]) - 1

    @property
    def variance(self) -> float:
        """The variance of the change of a large count, the mean over the rows in turn."""
        rows, changes = self.chance[-self.cycle :], np.arange(self.first, self.last + 1)
        return float((rows @ changes**2 - (rows @ changes) ** 2).mean())

    def of_change(self, count: Ints, value: Ints) -> Floats:
        """The probability that a count is published as a value; 0 for a count below 0."""
        start = len(self.chance) - self.cycle
        row = np.where(count < start, count, start + (count - start) % self.cycle)
        column = value - count - self.first
        inside = (count >= 0) & (column >= 0) & (column < self.chance.shape[1])
        found = self.chance[np.where(inside, row, 0), np.where(inside, column, 0)]
        return np.where(inside, found, 0.0)

    def possible(self, count: Ints, value: Ints) -> Flags:
        """Whether a count can be published as a value."""
        raised = (count == 0) & (value <= self.raised)
        return np.asarray((self.of_change(count, value) > 0) | raised, dtype=bool)

    def ends(self, value: Ints, *, unknown: int) -> Ends:
        """The smallest and the largest count that each value may stand for.

        A value that no count can become is not of this table: of it nothing is said.
        """
        values, back = np.unique(value, return_inverse=True)
        counts = values[:, None] - np.arange(self.first, self.last + 1)[::-1]
        counts = np.column_stack([np.zeros(len(values), dtype=np.int64), counts])
        fits = self.possible(counts, values[:, None])
        low = np.where(fits, counts, unknown).min(axis=1, initial=unknown)
        high = np.where(fits, counts, -1).max(axis=1, initial=-1)
        none = ~fits.any(axis=1)
        low, high = np.where(none, 0, low), np.where(none, unknown, high)
        return _shaped(low, back, value), _shaped(high, back, value)


def _shaped(found: Ints, back: NDArray[np.intp], like: Ints) -> Ints:
    return np.asarray(found[back].reshape(like.shape), dtype=np.int64)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class KnownChange:
    """All that the settings tell of a published table.

    where
        off     how far values may be off, as if nothing were kept secret
        table   the law of changes; None where changes have none of their own
        deltas  by epsilon: the exact delta of one cell, the largest and between large counts
    """

    off: Off
    table: ChangeTable | None = None
    deltas: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def ends(self, value: Ints, *, inner: Flags, total: Flags, unknown: int) -> Ends:
        """As ``Off.ends``, and no wider than the law of changes allows."""
        low, high = self.off.ends(value, inner=inner, total=total, unknown=unknown)
        if self.table is None:
            return low, high
        least, most = self.table.ends(value, unknown=unknown)
        as_it_is = total & self.off.exact_totals
        return (
            np.where(as_it_is, low, np.maximum(low, least)),
            np.where(as_it_is, high, np.minimum(high, most)),
        )


_LAST = 1 << 62
"""Above every count."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """How counts from ``at`` on are shown, up to the next step.

    where
        base    the nearest multiple of it; 1 shows them as they are
        value   all of them as this number instead
    """

    at: AtLeast0
    base: AtLeast1 = 1
    value: AtLeast0 | None = None

    def __post_init__(self) -> None:
        if self.value is not None and self.base != 1:
            found = f"a base of {self.base} and a value of {self.value}"
            raise ConfigError("steps", place=f"at {self.at}", found=found, expected="one of them")


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Rounding whose base grows with the count: a function of the count alone.

    where
        steps    in the order of their first counts; counts below the first are shown as they are
        halves   where two multiples are as near: the upper one ("up"), or the even one ("even")
        below    smaller counts are not shown, but for 0 where it is
    """

    steps: tuple[Step, ...]
    halves: Literal["up", "even"] = "up"
    below: AtLeast0 = 0

    def __post_init__(self) -> None:
        starts = [one.at for one in self.steps]
        if not starts or any(one >= other for one, other in pairwise(starts)):
            expected = "one or more, each from a larger count (at) than the one before"
            raise ConfigError("steps", found=f"steps from {starts}", expected=expected)
        whole = replace(self, below=0) if self.below else self
        for at in starts[starts[0] == 0 :]:
            before, after = whole.shown(np.array([at - 1, at])).tolist()
            if before > after:
                found = f"{at - 1} shown as {before}, and {at} as {after}"
                raise ConfigError("steps", found=found, expected="larger counts shown as no less")

    @property
    def spans(self) -> list[tuple[int, int, Step]]:
        """Each step with its first and last count that are shown; small ones as they are too."""
        every = [Step(at=0), *self.steps] if self.steps[0].at else list(self.steps)
        ends = [*(one.at for one in every[1:]), _LAST]
        spans = [
            (max(one.at, self.below), end - 1, one) for one, end in zip(every, ends, strict=True)
        ]
        return [(first, last, one) for first, last, one in spans if first <= last]

    @property
    def words(self) -> str:
        """The same for people."""
        said = []
        for first, last, step in self.spans:
            here = str(first) if first == last else f"{first:,} to {last:,}"
            here = f"{first:,} and more" if last == _LAST - 1 else here
            how = f"the nearest multiple of {step.base:,}" if step.base > 1 else "as it is"
            said.append(f"{here}: {how if step.value is None else step.value}")
        halves = "the upper" if self.halves == "up" else "the even"
        return f"{'; '.join(said)}; where two multiples are as near, {halves} one"

    def shown(self, counts: Ints) -> Ints:
        """What each count is shown as."""
        found = np.zeros_like(counts)
        for first, last, step in self.spans:
            here = (counts >= first) & (counts <= last)
            if step.value is not None:
                found[here] = step.value
                continue
            whole, rest = np.divmod(counts[here], step.base)
            half = 2 * rest == step.base
            up = (2 * rest > step.base) | (half & ((self.halves == "up") | (whole % 2 == 1)))
            found[here] = (whole + up) * step.base
        return found

    def ends(self, value: Ints, *, unknown: int) -> Ends:
        """The smallest and the largest count that is shown as each value, of all steps together.

        A value that no count is shown as is not of these steps: of it nothing is said.
        """
        low, high = np.full_like(value, _LAST), np.full_like(value, -1)
        for first, last, step in self.spans:
            if step.value is not None:
                fits, least, most = value == step.value, value * 0 + first, value * 0 + last
            else:
                half, odd = divmod(step.base, 2)
                # Of an even base a count may be as near to two multiples: which of them has it?
                even = value // step.base % 2 == 0
                lower, upper = (even, even) if self.halves == "even" else (True, False)
                tied = step.base > 1 and not odd
                fits = value % step.base == 0
                least = np.maximum(value - half + (tied & ~np.asarray(lower)), first)
                most = np.minimum(value + half - (tied & ~np.asarray(upper)), last)
            fits &= least <= most
            low = np.where(fits, np.minimum(low, least), low)
            high = np.where(fits, np.maximum(high, most), high)
        if self.below:
            low, high = np.where(value == 0, 0, low), np.where(value == 0, 0, high)
        none = high < 0
        return np.where(none, 0, low), np.where(none, unknown, np.minimum(high, unknown))


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
        steps           how counts are shown; they say of each value all that there is to say
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
    steps: Steps | None = None

    def __post_init__(self) -> None:
        for place in ("down", "up", "zero_hides", "exact_above", "withheld_below"):
            value = getattr(self, place)
            if value is not None and value < 0:
                raise ConfigError("off", place=place, found=str(value), expected="0 or more")
        if self.multiples_of < 1:
            raise ConfigError(
                "off", place="multiples_of", found=str(self.multiples_of), expected="1 or more"
            )

    @property
    def told(self) -> bool:
        """Whether anything is said of how far below a value the count may be."""
        return self.down is not None or self.steps is not None

    def ends(self, value: Ints, *, inner: Flags, total: Flags, unknown: int) -> Ends:
        """The smallest and the largest count that may be behind each value (units x cells).

        where
            inner     which cells are detail
            total     which cell is the table's total
            unknown   stands for an upper end of which nothing is said
        """
        if self.steps is not None:
            low, high = self.steps.ends(value, unknown=unknown)
            as_it_is = total & self.exact_totals
            return np.where(as_it_is, value, low), np.where(as_it_is, value, high)
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
    said = asdict(off)
    if off.steps is None:  # as releases said it before there were steps
        del said["steps"]
    return said


def off_from_json(data: Mapping[str, Any]) -> Off:
    """What ``off_to_json`` wrote."""
    if (said := data.get("steps")) is None:
        return Off(**data)
    steps = Steps(**{**said, "steps": tuple(Step(**one) for one in said["steps"])})
    return Off(**{**data, "steps": steps})
