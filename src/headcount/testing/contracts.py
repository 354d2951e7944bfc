"""What every mechanism must keep, whoever wrote it.

``check_mechanism(mechanism)`` runs every check on small embedded populations and raises
``ContractError`` at the first that fails. A test suite that wants one test per check writes

    @pytest.mark.parametrize("check", mechanism_checks(MyMechanism(epsilon="1/2")), ids=str)
    def test_contract(check):
        check()

Give the checks a mechanism whose noise is not rare (epsilon of 1 or less, say): they look for
noise on every count in a few hundred runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from headcount import mechanisms
from headcount.arrays import Floats, Ints
from headcount.geography import regular
from headcount.mechanisms import Mechanism
from headcount.mechanisms._measured import total_loss
from headcount.mechanisms._outcome import Runs
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population
from headcount.privacy import UnitOfPrivacy
from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate import Counts, tabulate

RUNS = range(400)
"""Runs in which noise on a count must show itself."""


class ContractError(AssertionError):
    """A mechanism that breaks the contract: says which check, and what was seen."""


@dataclass(frozen=True)
class Check:
    """One check of one mechanism: call it."""

    mechanism: Mechanism
    body: Callable[[Mechanism], None]

    def __str__(self) -> str:
        return f"{self.mechanism.name}-{self.body.__name__}"

    def __call__(self) -> None:
        """Run the check; a failure is a ``ContractError`` that names mechanism and check."""
        try:
            self.body(self.mechanism)
        except ContractError as error:
            raise ContractError(f"{self.mechanism!r}: {self.body.__name__}: {error}") from None


def check_mechanism(mechanism: Mechanism) -> None:
    """Run every check on a mechanism; raise ``ContractError`` at the first that fails."""
    for check in mechanism_checks(mechanism):
        check()


def mechanism_checks(mechanism: Mechanism) -> Iterator[Check]:
    """Every check that applies to a mechanism, for a test suite to run one by one."""
    yield Check(mechanism, tables_cover_the_public_domain)
    yield Check(mechanism, truth_is_left_alone)
    yield Check(mechanism, same_seed_same_values)
    yield Check(mechanism, each_run_has_noise_of_its_own)
    yield Check(mechanism, structural_zeros_stay_zero)
    yield Check(mechanism, support_does_not_depend_on_people)
    yield Check(mechanism, guarantee_names_its_unit)
    yield Check(mechanism, plan_stays_within_the_guarantee)
    yield Check(mechanism, repr_makes_it_again)
    yield Check(mechanism, parameters_are_frozen)


def tables_cover_the_public_domain(mechanism: Mechanism) -> None:
    """Each published level has runs x units x cells finite numbers; the leaf is published."""
    for counts in _examples():
        tables = _run(mechanism, counts, range(3))
        tree = counts.geography
        _require(tree.leaf in tables, f"levels {list(tables)}, without the leaf {tree.leaf!r}")
        for level, values in tables.items():
            shape = (3, tree.size(level), counts.schema.size)
            _require(values.shape == shape, f"level {level!r} of shape {values.shape}, not {shape}")
            known = values.dtype in (np.int64, np.float64)
            _require(known, f"level {level!r} holds {values.dtype}, not int64 or float64")
            _require(bool(np.isfinite(values).all()), f"level {level!r} holds a value not finite")


def same_seed_same_values(mechanism: Mechanism) -> None:
    """The same seed gives the same release, and another seed another one."""
    for counts in _examples():
        first = _run(mechanism, counts, RUNS, seed=1)
        _require(_equal(first, _run(mechanism, counts, RUNS, seed=1)), "seed 1 gave two releases")
        if mechanism.draws_noise:
            other = _run(mechanism, counts, RUNS, seed=2)
            _require(not _equal(first, other), "seeds 1 and 2 gave the same release")


def each_run_has_noise_of_its_own(mechanism: Mechanism) -> None:
    """Run r is the same whichever runs it is made with, and differs from the other runs."""
    for counts in _examples():
        together = _run(mechanism, counts, RUNS)
        for number in (0, 3, 7):
            alone = _run(mechanism, counts, range(number, number + 1))
            same = all(np.array_equal(together[level][number], alone[level][0]) for level in alone)
            _require(same, f"run {number} alone is not run {number} among others")
        leaf = together[counts.geography.leaf]
        distinct = len({run.tobytes() for run in leaf})
        wanted = distinct > 1 if mechanism.draws_noise else distinct == 1
        _require(wanted, f"{distinct} different releases in {len(RUNS)} runs")


def structural_zeros_stay_zero(mechanism: Mechanism) -> None:
    """A cell that everyone knows to be empty is published as 0."""
    for counts in _examples():
        for level, values in _run(mechanism, counts, RUNS).items():
            zero = not values[:, :, ~counts.schema.possible].any()
            _require(zero, f"level {level!r} has someone in a structural zero")


def support_does_not_depend_on_people(mechanism: Mechanism) -> None:
    """Whatever is empty in truth, every possible unit x cell gets noise: nobody shows by it.

    A person is added to an empty cell, and to a unit where nobody lives.
    """
    if not mechanism.draws_noise:
        return
    for population in _populations():
        for where in (None, *_empty_places(population)):
            counts = tabulate(population if where is None else _add_person(population, where))
            for level, values in _run(mechanism, counts, RUNS).items():
                steady = (values == values[0]).all(axis=0) & counts.schema.possible
                _require(
                    not steady.any(),
                    f"no noise on {int(steady.sum())} counts of level {level!r} in "
                    f"{len(RUNS)} runs (or is it too rare with these parameters?)",
                )


def truth_is_left_alone(mechanism: Mechanism) -> None:
    """A run does not change the counts it is given."""
    for counts in _examples():
        before = counts.dense()
        _run(mechanism, counts, range(2))
        _require(np.array_equal(before, counts.dense()), "the true counts were changed")


def guarantee_names_its_unit(mechanism: Mechanism) -> None:
    """There is a guarantee that names its unit of privacy, or the reason why there is none."""
    for counts in _examples():
        guarantee = mechanism.guarantee(counts.schema, counts.geography)
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


def plan_stays_within_the_guarantee(mechanism: Mechanism) -> None:
    """The planned measurements add up to no more than the losses that are promised."""
    for counts in _examples():
        plan = mechanism.plan(counts.schema, counts.geography)
        for loss in mechanism.guarantee(counts.schema, counts.geography).losses:
            spent = total_loss(plan, loss.unit)
            if spent is None or spent.currency is not loss.currency:
                raise ContractError(f"{spent or 'nothing'} planned, {loss.amount} promised")
            _require(spent.amount <= loss.amount, f"{spent.amount} planned, {loss.amount} promised")


def repr_makes_it_again(mechanism: Mechanism) -> None:
    """``eval(repr(mechanism))`` is the same mechanism."""
    names: Mapping[str, object] = {
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


def parameters_are_frozen(mechanism: Mechanism) -> None:
    """Parameters cannot change after the guarantee has been stated."""
    if not dataclasses.is_dataclass(mechanism):
        raise ContractError("found no dataclass, expected one with frozen=True")
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
        Schema(),
        tree,
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
        schema,
        tree,
        unit=np.array([0, 0, 2], dtype=np.int32),
        cell=np.array([*cells, cells[0]], dtype=np.int32),
        count=np.array([5, 3, 1], dtype=np.int64),
    )


def _examples() -> Iterator[Counts]:
    return (tabulate(population) for population in _populations())


def _empty_places(population: Population) -> list[tuple[int, int]]:
    """An empty cell where others live in the unit (if there is one), and one of an empty unit."""
    counts = tabulate(population)
    empty = (counts.dense() == 0) & population.schema.possible
    lived_in = counts.totals() > 0
    found = [np.argwhere(empty & lived_in[:, None]), np.argwhere(empty & ~lived_in[:, None])]
    return [(int(places[0][0]), int(places[0][1])) for places in found if len(places)]


def _add_person(population: Population, where: tuple[int, int]) -> Population:
    unit, cell = where
    count = population.count
    people = np.ones(len(population.unit), dtype=np.int64) if count is None else count
    return dataclasses.replace(
        population,
        unit=np.append(population.unit, np.int32(unit)),
        cell=np.append(population.cell, np.int32(cell)),
        count=np.append(people, np.int64(1)),
    )


def _run(
    mechanism: Mechanism, counts: Counts, runs: range, *, seed: int = 1
) -> dict[str, Ints | Floats]:
    noise = KeyedNoise(RunKey.from_seed(seed), mechanism.name, b"contract", b"contract")
    made = mechanism.run(counts, noise, runs=runs).as_counts()
    return {level: made.dense(level) for level in made.tables}


def _equal(one: Mapping[str, Runs], other: Mapping[str, Runs]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(one[level], other[level]) for level in one
    )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ContractError(message)
