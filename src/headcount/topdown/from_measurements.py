"""TopDown from published measurements alone: the same descent, without a truth and a loss.

Answers and constraints are read from files; levels, passes, repairs and engines are those of any
run. From the files of a run, and with its settings, the release is that run's release.

An estimate can keep a table that was protected before. Whether it fits what is published exactly
is looked at unit by unit: bounds that one unit has, and totals that parts have together.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from headcount.addresses import step_words
from headcount.arrays import Ints
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError, RunError, one_of
from headcount.geography import Geography
from headcount.mechanisms import Context, CountsOutcome, Making
from headcount.privacy import Allocation, Guarantee
from headcount.release import CountsRelease
from headcount.release.store import guarantee_from_json
from headcount.schema import Schema
from headcount.storage import Storage
from headcount.topdown._pool import answers_of_run
from headcount.topdown._repair import refuse_too_wide
from headcount.topdown._tighten import attained
from headcount.topdown.answers import Answers, Planned, published_answers, unit_classes
from headcount.topdown.choices import refuse_unmeasured
from headcount.topdown.descend import Descent, descend, off_spine
from headcount.topdown.design import in_words
from headcount.topdown.measure import bounds_in_files
from headcount.topdown.measurements import (
    NoisyMeasurements,
    PublishedBounds,
    in_parts,
    read_measurements,
    without_part,
)
from headcount.topdown.mechanism import TopDown, noted, with_workspace
from headcount.topdown.parts import PartFiles
from headcount.topdown.restrict import (
    JointTotals,
    Restriction,
    Restrictions,
    binding_groups,
    bound_name,
    groups_of,
    invariant_words,
    refuse_crossing,
)
from headcount.topdown.settings import planned_at
from headcount.topdown.solve.batch import NO_BOUND
from headcount.typed import from_table

UNITS_AT_ONCE = 1 << 14
"""Units whose bounds are compared with a table at once."""


def _from_published(guarantee: Guarantee, kept: Sequence[str]) -> Guarantee:
    """That of published measurements, and of the tables that are kept beside, by their queries."""
    source, beside = "published measurements and constraints", guarantee.not_covered
    if kept:
        named = ", ".join(map(repr, kept))
        source += f", and from tables protected before that it keeps ({named}),"
        beside = (*beside, f"the loss of these tables, where they were made from others: {named}")
    return replace(guarantee, made_from=source, not_covered=beside)


def _refuse_impossible(
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


log = logging.getLogger(__name__)

PUBLISHED = "published"
"""The folder in a workspace for what is worked out from published files: rows and bounds."""


@dataclass(frozen=True, eq=False)
class PublishedStart:
    """All that an estimate needs, read from published files and checked.

    where
        mechanism      the settings, of the levels that are there
        measurements   answers and constraints
        answers        the answers, each with the share that paid for it; other ones in a rerun
        restrictions   what the release keeps
        joint          totals that units of a level have together
        kept           query and digest of each table that is kept beside (see ``keeping``)
        not_kept       for each level the units of the measured tree without an exact total: parts
                       of a published unit whose total the files do not have
    """

    mechanism: TopDown
    measurements: NoisyMeasurements
    answers: Answers
    restrictions: Restrictions
    joint: Mapping[str, JointTotals]
    not_kept: Mapping[str, Ints] = field(default_factory=dict)
    kept: tuple[tuple[str, str], ...] = ()

    @property
    def made_from(self) -> bytes:
        """What marks the files of an estimate."""
        kept = (digest for _, digest in self.kept)
        told = (self.measurements.digest, step_words(self.mechanism), *kept)
        return "".join(told).encode()

    @property
    def guarantee(self) -> Guarantee:
        """That of the measurements: whatever is made from them alone costs nothing more."""
        if (said := self.measurements.said.get("guarantee")) is not None:
            stated = guarantee_from_json(said)
        else:
            stated = self._stated()
        stated = replace(stated, method=self.mechanism.method)
        return _from_published(stated, [query for query, _ in self.kept])

    def _stated(self) -> Guarantee:
        """That of the settings, for files that do not state one, without what is not kept."""
        settings, measurements = self.mechanism, self.measurements
        domain = Domain(measurements.schema, measurements.geography)
        if settings.loss is None:
            return Guarantee.none("no noise was added: epsilon is infinite")
        if self._has_all_levels:
            stated = settings.on(domain).guarantee
        else:  # the loss is that of all levels, of which only the upper ones are here
            stated = in_words(Guarantee(losses=(settings.loss,)), settings, domain)
        weaker = {
            invariant_words(
                settings, one
            ): f"{invariant_words(settings, one)} but {len(self._places(one.level)):,} "
            "that the spine has in parts: the files do not have their totals, and they are not kept"
            for one in settings.invariant
            if one.level in self.not_kept
        }
        exact = tuple(weaker.get(what, what) for what in stated.released_exactly)
        return replace(stated, released_exactly=(*exact, *self._exact_bounds()))

    @property
    def _has_all_levels(self) -> bool:
        tree, published = self.measurements.tree, self.measurements.geography
        if self.mechanism.spine and published.spine is None:
            return False
        return _known_levels(self.mechanism, tree) == tree.levels

    def _places(self, level: str) -> set[str]:
        """The published units of a level whose totals are not kept, by their codes."""
        codes = self.measurements.tree.units[self.measurements.tree.depth(level)]
        return {without_part(str(codes[unit])) for unit in self.not_kept[level]}

    def _exact_bounds(self) -> Iterator[str]:
        """Bounds in others' files that the settings do not tell of: they are exact numbers too."""
        settings, tree = self.mechanism, self.measurements.tree
        told = {one.query for one in (*settings.invariant, *settings.bounds)}
        # What is exact of every leaf is so of all parts: nothing of them is news.
        exact = {one.level for one in settings.invariant} - {tree.leaf}
        depth = max(map(tree.depth, exact), default=-1)
        for level, those in self.restrictions.items():
            parts = np.zeros(0, dtype=np.int64)
            if settings.spine and tree.depth(level) <= depth:
                parts = np.flatnonzero(in_parts(tree.units[tree.depth(level)]))
            for one in those:
                name = one.query.name
                if name not in told and binding_groups(one).any():
                    yield f"the bounds on {name!r} of every {level}, as the files have them"
                elif len(parts) and binding_groups(of_units(one, parts)).any():
                    yield (
                        f"the bounds on {name!r} of each of the {len(parts):,} parts in which the "
                        f"spine has a {level}, as the files have them"
                    )

    @property
    def notes(self) -> dict[str, float | str]:
        """What is not kept, for the receipt."""
        return {
            f"{level}: exact totals that are not kept, for the files do not have them": float(
                len(self._places(level))
            )
            for level in self.not_kept
        }


