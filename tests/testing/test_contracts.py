"""The contract: our own mechanisms keep it, and each check catches a mechanism that breaks it."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from headcount.domain import Domain
from headcount.mechanisms import (
    Chain,
    Context,
    CountsOutcome,
    Design,
    Geometric,
    Identity,
    Mechanism,
    PostTabular,
    PreTabular,
    Sampling,
    StepDesign,
)
from headcount.mechanisms._chain import _StepNoise
from headcount.noise import Noise
from headcount.population import Population
from headcount.privacy import Guarantee, PureLoss, UnitOfPrivacy
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts
from headcount.testing import ContractError, check_mechanism, mechanism_checks
from headcount_papers.averaged import Averaged
from headcount_papers.raked import Raked

KEPT: list[Mechanism] = [
    Identity(),
    Geometric(epsilon=Fraction(1, 2)),
    Raked(epsilon=Fraction(1)),
    Averaged(epsilon=Fraction(1)),
    Averaged(epsilon=Fraction(1, 10), parts=1),
    Sampling(fraction=Fraction(1, 2)),
    Sampling(fraction=Fraction(1, 2), exact=True),
    Chain((Sampling(fraction=Fraction(1, 2), exact=True),), Geometric(epsilon=Fraction(1, 2))),
    Chain((Sampling(fraction=Fraction(1, 2)),) * 2),
]


@pytest.mark.parametrize("check", [c for m in KEPT for c in mechanism_checks(m)], ids=str)
def test_our_mechanisms_keep_the_contract(check):
    check()


@dataclass(frozen=True, kw_only=True, repr=False)
class Base(Geometric):
    """The geometric mechanism, to be broken in one place."""

    epsilon: Fraction = Fraction(1)
    unit: UnitOfPrivacy = UnitOfPrivacy.ADD_REMOVE

    def table(self, design: Design, counts: Counts, noise: Noise, runs: range) -> Any:
        made = Geometric.run(self, design, counts, noise, runs=runs, context=Context())
        return made.tables[counts.level]


class OnlyWhereSomeoneIs(Base):
    """Noise on non-zero counts only: a new person shows as a new entry."""

    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        answers = self.table(design, counts, noise, runs)
        return CountsOutcome({counts.level: np.where(counts.dense() > 0, answers, 0)})


class OnlyUnitsWithPeople(Base):
    """Noise on every cell, but only of units where someone lives."""

    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        answers = self.table(design, counts, noise, runs)
        return CountsOutcome({counts.level: answers * (counts.totals() > 0)[:, None]})


class NoiseOnStructuralZeros(Base):
    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        answers = self.table(design, counts, noise, runs)
        return CountsOutcome({counts.level: answers + ~counts.schema.possible})


class SameNoiseEachRun(Base):
    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        answers = self.table(design, counts, noise, range(1))
        return CountsOutcome({counts.level: np.repeat(answers, len(runs), axis=0)})


class RunsCountedFromZero(Base):
    """Run 3 alone gets the noise of run 0."""

    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        return CountsOutcome({counts.level: self.table(design, counts, noise, range(len(runs)))})


class OwnRandomness(Base):
    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        answers = self.table(design, counts, noise, runs)
        return CountsOutcome({counts.level: answers + np.random.default_rng().integers(0, 10**9)})


class IgnoresTheSeed(Base):
    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        drawn = [np.random.default_rng(run).integers(-9, 9, counts.dense().shape) for run in runs]
        return CountsOutcome({counts.level: (np.array(drawn) * counts.schema.possible)})


class LessNoise(Base):
    """Half of the noise that it plans."""

    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        other = Geometric(epsilon=2 * self.epsilon, unit=self.unit)
        return other.on(counts.domain).run(counts, noise, runs=runs).as_counts()


class MeasuresTwice(Base):
    """The mean of two answers, where one is planned."""

    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        both = [self.table(design, counts, noise, range(2 * run, 2 * run + 2)) for run in runs]
        return CountsOutcome({counts.level: np.array([some.mean(axis=0) for some in both])})


class ShortTable(Base):
    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        return CountsOutcome({counts.level: self.table(design, counts, noise, runs)[:, 1:]})


class NarrowNumbers(Base):
    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        narrow: Any = self.table(design, counts, noise, runs).astype(np.float32)
        return CountsOutcome({counts.level: narrow})


class NotFinite(Base):
    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        return CountsOutcome({counts.level: self.table(design, counts, noise, runs) / np.zeros(1)})


class NoLeaf(Base):
    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        return super().run(design, counts.at("whole"), noise, runs=runs, context=context)


class ChangesTheTruth(Base):
    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        counts.matrix.data += 1
        return super().run(design, counts, noise, runs=runs, context=context)


class BlankReason(Base):
    def on(self, domain: Domain) -> Design:
        return replace(super().on(domain), guarantee=Guarantee.none(" "))


class PromisesTooMuch(Base):
    """States half of what the plan spends."""

    def on(self, domain: Domain) -> Design:
        half = PureLoss(epsilon=self.epsilon / 2, unit=UnitOfPrivacy.ADD_REMOVE)
        return replace(super().on(domain), guarantee=Guarantee(losses=(half,)))


class PlansNothing(Base):
    def on(self, domain: Domain) -> Design:
        return replace(super().on(domain), plan=())

    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        return Base().on(counts.domain).run(counts, noise, runs=runs).as_counts()


class GuaranteeWithoutNoise(Identity):
    def on(self, domain: Domain) -> Design:
        promised = Geometric(epsilon=Fraction(1)).on(domain).guarantee
        return replace(super().on(domain), guarantee=promised)


@dataclass(frozen=True, kw_only=True)
class HiddenParameter(Base):
    secret: int = field(default=1, repr=False)


class UnreadableRepr(Base):
    def __repr__(self) -> str:
        return "<mechanism>"


@dataclass(kw_only=True)
class Changeable(PostTabular):
    epsilon: Fraction
    name = "changeable"

    def on(self, domain: Domain) -> Design:
        return replace(Geometric(epsilon=self.epsilon).on(domain), method=self)

    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        other = Geometric(epsilon=self.epsilon)
        return other.on(counts.domain).run(counts, noise, runs=runs).as_counts()


@dataclass(frozen=True, kw_only=True)
class Step(PreTabular):
    """The exact sample, to be broken in one place."""

    name = "step"

    @property
    def weight(self) -> Fraction:
        return Fraction(2)

    def on(self, domain: Domain) -> StepDesign:
        return StepDesign(
            domain=domain,
            guarantee=Guarantee.none("records are published as they are"),
            stability=SAMPLE.on(domain).stability,
        )

    def apply(
        self, population: Population, noise: Noise, *, run: int, context: Context
    ) -> Population:
        return SAMPLE.apply(population, noise, run=run, context=context)


SAMPLE = Sampling(fraction=Fraction(1, 2), exact=True)


class CopiesAPerson(Step):
    """One person ten times in place of once, and still a stability of 1."""

    def apply(
        self, population: Population, noise: Noise, *, run: int, context: Context
    ) -> Population:
        sample = super().apply(population, noise, run=run, context=context)
        assert sample.count is not None
        return replace(sample, count=sample.count * np.where(sample.count == 1, 10, 1))


class SharesNoise(Step):
    """Draws from the source behind the step's own noise: two steps draw the same sample."""

    def apply(
        self, population: Population, noise: Noise, *, run: int, context: Context
    ) -> Population:
        source = getattr(noise, "_source", noise) if isinstance(noise, _StepNoise) else noise
        return super().apply(population, source, run=run, context=context)


