"""Published noisy measurements as the source of an estimate, held against their stated loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from headcount.arrays import Floats, Ints, Ints8
from headcount.errors import InputError
from headcount.topdown.answers import Answers, Classes, Planned
from headcount.topdown.measurements import NoisyMeasurements
from headcount.topdown.planned import PlannedNoise

UNITS_AT_ONCE = 1 << 14
SAME_VARIANCE = 1e-9
"""Relative: variances are written as floats."""


def published_answers(
    measurements: NoisyMeasurements, planned: Planned, expected: Classes | None
) -> Answers:
    """The answers, after checking that every unit has those that its share paid for, and no others.

    where
        planned    the noise of each level and query, and of each share
        expected   which share each unit has; None where that cannot be known, because levels
                   below are not there: then the variances say it
    """
    classes: dict[str, Ints8] = {}
    for level in measurements.levels:
        asked = {query: noise for (at, query), noise in planned.items() if at == level}
        _refuse_other_queries(measurements, level, asked)
        if not asked:
            continue
        found = _classes(measurements, level, asked)
        shared = any(noise.classes for noise in asked.values())
        may_lack = _only_children(measurements, level) if shared else np.zeros(1, dtype=bool)
        _refuse_where(
            measurements,
            level,
            (found == 0) & ~may_lack,
            "no answers",
            "answers for its share" + ": only an only child has none" * shared,
        )
        if not shared:
            continue
        if expected is not None:
            _refuse_where(
                measurements,
                level,
                found != expected[level],
                "variances of another share, or no answers",
                "those of its place in the tree: an only child's share is its parent's",
            )
        classes[level] = found
    return Answers(measurements, planned, classes)


def _refuse_other_queries(
    measurements: NoisyMeasurements, level: str, asked: Mapping[str, PlannedNoise]
) -> None:
    """Refuse answers that no share pays for, and shares without any answers.

    A level of only children has none at all.
    """
    there = measurements.measured(level)
    if not there and any(noise.classes for noise in asked.values()):
        return
    for query in (*asked, *there):
        if (query in there) == (query in asked):
            continue
        missing = query in asked
        raise InputError(
            str(measurements.folder),
            place=f"level {level!r}, query {query!r}",
            found="no answers" if missing else "answers, and no share",
            expected="answers: the query has a share there"
            if missing
            else "answers to queries that have a share there",
        )


def _classes(
    measurements: NoisyMeasurements, level: str, asked: Mapping[str, PlannedNoise]
) -> Ints8:
    """For each unit the number of the share that its variances are of; 0 without answers."""
    found = np.zeros(measurements.tree.size(level), dtype=np.int8)
    for some in _pieces(len(found)):
        own: Ints8 | None = None
        for query, noise in asked.items():
            variance = measurements.variances(level, query, some)
            known = _numbered(variance, _variances(noise))
            _refuse_variance(measurements, level, query, noise, some, variance, known)
            if own is not None and (own != known).any():
                first = int(np.argmax(own != known))
                raise InputError(
                    str(measurements.folder),
                    place=_place(measurements, level, some.start + first),
                    found=f"answers to {query!r} of another share than to other queries, or none",
                    expected="answers to every query that has a share there",
                )
            own = known
        assert own is not None
        found[some.start : some.stop] = own
    return found


def _variances(noise: PlannedNoise) -> list[float | None]:
    """The variance of each share that a unit can have; None for no share."""
    shares = noise.classes or (None, noise)
    return [None if one is None else 0.0 if one.law is None else one.law.variance for one in shares]


def _numbered(variance: Floats, known: list[float | None]) -> Ints8:
    """The number of each variance among those known, 0 for none there, -1 for an unknown one."""
    number = np.where(np.isnan(variance), 0, -1).astype(np.int8)
    for k, one in enumerate(known):
        if one is not None:
            number[np.isclose(variance, one, rtol=SAME_VARIANCE, atol=0)] = k
    return number


def _refuse_variance(
    measurements: NoisyMeasurements,
    level: str,
    query: str,
    noise: PlannedNoise,
    some: range,
    variance: Floats,
    known: Ints8,
) -> None:
    if (known >= 0).all():
        return
    at = int(np.argmax(known < 0))
    said = ", ".join(f"{one:.9g}" for one in _variances(noise) if one is not None)
    raise InputError(
        str(measurements.folder),
        place=f"{_place(measurements, level, some.start + at)}, query {query!r}",
        found=f"variance {variance[at]:.9g}",
        expected=f"{said}, as its share says",
    )


def _refuse_where(
    measurements: NoisyMeasurements, level: str, wrong: Ints | Floats, found: str, expected: str
) -> None:
    if wrong.any():
        place = _place(measurements, level, int(np.argmax(wrong)))
        raise InputError(str(measurements.folder), place=place, found=found, expected=expected)


def _only_children(measurements: NoisyMeasurements, level: str) -> Ints:
    depth = measurements.tree.depth(level)
    if depth == 0:
        return np.zeros(1, dtype=bool)
    parent = measurements.tree.parents[depth]
    return np.asarray(np.bincount(parent)[parent] == 1)


def _place(measurements: NoisyMeasurements, level: str, unit: int) -> str:
    code = measurements.tree.units[measurements.tree.depth(level)][unit]
    return f"level {level!r}, geounit {str(code)!r}"


def _pieces(units: int) -> Iterator[range]:
    for first in range(0, units, UNITS_AT_ONCE):
        yield range(first, min(first + UNITS_AT_ONCE, units))