def start_from(
    folder: Path | str,
    mechanism: TopDown | None = None,
    *,
    schema: Schema | None = None,
    levels: Sequence[str] = (),
    workspace: Storage | None = None,
) -> PublishedStart:
    """Read published measurements and check that an estimate can start from them.

    where
        mechanism   the settings; None for those that files made here have with them
        schema      what is counted, where the files do not say it
        levels      the levels from the whole down, where the files do not say them: by default all
                    that the mechanism has shares for, or the upper ones of these
        workspace   where numbers of rows are put, to be read by tasks
    """
    place = None if workspace is None else workspace.below(PUBLISHED)
    if mechanism is not None and not levels:
        levels = [level for level, _ in mechanism.level_shares or ()]
    measurements = read_measurements(
        folder,
        schema=schema,
        queries=() if mechanism is None else mechanism.marginals,
        levels=levels,
        spine=mechanism is not None and mechanism.spine,
        workspace=place,
    )
    if mechanism is None:
        mechanism = _described(measurements)
    tree = measurements.tree
    known = _known_levels(mechanism, tree)
    settings = _at_levels(mechanism.completed(measurements.schema, tree), tree.levels)
    settings.refuse_unknown_names(measurements.schema, tree)
    allocation = settings.allocation_of(known)
    refuse_unmeasured(settings, allocation)
    whole = len(known) == len(tree.levels)
    planned = _planned(settings, measurements, allocation, known)
    classes = unit_classes(settings, tree) if whole else None
    answers = published_answers(measurements, planned, classes)
    joint = _joint(measurements)
    restrictions = _restrictions(settings, measurements)
    not_kept = _refuse_inexact(settings, restrictions, joint, measurements)
    refuse_too_wide(restrictions, schema=measurements.schema, geography=tree, joint=joint)
    refuse_crossing(settings, restrictions, measurements.schema)
    return PublishedStart(settings, measurements, answers, restrictions, joint, not_kept)


def estimate_from(start: PublishedStart, *, context: Context | None = None) -> CountsRelease:
    """The release that TopDown makes from published measurements: no truth, no key, no loss."""
    with with_workspace(context or Context()) as own:
        (made, seconds), measurements = _descent(start, own), start.measurements
        _refuse_other_totals(start, made.tables)
        if measurements.geography is not measurements.tree and measurements.geography.spine:
            tables = off_spine(made, measurements.geography, workspace=own.workspace)
            made = replace(made, tables=tables)
    runs = {level: [made.tables[level]] for level in measurements.geography.levels}
    outcome = CountsOutcome(runs, noted(made) | start.notes, seconds)
    making = Making(
        domain=Domain(
            measurements.schema,
            measurements.geography,
            counted=start.mechanism.unit.counted,
        ),
        mechanism=start.mechanism.public_text or repr(start.mechanism),
        guarantee=start.guarantee,
        key_kind="none",
        backend="none",
    )
    return outcome.release(0, making)


