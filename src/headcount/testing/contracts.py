"""What every mechanism must keep, whoever wrote it.

``check_mechanism(mechanism)`` runs every check; the first that fails raises ``ContractError``.
A test suite that wants one test per check writes

    @pytest.mark.parametrize("check", mechanism_checks(MyMechanism(epsilon="1/2")), ids=str)
    def test_contract(check):
        check()

Checks run on small embedded populations, or on ``examples`` of one's own: a method that swaps
households needs some. Give the checks a mechanism whose noise is not rare (epsilon of 1 or less,
say): they look for noise on every count in a few hundred runs.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from typing import Any

import numpy as np

from headcount import mechanisms
from headcount.arrays import Floats, Ints
from headcount.domain import Domain
from headcount.geography import regular
from headcount.mechanisms import (
    Chain,
    Context,
    CountsOutcome,
    Mechanism,
    Outcome,
    PreTabular,
    TablesOutcome,
    Tabulated,
    total_loss,
)
from headcount.noise import KeyedNoise, Law, Noise, RunKey, Stream
from headcount.noise.source import MEASUREMENT, DrawPositions
from headcount.population import Population
from headcount.population.population import RecordKeys
from headcount.privacy import UnitOfPrivacy
from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate import tabulate


class WatchedNoise:
    """Noise that remembers which draws it was asked for.

    where
        asked      every draw: the address of its stream, its law and its number
        measured   the numbers of those of measurements, by level, query and law
    """

    def __init__(self, source: Noise) -> None:
        self._source, self.asked = source, list[tuple[object, ...]]()
        self.measured = dict[tuple[str, str, Law], set[int]]()
        self.key_kind, self.backend = source.key_kind, source.backend

    def draw(self, stream: Stream, law: Law, *, draws: range) -> Ints:
        """Noise of the source, and a note of it."""
        self.asked.append((stream.address, law, draws))
        self._note(stream, law, draws)
        return self._source.draw(stream, law, draws=draws)

    def draw_at(self, stream: Stream, law: Law, *, draw: int, index: DrawPositions) -> Ints:
        """Noise of the source, and a note of it."""
        self.asked.append((stream.address, law, draw))
        self._note(stream, law, range(draw, draw + 1))
        return self._source.draw_at(stream, law, draw=draw, index=index)

    def _note(self, stream: Stream, law: Law, draws: range) -> None:
        if stream.purpose == MEASUREMENT:
            self.measured.setdefault((stream.level, stream.query, law), set()).update(draws)


RUNS = range(400)
"""Runs in which noise on a count must show itself."""

SLACK = 0.5
"""Counts by which means over so many runs may be off by chance."""


class ContractError(AssertionError):
    """A mechanism that breaks the contract: says which check, and what was seen."""


@dataclass(frozen=True)
class Check:
    """One check of one mechanism: call it."""

    mechanism: Mechanism
    body: Callable[[Mechanism, Sequence[Population]], None]
    examples: tuple[Population, ...]

    def __str__(self) -> str:
        return f"{self.mechanism.name}-{self.body.__name__}"

    def __call__(self) -> None:
        """Run the check; a failure is a ``ContractError`` that names mechanism and check."""
        try:
            self.body(self.mechanism, self.examples)
        except ContractError as error:
            raise ContractError(f"{self.mechanism!r}: {self.body.__name__}: {error}") from None


def check_mechanism(mechanism: Mechanism, examples: Sequence[Population] = ()) -> None:
    """Run every check on a mechanism; raise ``ContractError`` at the first that fails."""
    for check in mechanism_checks(mechanism, examples):
        check()


def mechanism_checks(mechanism: Mechanism, examples: Sequence[Population] = ()) -> Iterator[Check]:
    """Every check that applies to a mechanism, for a test suite to run one by one."""
    bodies = [
        tables_cover_the_public_domain,
        truth_is_left_alone,
        same_seed_same_values,
        each_run_has_noise_of_its_own,
        structural_zeros_stay_zero,
        support_does_not_depend_on_people,
        guarantee_names_its_unit,
        plan_stays_within_the_guarantee,
        noise_is_that_of_the_plan,
        repr_makes_it_again,
        parameters_are_frozen,
    ]
    if isinstance(mechanism, PreTabular):
        bodies += [
            records_stay_in_the_public_domain,
            steps_share_no_noise,
            stability_is_a_number_or_a_reason,
            expected_counts_move_within_the_stability,
            record_keys_go_with_their_people,
        ]
    people = tuple(examples) or tuple(_populations())
    yield from (Check(mechanism, body, people) for body in bodies)


def tables_cover_the_public_domain(mechanism: Mechanism, examples: Sequence[Population]) -> None:
    """Everything published is there, finite, and for all units and cells of the public domain."""
    for population in examples:
        for outcome in _outcomes(mechanism, population, range(3)):
            _covers(outcome, population)


@singledispatch
def _covers(outcome: Outcome, population: Population) -> None:
    raise ContractError(f"a run gave {type(outcome).__name__}, not counts and not tables")


@_covers.register
def _(outcome: CountsOutcome, population: Population) -> None:
    tree = population.geography
    levels = list(outcome.tables)
    _require(tree.leaf in levels, f"levels {levels}, without the leaf {tree.leaf!r}")
    for level in levels:
        values = outcome.dense(level)
        shape = (tree.size(level), population.schema.size)
        _require(
            values.shape[1:] == shape, f"level {level!r} of shape {values.shape[1:]}, not {shape}"
        )
        known = values.dtype in (np.int64, np.float64)
        _require(known, f"level {level!r} holds {values.dtype}, not int64 or float64")
        _require(bool(np.isfinite(values).all()), f"level {level!r} holds a value not finite")


@_covers.register
def _(outcome: TablesOutcome, population: Population) -> None:
    _require(bool(outcome.published), "no table is published")
    for one in outcome.published:
        units = population.geography.size(one.level)
        _require(len(one.value) == units, f"{one!r} has {len(one.value)} units, not {units}")
        _require(bool((one.value >= 0).all()), f"{one!r} holds a negative count")


def records_stay_in_the_public_domain(mechanism: Mechanism, examples: Sequence[Population]) -> None:
    """A step gives people of the same schema and geography, with the weight that it states."""
    for population in examples:
        changed = _changed(mechanism, population, run=0)
        same = changed.schema == population.schema and changed.geography is population.geography
        _require(same, "the step changed the schema or the geography")
        weight = Chain.of(mechanism).weight * population.weight
        _require(changed.weight == weight, f"people of weight {changed.weight}, {weight} stated")


def steps_share_no_noise(mechanism: Mechanism, examples: Sequence[Population]) -> None:
    """Two equal steps of a chain never ask for the same draw."""
    for population in examples:
        watched = WatchedNoise(_keyed(mechanism, seed=1))
        assert isinstance(mechanism, PreTabular)
        chain = Chain((mechanism, mechanism))
        design = chain.on(population.domain)
        design.changed(Tabulated.of(population), watched, run=0, context=Context())
        twice = [one for one in set(watched.asked) if watched.asked.count(one) > 1]
        _require(not twice, f"{len(twice)} draws were used twice")


def stability_is_a_number_or_a_reason(mechanism: Mechanism, examples: Sequence[Population]) -> None:
    """A step says how many steps one becomes, or why that is open."""
    assert isinstance(mechanism, PreTabular)
    for population in examples:
        design = mechanism.on(population.domain)
        for unit in UnitOfPrivacy:
            k = design.stability.get(unit)
            if k is None:
                _require(design.no_bound.strip() != "", "no bound, and no reason why")
            else:
                _require(type(k) is int and k >= 1, f"a stability of {k!r}")


def expected_counts_move_within_the_stability(
    mechanism: Mechanism, examples: Sequence[Population]
) -> None:
    """The mean over many runs moves no more than k steps between neighbours could move it.

    Under a coupling in which results are at most k steps apart, so are their means: by k counts
    where people come or go, by 2 k where a record changes.
    """
    assert isinstance(mechanism, PreTabular)
    for population in examples:
        for unit, other in _neighbours(population):
            if (k := mechanism.on(population.domain).stability.get(unit)) is None:
                continue
            means = [
                np.mean([_changed_counts(mechanism, one, run) for run in RUNS], axis=0)
                for one in (population, other)
            ]
            apart, most = float(np.abs(means[0] - means[1]).sum()), k if unit.adds else 2 * k
            _require(
                apart <= most + SLACK,
                f"one step ({unit.phrase}) moves the mean counts by {apart:.2f}, {most} stated",
            )


def record_keys_go_with_their_people(mechanism: Mechanism, examples: Sequence[Population]) -> None:
    """Where people have record keys, those whom a step leaves have theirs, and each has one."""
    for population in examples:
        many = 1 if population.count is None else population.count
        unit, cell = np.repeat(population.unit, many), np.repeat(population.cell, many)
        keys = RecordKeys(np.arange(len(unit), dtype=np.uint64))
        people = dataclasses.replace(population, unit=unit, cell=cell, count=None, record_keys=keys)
        after = _changed(mechanism, people, run=0).record_keys
        found = [] if after is None else after.values.tolist()
        _require(after is not None, "people lost their record keys")
        _require(len(set(found)) == len(found), "two people have the record key of one")
        _require(set(found) <= set(keys.values.tolist()), "somebody has a record key of nobody")


def same_seed_same_values(mechanism: Mechanism, examples: Sequence[Population]) -> None:
    """The same seed gives the same release, and another seed another one."""
    for population in examples:
        first = _run(mechanism, population, RUNS, seed=1)
        again = _run(mechanism, population, RUNS, seed=1)
        _require(_equal(first, again), "seed 1 gave two releases")
        if mechanism.draws_noise:
            other = _run(mechanism, population, RUNS, seed=2)
            _require(not _equal(first, other), "seeds 1 and 2 gave the same release")


def each_run_has_noise_of_its_own(mechanism: Mechanism, examples: Sequence[Population]) -> None:
    """Run r is the same whichever runs it is made with, and differs from the other runs."""
    for population in examples:
        together = _run(mechanism, population, RUNS)
        for number in (0, 3, 7):
            alone = _run(mechanism, population, range(number, number + 1))
            same = all(np.array_equal(together[name][number], alone[name][0]) for name in alone)
            _require(same, f"run {number} alone is not run {number} among others")
        distinct = max(len({run.tobytes() for run in values}) for values in together.values())
        wanted = distinct > 1 if mechanism.draws_noise else distinct == 1
        _require(wanted, f"{distinct} different releases in {len(RUNS)} runs")


def structural_zeros_stay_zero(mechanism: Mechanism, examples: Sequence[Population]) -> None:
    """A cell that everyone knows to be empty is published as 0."""
    for population in examples:
        possible = population.schema.possible
        for name, values in _run(mechanism, population, RUNS).items():
            if values.shape[-1] == len(possible):
                zero = not values[:, :, ~possible].any()
                _require(zero, f"level {name!r} has someone in a structural zero")


def support_does_not_depend_on_people(mechanism: Mechanism, examples: Sequence[Population]) -> None:
    """Where losses are promised, every possible unit x cell gets noise: nobody shows by it.

    A person is added to an empty cell, and to a unit where nobody lives.
    """
    for population in examples:
        stated = mechanism.on(population.domain).guarantee
        if not stated.losses or not mechanism.draws_noise:
            continue
        for where in (None, *_empty_places(population)):
            people = population if where is None else _add_person(population, where)
            for level, values in _run(mechanism, people, RUNS).items():
                steady = (values == values[0]).all(axis=0) & population.schema.possible
                _require(
                    not steady.any(),
                    f"no noise on {int(steady.sum())} counts of level {level!r} in "
                    f"{len(RUNS)} runs (or is it too rare with these parameters?)",
                )


def truth_is_left_alone(mechanism: Mechanism, examples: Sequence[Population]) -> None:
    """A run does not change the people and counts it is given."""
    for population in examples:
        data = Tabulated.of(population)
        before: list[Any] = [
            population.unit.copy(),
            population.cell.copy(),
            data.counts.dense(),
        ]
        for _ in _outcomes(mechanism, data, range(2)):
            pass
        after: list[Any] = [population.unit, population.cell, data.counts.dense()]
        same = all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
        _require(same, "the true counts were changed")


def guarantee_names_its_unit(mechanism: Mechanism, examples: Sequence[Population]) -> None:
    """There is a guarantee that names its unit of privacy, or the reason why there is none."""
    for population in examples:
        guarantee = mechanism.on(population.domain).guarantee
        said = " ".join(guarantee.sentences())
        if not guarantee.losses:
            _require(guarantee.why_none.strip() != "", "no guarantee, and no reason why")
            _require(guarantee.why_none in said, "the guarantee does not say why there is none")
        for loss in guarantee.losses:
            _require(
                loss.unit.phrase in said, f"the guarantee does not say that {loss.unit.phrase}"
            )
        if not mechanism.draws_noise:
            _require(not guarantee.losses, "a guarantee without any noise")


def plan_stays_within_the_guarantee(mechanism: Mechanism, examples: Sequence[Population]) -> None:
    """The planned measurements add up to no more than the losses that are promised."""
    for population in examples:
        design = Chain.of(mechanism).on(population.domain)
        for loss in design.guarantee.losses:
            spent = total_loss(design.plan, loss.unit)
            if spent is None or spent.currency is not loss.currency:
                raise ContractError(f"{spent or 'nothing'} planned, {loss.amount} promised")
            _require(spent.amount <= loss.amount, f"{spent.amount} planned, {loss.amount} promised")


def noise_is_that_of_the_plan(mechanism: Mechanism, examples: Sequence[Population]) -> None:
    """What is drawn has the laws that the plan states, and no more draws of any.

    The guarantee follows from the plan, so nothing else holds it against what is really done.
    """
    for population in examples:
        design = Chain.of(mechanism).on(population.domain)
        planned = {(one.level, one.query, one.law): one.draws for one in design.plan}
        if not planned:
            continue
        watched = WatchedNoise(_keyed(mechanism, seed=1))
        list(design.outcomes(Tabulated.of(population), watched, runs=range(1)))
        for (level, query, law), numbers in watched.measured.items():
            most = planned.get((level, query, law), 0)
            _require(
                len(numbers) <= most,
                f"{query!r} at {level!r} drawn {len(numbers)} times with {law}, {most} planned",
            )


def repr_makes_it_again(mechanism: Mechanism, examples: Sequence[Population]) -> None:
    """``eval(repr(mechanism))`` is the same mechanism, with the names of its own module."""
    names: Mapping[str, object] = {
        **vars(sys.modules[type(mechanism).__module__]),
        **{name: getattr(mechanisms, name) for name in mechanisms.__all__},
        "Fraction": Fraction,
        "UnitOfPrivacy": UnitOfPrivacy,
        type(mechanism).__name__: type(mechanism),
    }
    try:
        again = eval(repr(mechanism), {"__builtins__": {}}, dict(names))
    except Exception as error:
        raise ContractError(f"the repr is not an expression that makes it again: {error}") from None
    _require(again == mechanism, f"the repr makes {again!r}")


def parameters_are_frozen(mechanism: Mechanism, examples: Sequence[Population]) -> None:
    """Parameters cannot change after the guarantee has been stated."""
    if not dataclasses.is_dataclass(mechanism):
        raise ContractError("it is no dataclass; make it one with frozen=True")
    for field in dataclasses.fields(mechanism):
        before = getattr(mechanism, field.name)
        try:
            setattr(mechanism, field.name, before)
        except dataclasses.FrozenInstanceError:
            continue
        raise ContractError(f"parameter {field.name!r} can be changed")
    hash(mechanism)


def _populations() -> Iterator[Population]:
    """Two small populations: totals only, and two attributes with a structural zero.

    In both the last leaf is empty; in the second so are most cells.
    """
    tree = regular(children=2, depth=2)
    yield Population(
        "contract totals",
        Domain(Schema(), tree),
        unit=np.array([0, 1, 2], dtype=np.int32),
        cell=np.zeros(3, dtype=np.int32),
        count=np.array([7, 2, 1], dtype=np.int64),
    )
    age = Attribute("age", ("child", "adult"))
    work = Attribute("work", ("none", "office", "field"))
    schema = Schema((age, work), (impossible({"age": ["child"], "work": ["office", "field"]}),))
    cells = [schema.cell(age="child", work="none"), schema.cell(age="adult", work="office")]
    yield Population(
        "contract cells",
        Domain(schema, tree),
        unit=np.array([0, 0, 2], dtype=np.int32),
        cell=np.array([*cells, cells[0]], dtype=np.int32),
        count=np.array([5, 3, 1], dtype=np.int64),
    )


def _empty_places(population: Population) -> list[tuple[int, int]]:
    """An empty cell where others live in the unit (if there is one), and one of an empty unit."""
    counts = tabulate(population)
    empty = (counts.dense() == 0) & population.schema.possible
    lived_in = counts.totals() > 0
    found = [np.argwhere(empty & lived_in[:, None]), np.argwhere(empty & ~lived_in[:, None])]
    return [(int(places[0][0]), int(places[0][1])) for places in found if len(places)]


def _add_person(population: Population, where: tuple[int, int], *, people: int = 1) -> Population:
    """The people with one more, or one fewer, in a place: as a count table."""
    table = tabulate(population).dense()
    table[where] += people
    unit, cell = np.nonzero(table)
    return dataclasses.replace(
        population,
        unit=unit.astype(np.int32),
        cell=cell.astype(np.int32),
        count=table[unit, cell],
        households=None,
    )


def _neighbours(population: Population) -> Iterator[tuple[UnitOfPrivacy, Population]]:
    """The same with the first person changed to each other place, or gone."""
    if population.households is not None:
        return  # a person who comes or goes changes the dwelling too
    unit, cell = (int(where[0]) for where in np.nonzero(tabulate(population).dense()))
    fewer = _add_person(population, (unit, cell), people=-1)
    yield UnitOfPrivacy.ADD_REMOVE, fewer
    for place in _empty_places(population):
        yield UnitOfPrivacy.CHANGE_ONE, _add_person(fewer, place)


def _keyed(mechanism: Mechanism, *, seed: int) -> KeyedNoise:
    return KeyedNoise(RunKey.from_seed(seed), mechanism.name, b"contract", b"contract")


def _outcomes(
    mechanism: Mechanism, data: Population | Tabulated, runs: range, *, seed: int = 1
) -> Iterator[Outcome]:
    """What is made of people in some runs: all at once where no step changes the records."""
    noise, counted = _keyed(mechanism, seed=seed), Tabulated.of(data)
    return Chain.of(mechanism).on(counted.counts.domain).outcomes(counted, noise, runs=runs)


def _changed(mechanism: Mechanism, population: Population, run: int) -> Population:
    assert isinstance(mechanism, PreTabular)
    noise = _keyed(mechanism, seed=1)
    return mechanism.apply(population, noise, run=run, context=Context())


def _changed_counts(mechanism: Mechanism, population: Population, run: int) -> Ints:
    return tabulate(_changed(mechanism, population, run)).dense()


def _run(
    mechanism: Mechanism, population: Population, runs: range, *, seed: int = 1
) -> dict[str, Ints | Floats]:
    """Everything published in some runs, by name: runs x units x cells; -1 where withheld."""
    found: dict[str, list[Any]] = {}
    for outcome in _outcomes(mechanism, population, runs, seed=seed):
        for name, values in _values(outcome, len(runs)).items():
            found.setdefault(name, []).append(values)
    return {name: np.concatenate(parts) for name, parts in found.items()}


@singledispatch
def _values(outcome: Outcome, runs: int) -> dict[str, Ints | Floats]:
    raise ContractError(f"a run gave {type(outcome).__name__}, not counts and not tables")


@_values.register
def _(outcome: CountsOutcome, runs: int) -> dict[str, Ints | Floats]:
    return {level: outcome.dense(level) for level in outcome.tables}


@_values.register
def _(outcome: TablesOutcome, runs: int) -> dict[str, Ints | Floats]:
    found: dict[str, Ints | Floats] = {}
    for number, one in enumerate(outcome.published):
        of_runs = [outcome.of_run(run)[number] for run in range(runs)]
        shown: Ints = np.stack([table.value - table.withheld for table in of_runs])
        found[f"{one.name} at {one.level}"] = shown
    return found


def _equal(
    one: Mapping[str, Ints | Floats],
    other: Mapping[str, Ints | Floats],
) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(one[level], other[level]) for level in one
    )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ContractError(message)
