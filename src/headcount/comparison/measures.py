"""What is measured of each release of a comparison, by shipped metrics and attacks, as tables.

Every table has fixed columns, so that cases which have nothing of it can be set under each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from headcount.attacks import Attack
from headcount.attacks.linkage import Link
from headcount.attacks.reconstruction import Reconstruct
from headcount.attacks.reidentification import Reidentify
from headcount.comparison.cache import Frames
from headcount.comparison.cases import Released, labelled
from headcount.comparison.settings import Preset
from headcount.engines import Engine
from headcount.errors import HeadcountError
from headcount.evaluation import Metric, Truth, estimated, scored
from headcount.evaluation.answers import Breakdown, break_down, shown_as_tables
from headcount.evaluation.attacked import RecordsAgree
from headcount.evaluation.audit import Audit
from headcount.evaluation.evaluate import attack
from headcount.evaluation.part import some_of
from headcount.evaluation.rates import Rates
from headcount.evaluation.segregation import Segregation
from headcount.evaluation.suppressed import withheld_frame
from headcount.evaluation.table_changes import cell_deltas_frame, changed_counts
from headcount.evaluation.tally import CellSet
from headcount.privacy import UnitOfPrivacy
from headcount.release import Release, TablesRelease
from headcount.release.readers_estimate import ReadersEstimate, can_be_estimated
from headcount.tabulate import Counts
from headcount.tabulate.published import TableCells

AUDITED_UNITS = 12
"""Leaf units of the small part of the population on which a mechanism is run many times."""
AUDIT_ANSWERS = 1_000_000_000
"""Noisy answers that the runs of one audit may draw."""

WITHHELD = {
    "table": pl.String,
    "level": pl.String,
    "units": pl.Int64,
    "cells": pl.Int64,
    "withheld": pl.Int64,
    "zeroed": pl.Int64,
    "percent": pl.Float64,
    "tables": pl.Int64,
    "people": pl.Int64,
    "people_percent": pl.Float64,
}
AUDIT = {
    "unit": pl.String,
    "stated": pl.Float64,
    "at_least": pl.Float64,
    "runs": pl.Int64,
    "refuted": pl.Boolean,
}
ATTACKS = {
    "attack": pl.String,
    "who": pl.String,
    "people": pl.Int64,
    "claimed": pl.Int64,
    "right_percent": pl.Float64,
    "guess_percent": pl.Float64,
}
SEGREGATION = {
    "level": pl.String,
    "within": pl.String,
    "attribute": pl.String,
    "group": pl.String,
    "index": pl.String,
    "places": pl.Int64,
    "undefined": pl.Int64,
    "exact": pl.Float64,
    "released": pl.Float64,
    "bias": pl.Float64,
    "mean_absolute": pl.Float64,
}
RATES = {
    "level": pl.String,
    "rate": pl.String,
    "group": pl.String,
    "units": pl.Int64,
    "undefined": pl.Int64,
    "exact": pl.Float64,
    "released": pl.Float64,
    "bias": pl.Float64,
    "mean_absolute": pl.Float64,
}
ESTIMATED = {
    "prior": pl.String,
    "sweeps": pl.Int64,
    "off": pl.Float64,
    "converged": pl.Boolean,
    "words": pl.String,
}
NOT_MEASURED = {"what": pl.String, "why": pl.String}
EVERYBODY = "everybody"
_WHO = {"all": EVERYBODY, "nonmodal": "unlike most in the unit"}


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """What is measured: the same for every case.

    where
        unit      the unit of privacy of the comparison
        audited   names of the cases that are audited
        tables    tables, each at a level, on which all cases are compared: those whose counts
                  some case changes
    """

    cells: CellSet
    preset: Preset
    unit: UnitOfPrivacy
    audited: tuple[str, ...]
    tables: tuple[tuple[TableCells, str], ...] = field(default=(), repr=False)

    def measured(self, made: Iterator[Released], engine: Engine) -> Frames:
        """Everything about the releases of one case.

        Errors and changes of tables are taken of each; attacks, segregation, rates and audit
        of the first.
        """
        rows: dict[str, list[pl.DataFrame]] = {}
        for one in made:
            found: Frames = {**vars(_errors_of(one, self.cells)), **self._changes(one)}
            if one.replicate == one.case.runs[0]:
                found |= self._of_the_first(one, engine)
            about = {**one.case.columns, "replicate": one.replicate}
            for name, frame in found.items():
                rows.setdefault(name, []).append(labelled(frame, about))
        return {name: pl.concat(parts) for name, parts in rows.items()}

    def _changes(self, one: Released) -> Frames:
        """Tables beside the true ones; those of a release of counts are the sums of its counts."""
        release = one.release
        if isinstance(release, TablesRelease):
            # No other case has tables of areas that were made for one release.
            published = release.published if release.changed and not release.areas else ()
        else:
            published = shown_as_tables(release.as_counts(), self.tables)
        found = changed_counts(published, release.geography, one.truth)
        return {
            "table_changes": found.table,
            "table_distribution": found.changes,
            "table_distances": found.distances,
        }

    def _of_the_first(self, one: Released, engine: Engine) -> Frames:
        reasons: list[dict[str, str]] = []
        found = {
            "estimated": _how_it_is_read(one),
            "withheld": _withheld_of(one.release, one.truth.counts),
            "segregation": self._metric(
                one, Segregation(), SEGREGATION, reasons, lambda table: table.select(*SEGREGATION)
            ),
            "rates": self._metric(one, Rates(), RATES, reasons, lambda table: table.select(*RATES)),
            "audit": self._audit(one, reasons),
            "cell_deltas": cell_deltas_frame(one.truth.chain()),
            "attacks": pl.concat([self._attack(one, kind, reasons, engine) for kind in self.kinds]),
        }
        return {**found, "not_measured": pl.DataFrame(reasons, schema=NOT_MEASURED)}

    @property
    def kinds(self) -> tuple[Attack, ...]:
        """The attacks, as long as the preset allows."""
        units, steps = self.preset.attack_units, self.preset.attack_steps
        return (
            Link(),
            Reconstruct(most_units=units, steps=steps),
            Reidentify(most_units=units),
        )

    def _attack(
        self, one: Released, kind: Attack, reasons: list[dict[str, str]], engine: Engine
    ) -> pl.DataFrame:
        nothing = pl.DataFrame(schema=ATTACKS)
        if not (support := kind.supports(one.release.unweighted())):
            reasons.append({"what": kind.name, "why": support.why_not})
            return nothing
        try:
            finding = attack(one.release, one.truth, kind, engine=engine)
        except HeadcountError as error:
            reasons.append({"what": kind.name, "why": str(error)})
            return nothing
        if isinstance(finding, RecordsAgree):
            return _rebuilt_rows(finding.table)
        return _claim_rows(finding.name, finding.table)

    def _audit(self, one: Released, reasons: list[dict[str, str]]) -> pl.DataFrame:
        """The mechanism run many times on a small part of the population, and on a neighbour."""
        chain, loss = one.truth.chain(), one.release.guarantee.loss_for(self.unit)
        if loss is None or one.case.name not in self.audited:
            return pl.DataFrame(schema=AUDIT)
        part = _small_part(one.truth.protected)
        promised = replace(one.release.guarantee, losses=(loss,))
        audit = Audit(runs=self.preset.audit_runs, answers=AUDIT_ANSWERS)
        truth = Truth(counts=part, protected=part, mechanism=chain)
        small = replace(one, truth=truth, release=replace(one.release, guarantee=promised))
        return self._metric(small, audit, AUDIT, reasons, _audit_rows)

    def _metric(
        self,
        one: Released,
        metric: Metric,
        schema: Mapping[str, type[pl.DataType]],
        reasons: list[dict[str, str]],
        rows: Callable[[pl.DataFrame], pl.DataFrame],
    ) -> pl.DataFrame:
        seen = one.truth.on(one.release)
        support, release, truth = scored(metric, one.release, one.truth, seen)
        why = support.why_not
        if support:
            try:
                return rows(metric.compute(release, truth).table).cast(pl.Schema(schema))
            except HeadcountError as error:
                why = str(error)
        reasons.append({"what": metric.name, "why": why})
        return pl.DataFrame(schema=schema)


def _errors_of(one: Released, cells: CellSet) -> Breakdown:
    """Errors of counts, and of those that changed tables publish; withheld ones have none."""
    release = _readable(one)
    if isinstance(release, TablesRelease) and not release.changed:
        return Breakdown.nothing()
    found = break_down(one.truth.counts, release, cells=cells)
    # The largest errors of one release are an example; those of several would be twenty each.
    first = one.replicate == one.case.runs[0]
    return found if first else replace(found, largest=found.largest.clear())


def _readable(one: Released) -> Release:
    """The release, or counts that a reader can estimate from its tables."""
    if not isinstance(one.release, TablesRelease) or not can_be_estimated(one.release):
        return one.release
    return estimated(one.release, one.truth)[0]


def _how_it_is_read(one: Released) -> pl.DataFrame:
    """How a reader's estimate was made, where there is one."""
    read = _readable(one)
    rows = (
        [
            {
                "prior": read.prior,
                "sweeps": read.sweeps,
                "off": read.off,
                "converged": read.converged,
                "words": read.words,
            }
        ]
        if isinstance(read, ReadersEstimate)
        else []
    )
    return pl.DataFrame(rows, schema=ESTIMATED)