def keeping(start: PublishedStart, query: str, table: Any) -> PublishedStart:
    """The same start, where the answers to a query are those of a table protected before.

    So one product is made below another (the second is conditioned on the first), and a second
    outer pass on what a first has settled. The table need not hold the truth, which is why this is
    an estimate's and not a run's: an estimate has no truth to compare it with. It must fit what is
    published exactly: a table beside which the bounds of some unit cannot be kept is refused.

    where
        table   units x groups, whole numbers: of the leaves that are published, in their order
    """
    measurements = start.measurements
    tree, published = measurements.tree, measurements.geography
    known = {one.name: one for one in start.mechanism.marginals}
    if (asked := known.get(query)) is None:
        raise InputError("table that is kept", found=f"query {query!r}", expected=one_of(known))
    answers = np.asarray(table, dtype=np.int64)
    shape = (published.size(published.leaf), asked.size(measurements.schema))
    if answers.shape != shape or answers.min(initial=0) < 0:
        raise InputError(
            f"table of {query!r}",
            found=f"{' x '.join(map(str, answers.shape))} numbers, or some below 0",
            expected=f"{shape[0]} x {shape[1]}: a row for each leaf, a column for each group",
        )
    if published.spine is not None:
        answers = answers[published.along_spine]
    kept = sha256(query.encode() + b"\0" + np.ascontiguousarray(answers).tobytes()).hexdigest()
    restrictions = dict(start.restrictions)
    for depth in range(len(tree.levels) - 1, -1, -1):
        level, exact = tree.levels[depth], Restriction(asked, answers, answers)
        _refuse_impossible(exact, level, measurements, start.restrictions, start.joint)
        others = tuple(one for one in restrictions[level] if one.query.name != query)
        restrictions[level] = (*others, exact)
        if depth:
            first = tree.children_start(tree.levels[depth - 1])
            answers = np.add.reduceat(answers, first)
    return replace(start, restrictions=restrictions, kept=(*start.kept, (query, kept)))


def _descent(start: PublishedStart, context: Context) -> tuple[Descent, dict[str, float]]:
    restrictions, parts = start.restrictions, None
    measurements = start.measurements
    seconds: dict[str, float] = {}
    with _bounds_place(context.workspace) as place:
        if place is not None and context.workspace is not None:
            restrictions = bounds_in_files(restrictions, place)
            parts = PartFiles(context.workspace, 0, made_from=start.made_from)
        with answers_of_run(
            start.answers,
            start.mechanism,
            measurements.schema,
            measurements.tree,
            published=measurements.geography,
            context=context,
            made_from=start.made_from,
            seconds=seconds,
        ) as answers:
            made = descend(
                schema=measurements.schema,
                geography=measurements.tree,
                settings=start.mechanism,
                measurements=answers,
                restrictions=restrictions,
                engine=context.engine,
                progress=context.progress,
                parts=parts,
                workspace=context.workspace,
                joint=start.joint,
                seconds=seconds,
            )
    return made, seconds


@contextmanager
def _bounds_place(workspace: Storage | None) -> Iterator[Storage | None]:
    """Where bounds are put for tasks, and taken away in the end."""
    if workspace is None:
        yield None
        return
    place = workspace.below(PUBLISHED).below("bounds")
    try:
        yield place
    finally:
        place.remove()


def _described(measurements: NoisyMeasurements) -> TopDown:
    """The settings that files made here have with them."""
    said = measurements.said.get("mechanism")
    if said is None:
        raise ConfigError(
            str(measurements.folder),
            place="mechanism",
            found="files that do not say how they were made",
            expected="the settings of topdown: shares, queries and passes",
        )
    return from_table(TopDown, said, source=str(measurements.folder))


def _known_levels(mechanism: TopDown, tree: Geography) -> tuple[str, ...]:
    """All levels that the settings are for, of which the tree has all or the upper ones."""
    if mechanism.level_shares is None:
        return tree.levels
    named = tuple(level for level, _ in mechanism.level_shares)
    if set(named) <= set(tree.levels):  # a level without a share need not be named
        return tree.levels
    if named[: len(tree.levels)] != tree.levels:
        raise ConfigError(
            "topdown",
            place="levels",
            found=f"shares for {', '.join(named)}",
            expected=f"the levels from the whole down: {', '.join(tree.levels)}, then lower ones",
        )
    return named


def _at_levels(mechanism: TopDown, levels: tuple[str, ...]) -> TopDown:
    """The settings of these levels: what is kept or fitted at others is left out."""
    passes = type(mechanism.passes)(one for one in mechanism.passes if one[0] in levels)
    invariant = tuple(one for one in mechanism.invariant if one.level in levels)
    if (passes, invariant) == (mechanism.passes, mechanism.invariant):
        return mechanism
    return replace(mechanism, passes=passes, invariant=invariant)


