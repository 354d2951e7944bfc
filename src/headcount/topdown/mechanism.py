"""TopDown as a mechanism: what it promises, what it measures, and one run of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from math import exp, floor, log
from typing import Self

from headcount.addresses import step_words
from headcount.domain import Domain
from headcount.errors import ConfigError
from headcount.mechanisms import (
    Context,
    CountsOutcome,
    PostTabular,
    refuse_too_many,
)
from headcount.noise import Noise
from headcount.processes import gib
from headcount.release.publication import MdfFiles, PeopleInQuarters, Publication
from headcount.storage import storage_at
from headcount.tabulate import Counts, counts_digest
from headcount.tabulate.counts import every_level
from headcount.topdown._pool import answers_of_run
from headcount.topdown._repair import refuse_too_wide
from headcount.topdown._tighten import refuse_fixed_units, tighten
from headcount.topdown.choices import QuartersBounds, TableBounds
from headcount.topdown.descend import Descent, along_spine, descend, off_spine, refuse_other_totals
from headcount.topdown.design import REPORT, TopDownDesign, design_of, reported
from headcount.topdown.measure import (
    TRUTH,
    Measurements,
    TruthFiles,
    bounds_in_files,
    distance_to_truth,
    mark_of,
    truth_in_files,
)
from headcount.topdown.parts import PartFiles, WrittenFiles
from headcount.topdown.restrict import (
    JointTotals,
    Restrictions,
    joint_totals,
    nests,
    refuse_crossing,
    refuse_no_neighbour,
    refuse_truth_outside,
    restrict,
)
from headcount.topdown.settings import TopDownSettings

WITH_POOLING = "TopDown with pooling"
"""What it is called wherever ``pool`` is set: no longer the method that the Bureau used. The name
does not say that answers are pooled: on some trees no level gains by it, which the notes say."""
_CONFIDENCE = 0.9


@dataclass(frozen=True, kw_only=True, repr=False)
class TopDown(TopDownSettings, PostTabular):
    """Noisy measurements at every level, then least squares and rounding from the top down.

    Abowd et al. (2019), "Census TopDown"; the code of the 2018 end-to-end test. The release is
    integer, non-negative, adds up over levels, and keeps every invariant and bound exactly.
    """

    name = "topdown"

    @property
    def called(self) -> str:
        """What reports call it."""
        return WITH_POOLING if self.pool else self.name

    @property
    def public_text(self) -> str:
        """All settings, behind what it is called."""
        return self.called + repr(self).removeprefix(type(self).__name__) if self.pool else ""

    @property
    def method(self) -> str:
        """What a guarantee says of the method; nothing of TopDown as it is."""
        if not self.pool:
            return ""
        where = (
            f"from {self.pool_from} up" if self.pool_from else "wherever a level gains 1 % by it"
        )
        return (
            f"{self.called}: noisy answers are joined with those of the levels below, {where} (the "
            "receipt says where, or that no level gains 1 % and none are), which costs no privacy"
        )

    def on(self, domain: Domain) -> TopDownDesign:
        """What it measures on a domain, with which noise, and what that promises."""
        return design_of(self, domain)

    def for_a_trial(self, *, of_nobody: bool = False) -> Self:
        """Of nobody without invariants and bounds, which leave it no neighbour."""
        return replace(self, invariant=(), bounds=()) if of_nobody else self

    def refuse_changed(self, *, by: str, weight: Fraction, households: bool) -> None:
        """Refuse what is true of everybody for a sample, and bounds from a file for any change."""
        exact = self.invariant or self.bounds
        if weight != 1 and exact:
            raise ConfigError(
                "topdown",
                place="invariants and bounds",
                found=f"a sample ({by}), whose people stand for {weight} each",
                expected="none of them: they say what is true of everybody",
            )
        if not households and any(isinstance(one, QuartersBounds) for one in self.bounds):
            raise ConfigError(
                "topdown",
                place="bounds",
                found=f"bounds from living quarters after {by}",
                expected="none: after it nobody knows who lives in which quarters",
            )
        if any(isinstance(one, TableBounds) for one in self.bounds):
            raise ConfigError(
                "topdown",
                place="bounds",
                found=f"bounds from a file after {by}",
                expected="none: they hold for the records as they were, not as they were changed",
            )

    def publications(self) -> Mapping[str, Publication]:
        """Measurements; and people, where the counts are bounded to fit living quarters.

        People are placed in living quarters only where each of these has somebody.
        """
        from headcount.topdown._publish import PublishedMeasurements

        found: dict[str, Publication] = {"measurements": PublishedMeasurements(self)}
        exact_at = tuple(dict.fromkeys(one.level for one in self.invariant))
        living = next((one for one in self.bounds if isinstance(one, QuartersBounds)), None)
        if living is not None:
            floors = living.floors or (1,) * len(living.caps)
            found["mdf"] = MdfFiles(
                caps=living.caps, floors=floors, vacant=living.vacant, exact_at=exact_at
            )
            # Which homes are vacant is not published where they count as any other.
            if not living.vacant and min(floors) > 0:
                found["microdata"] = PeopleInQuarters()
        elif self.unit.of_housing_unit:
            found["mdf"] = MdfFiles(exact_at=exact_at)
        return found

    def check(self, design: TopDownDesign, counts: Counts) -> tuple[str, ...]:
        """Refuse settings and data that do not fit; say what is pooled, and how levels round."""
        counts = self._laid(counts)
        levels = every_level(counts)
        refuse_too_many(levels[design.tree.levels[0]], name=self.name)
        restrictions = self._restrictions(design, levels, self._joint(design, levels))
        rounding = (
            f"bounds at {level} nest: rounding is a network problem"
            if nests(those, counts.schema)
            else f"bounds at {level} overlap: rounding may need an integer programme"
            for level, those in restrictions.items()
            if those
        )
        del levels  # as large as the truth
        if (pooling := design.pooling) is None:
            return tuple(rounding)
        return (
            f"{self.called}: {pooling.words}; {pooling.answers:,} answers are drawn for it, and "
            f"pooled ones take {gib(pooling.bytes)} of disk while it runs",
            *rounding,
        )

    def _laid(self, counts: Counts) -> Counts:
        """The counts as they are measured: under their own tree, or along the spine."""
        return along_spine(counts) if self.spine else counts

    def _joint(
        self, design: TopDownDesign, levels: Mapping[str, Counts]
    ) -> Mapping[str, JointTotals]:
        """Exact totals of published units that the spine has in parts."""
        return joint_totals(self, levels, design.domain.geography) if self.spine else {}

    def _restrictions(
        self, design: TopDownDesign, levels: Mapping[str, Counts], joint: Mapping[str, JointTotals]
    ) -> Restrictions:
        """Bounds that hold the truth, and that every estimate can be moved to keep."""
        leaf = next(iter(levels.values()))
        restrictions = restrict(design.settings, levels, joint)
        refuse_truth_outside(restrictions, levels)
        unit = self.loss.unit if self.loss is not None else None
        refuse_no_neighbour(restrictions, levels, unit)
        if joint or any(restrictions.values()):
            restrictions = self._keepable(restrictions, leaf.domain, joint)
        refuse_crossing(self, restrictions, leaf.schema)
        return restrictions

    def _keepable(
        self, restrictions: Restrictions, domain: Domain, joint: Mapping[str, JointTotals]
    ) -> Restrictions:
        """Bounds, as tight as they are together, that let somebody come or go."""
        schema, geography = domain.schema, domain.geography
        if any(isinstance(bounds, TableBounds) for bounds in self.bounds):
            restrictions = tighten(restrictions, schema=schema, geography=geography)
        refuse_fixed_units(
            self.neighbours.unit,
            restrictions,
            schema=schema,
            geography=geography,
            public=all(isinstance(one, TableBounds) and one.public for one in self.bounds),
        )
        refuse_too_wide(restrictions, schema=schema, geography=geography, joint=joint)
        return restrictions

    def run(
        self, design: TopDownDesign, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        """Protect the counts once for each run number."""
        with with_workspace(context) as own:
            made, seconds = self._descents(design, counts, noise, runs, own)
        for one in made if self.spine else ():
            refuse_other_totals(self, counts, one.tables)
        notes = noted(made[0])
        if self.report_epsilon and self.loss is not None:
            notes |= self._report(counts, made[0], noise, run=runs.start)
        tables = {level: [one.tables[level] for one in made] for level in counts.geography.levels}
        return CountsOutcome(tables, notes, seconds)

    def _descents(
        self, design: TopDownDesign, counts: Counts, noise: Noise, runs: range, context: Context
    ) -> tuple[list[Descent], dict[str, float]]:
        """One descent for each run, and how long each level took.

        With a workspace the truth and the bounds of every level are in files, which go in the end;
        nothing as large as the truth is then in memory here. Tables are of published places.
        """
        schema, published = design.domain.schema, design.domain.geography
        settings, tree = design.settings, design.tree
        counts = self._laid(counts)
        levels = every_level(counts)
        truth: Mapping[str, Counts] | TruthFiles = levels
        joint = self._joint(design, levels)
        restrictions = self._restrictions(design, levels, joint)
        made: list[Descent] = []
        seconds: dict[str, float] = {}
        made_from = b""
        with ExitStack() as stack:
            if context.workspace is not None:
                made_from = counts_digest(counts) + mark_of(noise) + step_words(settings).encode()
                place = context.workspace.below(TRUTH)
                truth = stack.enter_context(truth_in_files(levels, place))
                restrictions = bounds_in_files(restrictions, place)
            del levels, counts  # as large as the truth
            for run in runs:
                measurements = Measurements(
                    truth,
                    settings,
                    noise,
                    run=run,
                    planned=design.planned,
                    classes=design.classes,
                ).answers
                parts = written = None
                if (work := context.workspace) is not None:
                    parts = PartFiles(work, run, made_from=made_from)
                    written = WrittenFiles(work, run, made_from=made_from)
                if context.measurements is not None:
                    from headcount.topdown._publish import write_measurements, write_together

                    write_measurements(
                        measurements,
                        restrictions,
                        settings,
                        schema,
                        tree,
                        context.measurements,
                        engine=context.engine,
                        run=sha256(mark_of(noise) + b"measurements %d" % run).hexdigest()[:32],
                        progress=context.progress,
                        written=written,
                    )
                    write_together(joint, published, schema, context.measurements)
                with answers_of_run(
                    measurements,
                    settings,
                    schema,
                    tree,
                    published=published,
                    context=context,
                    made_from=made_from,
                    run=run,
                    seconds=seconds,
                ) as answers:
                    found = descend(
                        schema=schema,
                        geography=tree,
                        settings=settings,
                        measurements=answers,
                        restrictions=restrictions,
                        engine=context.engine,
                        progress=context.progress,
                        parts=parts,
                        workspace=work,
                        joint=joint,
                        seconds=seconds,
                    )
                if self.spine:
                    found = replace(found, tables=off_spine(found, published, workspace=work))
                made.append(found)
        return made, seconds

    def _report(self, counts: Counts, made: Descent, noise: Noise, *, run: int) -> dict[str, float]:
        """The protected share of people whose record differs, with an upper bound (E18)."""
        released = made.tables[counts.geography.leaf]
        people = max(int(released.sum()), 1)  # a distance to nobody is still a number
        _, law = reported(self, counts.domain)
        distance = distance_to_truth(counts, released, law=law, noise=noise, run=run)
        reach = noise_quantile(law.rate, confidence=_CONFIDENCE)
        return {
            f"{REPORT}, share of people": distance / (2 * people),
            f"{REPORT}, upper bound at {_CONFIDENCE:.0%} confidence": (distance + reach)
            / (2 * people),
        }


def noted(made: Descent) -> dict[str, float | str]:
    """What happened at each level, and what the answers were, for the receipt."""
    found: dict[str, float | str] = {
        f"{level}: {what}": value
        for level, happened in made.notes.items()
        for what, value in happened.items()
    }
    return found | dict(made.said)


@contextmanager
def with_workspace(context: Context) -> Iterator[Context]:
    """A context with a workspace, if it had one or its engine works in other processes."""
    if context.workspace is not None:
        yield context
        return
    with context.engine.private_folder() as folder:
        yield context if folder is None else replace(context, workspace=storage_at(folder))


def noise_quantile(rate: Fraction, *, confidence: float) -> int:
    """The smallest k with Pr[noise >= -k] >= confidence for two-sided geometric noise.

    Pr[noise < -k] = a^(k + 1) / (1 + a), where a = exp(-rate)
    """
    a = exp(-rate)
    missed = 1 - confidence
    return max(0, floor(log(missed * (1 + a)) / -float(rate)))