class AnotherPlace(Step):
    """Gives people of a schema of its own."""

    def apply(
        self, population: Population, noise: Noise, *, run: int, context: Context
    ) -> Population:
        nobody = np.empty(0, dtype=np.int32)
        other = replace(population.domain, schema=Schema((Attribute("other", ("a",)),)))
        return replace(population, domain=other, unit=nobody, cell=nobody, count=None)


class Unweighted(Step):
    """Forgets that a sampled person stands for two."""

    def apply(
        self, population: Population, noise: Noise, *, run: int, context: Context
    ) -> Population:
        return replace(
            super().apply(population, noise, run=run, context=context), weight=Fraction(1)
        )


class LosesKeys(Step):
    """Gives sampled people without the keys that they had."""

    def apply(
        self, population: Population, noise: Noise, *, run: int, context: Context
    ) -> Population:
        sample = super().apply(population, noise, run=run, context=context)
        return replace(sample, record_keys=None)


class SharesKeys(Step):
    """Gives everybody the key of the first."""

    def apply(
        self, population: Population, noise: Noise, *, run: int, context: Context
    ) -> Population:
        sample = super().apply(population, noise, run=run, context=context)
        keys = sample.record_keys
        same = None if keys is None else keys.of(np.zeros(len(keys.values), dtype=np.int64))
        return replace(sample, record_keys=same)


