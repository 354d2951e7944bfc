"""Parametric bootstrap: TopDown once more, on a release in the place of the truth.

A release is public, so whatever is made of it alone costs no privacy. It keeps every invariant and
bound: a rerun keeps the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.geography import Geography
from headcount.mechanisms import Context
from headcount.noise import Noise
from headcount.release import CountsRelease, Release
from headcount.release.frames import LevelTable
from headcount.schema import Schema
from headcount.tabulate import Counts
from headcount.tabulate.counts import every_level
from headcount.topdown.answers import Nudge
from headcount.topdown.descend import along_spine
from headcount.topdown.from_measurements import PublishedStart, estimate_from
from headcount.topdown.measure import Measurements
from headcount.topdown.mechanism import TopDown
from headcount.typed import from_table

SOURCE = "error report"
REPUBLISH = 'measurements beside it (publish = ["measurements"])'


def settings_from_json(said: Mapping[str, Any], *, source: str) -> TopDown:
    """The settings that a receipt has (``TopDown.to_json``)."""
    return from_table(TopDown, dict(said), source=source, place="settings", tag="name")


def released_counts(release: Release, how: TopDown | PublishedStart) -> Counts:
    """A release as counts that TopDown can protect; what it cannot is refused.

    where
        how   the settings; or, with bounds or along a spine, measurements, beside which what is
              exact and bounded is published
    """
    if not isinstance(release, CountsRelease) or release.weight != 1 or release.missing:
        raise InputError(
            SOURCE,
            found="a release with withheld, changed, weighted or missing counts",
            expected="whole counts of every unit and cell, as topdown makes them",
        )
    settings = how if isinstance(how, TopDown) else how.mechanism
    if settings.loss is None:
        raise ConfigError(
            SOURCE, found="no noise: epsilon is infinite", expected="a release with noise"
        )
    places = release.geography
    if isinstance(how, PublishedStart):
        places = _same_places(release, how)
    elif how.bounds or how.spine:
        what = "bounds" if how.bounds else "a spine"
        raise InputError(
            SOURCE,
            found=f"settings with {what}, which the tables of a release do not show",
            expected=REPUBLISH,
        )
    return Counts(Domain(release.schema, places), places.leaf, _whole(release.table(places.leaf)))


def rerun(
    counts: Counts,
    how: TopDown | PublishedStart,
    noise: Noise,
    *,
    run: int,
    context: Context | None = None,
) -> Mapping[str, LevelTable]:
    """Protect ``released_counts`` once: tables of every level, in published places."""
    if isinstance(how, TopDown):
        quiet = replace(how, report_epsilon=Fraction(0))
        design = quiet.on(counts.domain)
        made = design.run(counts, noise, runs=range(run, run + 1), context=context).as_counts()
        return {level: tables[0] for level, tables in made.tables.items()}
    laid = along_spine(counts) if how.mechanism.spine else counts
    planned, classes = how.answers.planned, how.answers.classes
    drawn = Measurements(
        every_level(laid), how.mechanism, noise, run=run, planned=planned, classes=classes
    )
    return estimate_from(replace(how, answers=drawn.answers), context=context).tables


def nudged(start: PublishedStart, noise: Noise, *, run: int, part: float) -> PublishedStart:
    """The same start, from answers with some more noise; each run has other noise.

    How far does a release follow its answers? Whoever has them can add noise of the same law and
    estimate again. That looks at published files only, so it costs no privacy.
    """
    from scipy.sparse import csr_array

    places, schema = start.measurements.geography, start.measurements.schema
    empty = csr_array((places.size(places.leaf), schema.size), dtype=int)
    nobody = Counts(Domain(schema, places), places.leaf, empty)
    if start.mechanism.spine:
        nobody = along_spine(nobody)
    planned, classes = start.answers.planned, start.answers.classes
    fresh = Measurements(
        every_level(nobody), start.mechanism, noise, run=run, planned=planned, classes=classes
    )
    return replace(start, answers=replace(start.answers, nudge=Nudge(fresh, part)))


def _same_places(release: CountsRelease, start: PublishedStart) -> Geography:
    """The places of measurements, which may have a spine, if a release has the same ones."""
    found, expected = release.geography, start.measurements.geography
    same = found.levels == expected.levels and all(
        len(one) == len(other) and bool((one == other).all())
        for one, other in zip(found.units[1:], expected.units[1:], strict=True)
    )
    if not same or _counted(release.schema) != _counted(start.measurements.schema):
        raise InputError(
            SOURCE,
            found="a release of other places or attributes than the measurements have",
            expected="both of one run",
        )
    return expected


def refuse_other_attributes(release: CountsRelease, start: PublishedStart, *, source: str) -> None:
    """Refuse a release that counts people by something else than the measurements do."""
    found, expected = _counted(release.schema), _counted(start.measurements.schema)
    if found != expected:
        raise InputError(
            source,
            place="release",
            found=f"counts by {_in_words(found)}",
            expected=f"counts by {_in_words(expected)}, as the measurements have them",
        )


def _in_words(counted: list[tuple[str, tuple[str, ...]]]) -> str:
    """Attributes with their levels, of which the first few are enough."""
    return ", ".join(
        f"{name} ({', '.join(levels[:4])}{', ...' if len(levels) > 4 else ''})"
        for name, levels in counted
    )


def _counted(schema: Schema) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.name, one.levels) for one in schema.attributes]


def _whole(table: LevelTable) -> Any:
    """Sparse counts; those that no TopDown can have made are refused."""
    import numpy as np
    from scipy.sparse import csr_array

    matrix = csr_array(table)
    if (matrix.data != np.rint(matrix.data)).any() or matrix.data.min(initial=0) < 0:
        raise InputError(
            SOURCE, found="counts below 0 or with fractions", expected="whole numbers of 0 or more"
        )
    return matrix.astype(np.int64)
