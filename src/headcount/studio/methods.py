"""Methods that the studio offers, and chains of them as tables of a config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, inf, isinf, log10
from typing import Any

import tomlkit

from headcount.errors import InputError, did_you_mean
from headcount.geography import Geography
from headcount.mechanisms import Chain
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.privacy.loss import exact
from headcount.run.forecast import answers_of
from headcount.run.plan import plan
from headcount.schema import Schema

WITHIN = 1.959964
"""Of a normal law, 19 of 20 values are within so many standard deviations."""

MethodTable = dict[str, Any]

_CELL_KEY: MethodTable = {"name": "cell-key", "maximum": 2, "variance": 1}
OFFERED: dict[str, tuple[MethodTable, ...]] = {
    "TopDown": ({"name": "topdown", "epsilon": 1},),
    "Geometric noise": ({"name": "geometric", "epsilon": 1},),
    "Cell keys": (_CELL_KEY,),
    "Swapping of households, then cell keys": ({"name": "swapping", "rate": "0.1"}, _CELL_KEY),
    "Swapping of people, then cell keys": (
        {"name": "person-swapping", "rate": "0.1", "kind": "random", "level": ""},
        _CELL_KEY,
    ),
    "Rounding to multiples of 5": ({"name": "rounding", "base": 5},),
    "Suppression": ({"name": "suppression", "tables": "auto"},),
}
"""What can be added with a click; every other method can be written in the text."""

LOWEST, HIGHEST, STEPS = -2, 2, 120
"""The dial: powers of ten at its ends, and its steps."""


FURTHEST, MOST_SECANTS = 4.0, 12
"""Powers of ten between which a loss is looked for, and in how many steps."""


def parts_of(name: str, geography: Geography) -> list[MethodTable]:
    """The tables of a method that is offered, on these places."""
    if name not in OFFERED:
        raise InputError("method", found=repr(name), expected=did_you_mean(name, OFFERED))
    return [
        {**part, "level": geography.leaf} if part.get("level") == "" else dict(part)
        for part in OFFERED[name]
    ]


def as_tables(parts: Sequence[MethodTable]) -> Any:
    """Parts as a config has them: one table, or several."""
    if len(parts) == 1:
        return _toml(parts[0])
    tables = tomlkit.aot()
    for part in parts:
        tables.append(_toml(part))
    return tables


def _toml(part: MethodTable) -> Any:
    table = tomlkit.table()
    for key, value in part.items():
        table[key] = value
    return table


def currency_of(chain: Chain) -> str:
    """The unit of the chain's dial: "epsilon", "rho", or "" where nothing can be dialled."""
    given = (name for name in ("rho", "epsilon") if getattr(chain.last, name, None) is not None)
    return next(given, "")


def amount_of(chain: Chain) -> Fraction:
    """What the dial stands at."""
    return Fraction(getattr(chain.last, currency_of(chain)))


def with_amount(chain: Chain, amount: Fraction) -> Chain:
    """The same with another loss."""
    last: Any = chain.last
    return Chain(chain.steps, replace(last, **{currency_of(chain): amount}))


@dataclass(frozen=True)
class Reach:
    """How far off answers will be: 19 of 20 are no further from the truth; None if unknown."""

    level: str
    query: str
    people: float | None

    @property
    def name(self) -> str:
        """The level and the query, as a choice."""
        return f"{self.level}: {self.query}"


def reaches(chain: Chain, schema: Schema, geography: Geography) -> list[Reach]:
    """What a plan expects, before anything is spent and without a look at any person."""
    if isinstance(chain.last, TopDown) and not chain.steps:
        errors = plan(chain.last, schema, geography).levels
        return [
            Reach(one.level, one.query, None if isinf(one.best) else WITHIN * one.best)
            for one in errors
        ]
    answers = answers_of(chain, schema, geography, unit=None)
    return [Reach(one.level, one.query, float(one.within)) for one in answers]


def amount_for(
    chain: Chain, schema: Schema, geography: Geography, *, target: str, people: float
) -> Fraction:
    """The loss at which the answers of ``target`` are within so many people, rounded up.

    The logarithm of the error falls nearly as a line of the logarithm of the loss: -1 for epsilon,
    -1/2 for rho, steeper where whole noise is mostly 0. A few secants find the place.
    """

    def beyond(at: float) -> float:
        """How far the error is beyond what was asked for, as a logarithm."""
        found = reaches(with_amount(chain, _rounded(10**at)), schema, geography)
        one = next((one for one in found if one.name == target), None)
        if one is None or one.people is None or (one.people == 0 and at < HIGHEST):
            raise InputError("accuracy", found=repr(target), expected="answers that have noise")
        return log10(max(one.people, 1e-9) / people)

    slope = -0.5 if currency_of(chain) == "rho" else -1.0
    at, over = log10(amount_of(chain)), inf
    before: tuple[float, float] | None = None
    for _ in range(MOST_SECANTS):
        over = beyond(at)
        if abs(over) < 0.001:
            break
        if before is not None and abs(at - before[0]) > 1e-9:
            slope = min((over - before[1]) / (at - before[0]), -0.1)
        before, at = (at, over), min(max(at - over / slope, -FURTHEST), FURTHEST)
    if over > 0.01:
        raise InputError(
            "accuracy",
            found=f"{people:g} people",
            expected=f"more: {currency_of(chain)} {10**at:.3g} does not reach that",
        )
    return _rounded(10**at)


def _rounded(amount: float) -> Fraction:
    """Three digits, upwards: what was asked for is kept."""
    digits = 2 - int(log10(amount) // 1)
    whole = ceil(round(amount * 10**digits, 6))
    return Fraction(whole) / Fraction(10) ** digits


def dial_of(amount: Fraction) -> int:
    """Where the dial stands for an amount."""
    share = (log10(max(float(amount), 1e-9)) - LOWEST) / (HIGHEST - LOWEST)
    return round(min(max(share, 0.0), 1.0) * STEPS)


def at_dial(position: str) -> Fraction:
    """The amount where the dial stands, with two digits."""
    whole = exact(position or "0", name="dial")
    power = LOWEST + (HIGHEST - LOWEST) * min(max(float(whole) / STEPS, 0.0), 1.0)
    return exact(f"{10**power:.2g}", name="dial")