def _withheld_of(release: Release, counts: Counts) -> pl.DataFrame:
    """Cells and people that published tables do not show."""
    nothing = pl.DataFrame(schema=WITHHELD)
    if not isinstance(release, TablesRelease) or release.changed:
        return nothing
    return withheld_frame(counts, release).select(list(WITHHELD)).cast(WITHHELD)  # type: ignore[arg-type]


def _small_part(counts: Counts) -> Counts:
    """A few neighbouring leaf units: those of one parent around the first where somebody lives."""
    geography = counts.geography
    first = int(np.argmax(counts.totals() > 0))
    parent = geography.parents[-1]
    same = np.flatnonzero(parent == parent[first]) if len(parent) else np.array([first])
    start = int(np.clip(np.searchsorted(same, first), 0, max(0, len(same) - AUDITED_UNITS)))
    leaves = same[start : start + AUDITED_UNITS]
    part, _ = some_of(geography, leaves)
    quarters = counts.quarters
    if quarters is not None:
        occupied, vacant = quarters.occupied[leaves], quarters.vacant[leaves]
        quarters = replace(quarters, geography=part, occupied=occupied, vacant=vacant)
    domain = replace(counts.domain, geography=part)
    return replace(counts, domain=domain, matrix=counts.matrix[leaves], quarters=quarters)