def _planned(
    settings: TopDown,
    measurements: NoisyMeasurements,
    allocation: Allocation,
    known: tuple[str, ...],
) -> Planned:
    """The noise of every level that is there, also where lower ones are not."""
    tree, shares = measurements.tree, [allocation.level_share(level) for level in known]
    classes = {}
    if settings.bypass:
        nothing = 0 * shares[0]
        classes = {
            level: (nothing, *accumulate(shares[depth:])) for depth, level in enumerate(tree.levels)
        }
    # An only unit may be an only child, of whom nothing was measured: no count stands alone there.
    least = 2 if settings.bypass else 1
    return planned_at(
        settings,
        measurements.schema,
        allocation,
        units={level: max(tree.size(level), least) for level in tree.levels},
        classes=classes,
    )


def _restrictions(settings: TopDown, measurements: NoisyMeasurements) -> Restrictions:
    """The published constraints, in the order in which a run has them."""
    asked = [*(one.query for one in settings.invariant), *(one.query for one in settings.bounds)]
    own = {query.name: query for query in settings.marginals}

    def order(query: str) -> int:
        return asked.index(query) if query in asked else len(asked)

    found = {}
    for level, queries in measurements.bounded.items():
        those = queries if measurements.said else sorted(queries, key=order)
        found[level] = tuple(
            Restriction(
                own.get(query, measurements.queries[query]),
                PublishedBounds(measurements, level, query, 0),
                PublishedBounds(measurements, level, query, 1),
            )
            for query in those
        )
    return found


def _joint(measurements: NoisyMeasurements) -> dict[str, JointTotals]:
    """Totals that several units of the measured tree have together."""
    published, tree = measurements.geography, measurements.tree
    found = {}
    if published.spine is None:
        return {}
    for level in published.levels:
        if not (totals := measurements.totals_together(level)):
            continue
        codes = published.units[published.depth(level)].tolist()
        if set(codes) != set(totals):
            raise InputError(
                str(measurements.folder),
                place=f"level {level!r}",
                found=f"totals of {len(totals):,} published units together",
                expected=f"one for each of {len(codes):,}",
            )
        group = groups_of(tree, published, level)
        found[level] = JointTotals(group, np.array([totals[code] for code in codes]))
    return found


def _refuse_inexact(
    settings: TopDown,
    restrictions: Restrictions,
    joint: Mapping[str, JointTotals],
    measurements: NoisyMeasurements,
) -> dict[str, Ints]:
    """Refuse constraints that leave open what the settings say is published exactly.

    In files of the Bureau the total of a state in two parts is no constraint of either: such units
    are found for each level that has any.
    """
    tree, not_kept = measurements.tree, dict[str, Ints]()
    for invariant in settings.invariant:
        without: dict[str, Ints] = {}
        for level in tree.levels[: tree.depth(invariant.level) + 1]:
            if level in joint:
                continue
            own = [one for one in restrictions[level] if one.query.name == invariant.query]
            free = _free_units(own[0]) if own else np.arange(tree.size(level))
            if settings.spine and not measurements.said:
                parts = in_parts(tree.units[tree.depth(level)])
                if (lost := parts[free]).any():
                    without[level] = free[lost]
                free = free[~lost]
            if len(free):
                code = str(tree.units[tree.depth(level)][free[0]])
                raise InputError(
                    str(measurements.folder),
                    place=f"level {level!r}, geounit {code!r}",
                    found=f"no constraint that {invariant.query!r} is exact",
                    expected=f"one for every geounit: it is invariant at {invariant.level!r}",
                )
        if invariant.level not in without:  # what is exact there adds up to what is above
            continue
        for level, units in without.items():
            log.warning(
                "%s: no constraint has the total of %d units of %r that the spine has in parts: it "
                "is not kept",
                measurements.folder,
                len(units),
                level,
            )
            not_kept[level] = np.union1d(not_kept.get(level, units), units)
    return not_kept


def _free_units(restriction: Restriction) -> Ints:
    """The units of which an answer is not exact."""
    found = [
        units.start + np.flatnonzero((low != high).any(axis=1))
        for units, low, high in restriction.pieces()
    ]
    return np.concatenate([np.zeros(0, dtype=np.int64), *found])


def _refuse_other_totals(start: PublishedStart, tables: Mapping[str, Any]) -> None:
    """Check totals that units have together, which are bounds of none of them."""
    for level, joint in start.joint.items():
        people = np.asarray(tables[level].sum(axis=1), dtype=np.int64).ravel()
        wrong = joint.together(people) != joint.of_units
        if wrong.any():
            raise RunError(
                f"topdown: level {level!r}: found another total of parts together than is "
                f"published exactly (at geounit {int(np.argmax(wrong))}), expected the same"
            )
