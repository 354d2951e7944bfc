"""A table that an estimate keeps: does it fit what is published exactly, and what does it cost?

Looked at unit by unit: bounds that one unit has, and totals that parts have together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.privacy import Guarantee
from headcount.topdown._joint import JointTotals
from headcount.topdown._tighten import attained
from headcount.topdown.measurements import NoisyMeasurements
from headcount.topdown.restrict import Restriction, Restrictions, bound_name
from headcount.topdown.solve.batch import NO_BOUND

UNITS_AT_ONCE = 1 << 14
"""Units whose bounds are compared with a table at once."""


def from_published(guarantee: Guarantee, kept: Sequence[str]) -> Guarantee:
    """That of published measurements, and of the tables that are kept beside, by their queries."""
    source, beside = "published measurements and constraints", guarantee.not_covered
    if kept:
        named = ", ".join(map(repr, kept))
        source += f", and from tables protected before that it keeps ({named}),"
        beside = (*beside, f"the loss of these tables, where they were made from others: {named}")
    return replace(guarantee, made_from=source, not_covered=beside)


def refuse_impossible(
    exact: Restriction,
    level: str,
    measurements: NoisyMeasurements,
    restrictions: Restrictions,
    joints: Mapping[str, JointTotals],
) -> None:
    """Refuse a table that no counts can have which keep the bounds of each unit of a level."""
    schema, name = measurements.schema, exact.query.name
    codes = measurements.tree.units[measurements.tree.depth(level)]
    answers = exact.low[:]

    def error(unit: int, found: str, expected: str) -> InputError:
        place = f"level {level!r}, geounit {str(codes[unit])!r}"
        return InputError(f"table of {name!r}", place=place, found=found, expected=expected)

    nobody = np.ones(answers.shape[1], dtype=bool)
    nobody[exact.query.groups(schema)[schema.possible]] = False
    if len(some := np.argwhere((answers > 0) & nobody)):
        unit, group = some[0].tolist()
        found = f"{answers[unit, group]:,} in {bound_name(exact.query, schema, group)}"
        raise error(unit, found, "0: the schema has this group as impossible")
    if (joint := joints.get(level)) is not None:
        people = joint.together(answers.sum(axis=1))
        if len(wrong := np.flatnonzero(people != joint.of_units)):
            unit = int(wrong[0])
            found = f"{people[unit]:,} in it and the other parts of its published unit together"
            raise error(unit, found, f"{joint.of_units[unit]:,}, which is published exactly")
    own = restrictions[level]
    for first in range(0, len(codes), UNITS_AT_ONCE):
        units = np.arange(first, min(first + UNITS_AT_ONCE, len(codes)))
        kept, bounds = of_units(exact, units), [of_units(one, units) for one in own]
        for those in (*([one] for one in bounds), bounds):
            settled = attained([*those, kept], schema)
            broken = np.logical_or.reduce([(low > high).any(axis=1) for low, high in settled])
            if broken.any():
                unit = int(np.argmax(broken))
                names = " and ".join(repr(one.query.name) for one in those)
                raise error(
                    first + unit,
                    f"{', '.join(map(str, kept.low[:][unit].tolist()))}",
                    f"answers beside which the bounds on {names} can be kept: "
                    + "; ".join(_in_words(one, unit) for one in those),
                )


def _in_words(restriction: Restriction, unit: int) -> str:
    """The bounds of one unit, group by group."""
    low, high = np.maximum(restriction.low[:][unit], 0), restriction.high[:][unit]
    said = (
        f"{least} or more"
        if most >= NO_BOUND
        else f"{least} to {most}"
        if most > least
        else str(most)
        for least, most in zip(low.tolist(), high.tolist(), strict=True)
    )
    return f"{restriction.query.name!r} {', '.join(said)}"


def of_units(restriction: Restriction, units: Ints) -> Restriction:
    """The bounds of some units alone."""
    return Restriction(restriction.query, restriction.low[units], restriction.high[units])