def _audit_rows(table: pl.DataFrame) -> pl.DataFrame:
    return table.select(
        unit="unit_of_privacy",
        stated="stated_epsilon",
        at_least="epsilon_lower",
        runs="runs",
        refuted="refuted",
    )


def _rebuilt_rows(table: pl.DataFrame) -> pl.DataFrame:
    """Records that agree with people; there is no guess to set beside a record of nobody."""
    return table.filter(blocks="all").select(
        attack=pl.lit(Reconstruct.name),
        who=pl.lit(EVERYBODY),
        people=pl.col("people").cast(pl.Int64),
        claimed=pl.col("records").cast(pl.Int64),
        right_percent=pl.col("exact_percent").cast(pl.Float64),
        guess_percent=pl.lit(None, dtype=pl.Float64),
    )


def _claim_rows(name: str, table: pl.DataFrame) -> pl.DataFrame:
    """Claims about everybody, and about people whom a guess cannot find."""
    guess = "guess_%" if "guess_%" in table.columns else "modal_guess_%"
    named = table.with_columns(pl.col("universe").replace(_WHO))
    return named.filter(pl.col("universe").is_in(list(_WHO.values()))).select(
        attack=pl.lit(name),
        who="universe",
        people=pl.col("people").cast(pl.Int64),
        claimed=pl.col("claimed").cast(pl.Int64),
        right_percent=pl.col("precision_%").cast(pl.Float64),
        guess_percent=pl.col(guess).cast(pl.Float64),
    )