class NoReason(Step):
    def on(self, domain: Domain) -> StepDesign:
        return replace(super().on(domain), stability={}, no_bound="")


class StableAtZero(Step):
    def on(self, domain: Domain) -> StepDesign:
        return replace(super().on(domain), stability=dict.fromkeys(UnitOfPrivacy, 0))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (CopiesAPerson(), r"expected_counts_move_within_the_stability: one step \(one person"),
        (SharesNoise(), "steps_share_no_noise: 1 draws were used twice"),
        (AnotherPlace(), r"tables_cover_the_public_domain: level 'level_2' of shape|the step chan"),
        (Unweighted(), "records_stay_in_the_public_domain: people of weight 1, 2 stated"),
        (LosesKeys(), "record_keys_go_with_their_people: people lost their record keys"),
        (SharesKeys(), "record_keys_go_with_their_people: two people have the record key of one"),
        (NoReason(), "stability_is_a_number_or_a_reason: no bound, and no reason why"),
        (StableAtZero(), "stability_is_a_number_or_a_reason: a stability of 0"),
        (OnlyWhereSomeoneIs(), r"support_does_not_depend_on_people: no noise on \d+ counts of"),
        (OnlyUnitsWithPeople(), r"support_does_not_depend_on_people: no noise on \d+ counts of"),
        (NoiseOnStructuralZeros(), "structural_zeros_stay_zero: level 'level_2' has someone in"),
        (SameNoiseEachRun(), "each_run_has_noise_of_its_own: 1 different releases in 400 runs"),
        (RunsCountedFromZero(), "run 3 alone is not run 3 among others"),
        (OwnRandomness(), "same_seed_same_values: seed 1 gave two releases"),
        (IgnoresTheSeed(), "same_seed_same_values: seeds 1 and 2 gave the same release"),
        (ShortTable(), r"level 'level_2' of shape \(3, 1\), not \(4, 1\)"),
        (NarrowNumbers(), "level 'level_2' holds float32, not int64 or float64"),
        (NoLeaf(), r"levels \['whole'\], without the leaf 'level_2'"),
        (ChangesTheTruth(), "truth_is_left_alone: the true counts were changed"),
        (BlankReason(), "guarantee_names_its_unit: no guarantee, and no reason why"),
        (PromisesTooMuch(), "plan_stays_within_the_guarantee: 1 planned, 1/2 promised"),
        (LessNoise(), r"'cells' at 'level_2' drawn 1 times with two-sided geometric.*2, 0 planned"),
        (MeasuresTwice(), r"noise_is_that_of_the_plan: 'cells' at 'level_2' drawn 2 times .* 1 pl"),
        (PlansNothing(), "plan_stays_within_the_guarantee: nothing planned, 1 promised"),
        (GuaranteeWithoutNoise(), "guarantee_names_its_unit: a guarantee without any noise"),
        (HiddenParameter(secret=2), r"repr_makes_it_again: the repr makes HiddenParameter\("),
        (UnreadableRepr(), "repr_makes_it_again: the repr is not an expression"),
        (Changeable(epsilon=Fraction(1)), "parameters_are_frozen: parameter 'epsilon' can be chan"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_each_check_catches_what_it_is_for(broken, message):
    with pytest.raises(ContractError, match=message):
        check_mechanism(broken)


@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value):RuntimeWarning")
def test_values_must_be_finite():
    with pytest.raises(ContractError, match="level 'level_2' holds a value not finite"):
        check_mechanism(NotFinite())


def test_a_failure_names_the_mechanism_and_the_check():
    with pytest.raises(
        ContractError, match=r"^SameNoiseEachRun\(epsilon=Fraction\(1, 1\), unit=\S+\): each_"
    ):
        check_mechanism(SameNoiseEachRun())


def test_noise_that_is_too_rare_to_see_is_not_waved_through():
    with pytest.raises(ContractError, match="or is it too rare with these parameters"):
        check_mechanism(replace(Geometric(epsilon=Fraction(1)), epsilon=Fraction(14)))
