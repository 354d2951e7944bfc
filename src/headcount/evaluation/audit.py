"""A lower bound on epsilon from many runs of the mechanism on two neighbouring databases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Floats
from headcount.errors import ConfigError, HeadcountError
from headcount.evaluation._base import Metric, NotFeasible, Truth, publishes_counts
from headcount.evaluation.epsilon_bounds import AuditBound, DirectEstimate, audit, direct
from headcount.mechanisms import Chain, ChainDesign, Tabulated
from headcount.noise import KeyedNoise, RunKey
from headcount.privacy import Loss, PureLoss, UnitOfPrivacy
from headcount.processes import Progress, silent
from headcount.release import Release
from headcount.report.figures import Axis, Reference, band_chart
from headcount.report.finding import SUPPORTED, Finding, Support
from headcount.report.model import Block, Column, Figure, KeyNumber
from headcount.tabulate import Counts

FEWEST_RUNS = 200
_NUMBERS_AT_ONCE = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Audit(Metric):
    """Run the mechanism on the data and on a neighbour, and guess which is which from the outputs.

    where
        runs         runs on each database, if they are not too large
        answers      noisy answers that all runs together may draw, and so how many runs are made of
                     a large database: the same on every machine. If they do not allow 200 of each,
                     nothing is stated
        confidence   the chance, at least, that the bound is not above the true epsilon
        seed         seed of the noise of these runs, and of who differs
    """

    name = "audit"
    on_request = True
    order = 45
    depends_on = frozenset()  # on the mechanism, run again
    runs: int = 4000
    answers: int = 5_000_000_000
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if self.runs < FEWEST_RUNS:
            raise ConfigError(
                "audit", place="runs", found=f"{self.runs}", expected=f"{FEWEST_RUNS} or more"
            )

    def supports(self, release: Release, truth: Truth) -> Support:
        """A mechanism that draws noise on counts, with a unit of privacy that is a person."""
        if not (counts := publishes_counts(release)):
            return counts
        if not truth.knows_mechanism:
            return Support("the mechanism is not known, so it cannot be run again")
        if not truth.chain().draws_noise:
            return Support("the mechanism draws no noise: every run is the same")
        if _loss(release) is None:
            return Support("no loss is stated for one person, so there is nothing to test")
        return SUPPORTED

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """Outputs of both databases where they differ, the bound, and the direct estimate."""
        loss, mechanism = _loss(release), truth.chain()
        assert loss is not None  # supported
        if not loss.unit.adds and int(truth.counts.schema.possible.sum()) == 1:
            raise NotFeasible("there is one cell only, to which no record can change in its unit")
        pair = _NeighbouringRuns.of(truth.protected, loss.unit, seed=self.seed)
        if not pair.passes(mechanism):
            # Published living quarters may leave no room for the step: then one within a kind.
            pair = _NeighbouringRuns.of(truth.protected, loss.unit, seed=self.seed, same_kind=True)
            if not pair.passes(mechanism):
                raise NotFeasible("the mechanism refuses the neighbouring data")
        outputs = self._outputs(mechanism, pair, progress)
        bound = audit(*outputs, confidence=self.confidence, seed=self.seed)
        equal, _ = direct(outputs[0][:, 0], outputs[1][:, 0], exact_d=pair.exact)
        return _Audited(
            counted=truth.counts.domain.counted,
            table=_row(loss, bound),
            bound=bound,
            estimate=equal,
            loss=loss,
            asked=self.runs,
        )

    def _outputs(
        self, mechanism: Chain, pair: _NeighbouringRuns, progress: Progress
    ) -> tuple[Floats, Floats]:
        """As many runs as the answers allow, of either database the same number."""
        counts = pair.counts
        size = counts.matrix.shape[0] * counts.schema.size
        design = mechanism.on(counts.domain)
        each = max(size, sum(one.entries * one.draws for one in design.plan))
        runs = min(self.runs, self.answers // (2 * each))
        if runs < FEWEST_RUNS:
            raise NotFeasible(
                f"{FEWEST_RUNS} runs of both databases draw {2 * FEWEST_RUNS * each:,} answers, "
                f"more than the {self.answers:,} that are allowed"
            )
        at_once = int(np.clip(_NUMBERS_AT_ONCE // size, 1, 100))
        pieces = range(0, runs, at_once)
        made: list[tuple[Floats, Floats]] = []
        for first in progress(pieces, what="Audit", total=len(pieces)):
            some = range(first, min(first + at_once, runs))
            made.append(
                (
                    self._run(design, pair.data, pair, some, b"audit: the data"),
                    self._run(design, pair.other, pair, some, b"audit: a neighbour"),
                )
            )
        return np.concatenate([d for d, _ in made]), np.concatenate([d for _, d in made])

    def _run(
        self,
        design: ChainDesign,
        data: Tabulated,
        pair: _NeighbouringRuns,
        runs: range,
        label: bytes,
    ) -> Floats:
        """Released leaf counts of the cells where the databases differ: runs x cells."""
        noise = KeyedNoise(RunKey.from_seed(self.seed), design.chain.name, label, b"audit")
        made = design.outcomes(data, noise, runs=runs)
        rows = (
            _dense(one[[pair.unit]])[0]
            for outcome in made
            for one in outcome.as_counts().tables[data.counts.level]
        )
        return np.array([row[list(pair.cells)] for row in rows], dtype=np.float64)


def _dense(table: Any) -> NDArray[Any]:
    return table if isinstance(table, np.ndarray) else np.asarray(table.toarray())


@dataclass(frozen=True, eq=False, repr=False)
class _NeighbouringRuns:
    """Two databases that differ in one person of the smallest unit where somebody lives.

    where
        unit    the leaf unit of that person
        cells   the cell that the person leaves and, where a record changes, the one it goes to
    """

    data: Tabulated
    other: Tabulated
    unit: int
    cells: tuple[int, ...]

    @property
    def counts(self) -> Counts:
        """The counts of the first."""
        return self.data.counts

    def passes(self, mechanism: Chain) -> bool:
        """Whether the mechanism takes both. Why not is not said: it may tell a true count."""
        try:
            for data in (self.data, self.other):
                mechanism.on(data.counts.domain).check(data)
        except HeadcountError:
            return False
        return True

    @classmethod
    def of(
        cls, counts: Counts, unit: UnitOfPrivacy, *, seed: int = 0, same_kind: bool = False
    ) -> _NeighbouringRuns:
        """The data, and the data with one person removed, or with one record changed.

        With ``same_kind`` a record that changes stays in its kind of living quarters.
        """
        from scipy.sparse import csr_array

        totals = counts.totals()
        people = np.where(totals > 0, totals, np.iinfo(np.int64).max)
        where = int(np.argmin(people))
        rng = np.random.default_rng([seed, 13])
        row = np.asarray(counts.matrix[[where]].toarray())[0]
        first = int(rng.choice(np.flatnonzero(row)))
        cells: tuple[int, ...] = (first,)
        step = np.zeros(len(row), dtype=np.int64)
        step[first] = -1
        if not unit.adds:
            others = np.flatnonzero(counts.schema.possible)
            if same_kind and len(alike := _same_kind(counts, first, others)) > 1:
                others = alike
            last = int(rng.choice(others[others != first]))
            step[last] = 1
            cells = (first, last)
        size = counts.matrix.shape
        at = (np.full(len(cells), where), np.array(cells))
        change = csr_array((step[list(cells)], at), shape=size)
        matrix: Any = (counts.matrix + change).tocsr()
        matrix.eliminate_zeros()
        other = Tabulated.of(replace(counts, matrix=matrix))
        return cls(Tabulated.of(counts), other, where, cells)

    @property
    def exact(self) -> float:
        """The true count of the cell that the person leaves, of the first database."""
        return float(self.counts.matrix[[self.unit]].toarray()[0][self.cells[0]])


def _same_kind(counts: Counts, cell: int, others: NDArray[np.intp]) -> NDArray[np.intp]:
    """Those of some cells that are in the same kind of living quarters as one; else all."""
    schema, quarters = counts.schema, counts.quarters
    if quarters is None or quarters.attribute not in schema.names:
        return others
    kind = np.unravel_index(np.arange(schema.size), schema.shape)[
        schema.names.index(quarters.attribute)
    ]
    alike: NDArray[np.intp] = others[kind[others] == kind[cell]]
    return alike


def _loss(release: Release) -> Loss | None:
    """The loss to hold the mechanism to: one number tells more than two."""
    units = (
        UnitOfPrivacy.ADD_REMOVE,
        UnitOfPrivacy.HOUSING_UNIT_CHANGE_ONE,  # records are housing units, not people
        UnitOfPrivacy.CHANGE_ONE,
    )
    losses = (release.guarantee.loss_for(unit) for unit in units)
    return next((loss for loss in losses if loss is not None), None)


def _row(loss: Loss, bound: AuditBound) -> pl.DataFrame:
    stated = float(loss.epsilon) if isinstance(loss, PureLoss) else None
    return pl.DataFrame(
        {
            "unit_of_privacy": [str(loss.unit)],
            "stated": [str(loss)],
            "stated_epsilon": pl.Series([stated], dtype=pl.Float64),
            "epsilon_lower": [bound.epsilon_lower],
            "confidence": [bound.confidence],
            "runs": [bound.runs_d],
            "guesses": [bound.guesses],
            "correct": [bound.correct],
            "refuted": [stated is not None and bound.refutes(stated)],
        }
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _Audited(Finding):
    """One row: the epsilon that is stated, and the one that the runs show at least."""

    name: str = Audit.name
    title: str = "Does the mechanism keep its epsilon?"
    index: tuple[str, ...] = ("unit_of_privacy", "stated", "runs")
    value: str = "epsilon_lower"
    value_words: str = "lower bound on epsilon from runs on neighbouring data"
    caption: str = "The audit's bound."
    table_name: str = Audit.name

    bound: AuditBound
    estimate: DirectEstimate
    loss: Loss
    asked: int

    @property
    def refuted(self) -> bool:
        """Whether the runs refute what is stated."""
        return bool(self.table["refuted"][0])

    def files(self) -> Mapping[str, pl.DataFrame]:
        """The bound, and the direct estimate by size of error."""
        return {self.name: self.table, "audit-direct": self._direct()}

    def _direct(self) -> pl.DataFrame:
        one = self.estimate
        return pl.DataFrame(
            {
                "error": one.k,
                "chance": one.chance_d,
                "chance_neighbour": one.chance_d_prime,
                "log_ratio": one.log_ratio,
                "standard_error": one.standard_error,
            }
        ).fill_nan(None)

    def explain(self) -> str:
        """What the bound says of the stated loss."""
        if self.refuted:
            verdict = f"**The runs refute what is stated: {self.loss}.**"
        elif isinstance(self.loss, PureLoss):
            verdict = f"The runs do not refute what is stated: {self.loss}. That does not prove it."
        else:
            verdict = (
                f"What is stated, {self.loss}, is not a pure epsilon: the bound cannot refute it."
            )
        fewer = (
            f" {self.asked:,} runs were asked for; of so many answers each "
            f"{self.bound.runs_d:,} were made."
            if self.bound.runs_d < self.asked
            else ""
        )
        return (
            f"{verdict} The mechanism was run again on the data and on data in which "
            f"{self.loss.unit.phrase}, with noise of its own. {self.bound.explain()}{fewer}"
        )

    def warnings(self) -> tuple[str, ...]:
        """If what is stated is refuted."""
        words = "the audit refutes the stated loss: do not publish this release"
        return (words,) if self.refuted else ()

    def numbers(self) -> tuple[KeyNumber, ...]:
        """The bound beside what is stated."""
        label = f"epsilon at least, by audit at {self.bound.confidence:.0%}; stated: {self.loss}"
        return (KeyNumber(value=f"{self.bound.epsilon_lower:.3g}", label=label),)

    def figure(self) -> Figure:
        """The direct estimate by size of error, beside the stated loss."""
        shown = self._direct().filter(pl.col("log_ratio").is_not_null())
        reach = 2 * pl.col("standard_error")
        shown = shown.with_columns(
            low=pl.col("log_ratio") - reach,
            high=pl.col("log_ratio") + reach,
            series=pl.lit("log ratio"),
        )
        stated = self.table["stated_epsilon"][0]
        lines = (
            ()
            if stated is None
            else tuple(Reference(label=f"stated, {s:+g}", y=s) for s in (stated, -stated))
        )
        return Figure(
            name="audit-direct",
            caption="Log of how much likelier each error is on the data than on the neighbour, "
            "with two standard errors: an estimate, not a bound.",
            alt="Log ratio of the chance of each error on the data and on a neighbour",
            chart=band_chart(
                shown,
                x=Axis(column="error", title=f"Released minus exact ({self.counted})"),
                y=Axis(column="log_ratio", title="Log of the ratio of probabilities"),
                low="low",
                high="high",
                series="series",
                references=lines,
            ),
        )

    def columns(self) -> tuple[Column, ...]:
        """Headed in words."""
        return (
            Column(key="stated", label="Stated"),
            Column(key="epsilon_lower", label="Epsilon at least", format=",.3g"),
            Column(key="confidence", label="Confidence", format=".0%"),
            Column(key="runs", label="Runs on each", format=",d"),
            Column(key="guesses", label="Guesses", format=",d"),
            Column(key="correct", label="Right", format=",d"),
        )

    def blocks(self) -> tuple[Block, ...]:
        """The bound, then the direct estimate."""
        figure, table = super().blocks()
        return (table, figure)
