"""What every metric and every attack must keep, whoever wrote it.

``check_metric(metric)`` and ``check_attack(attack)`` run every check on small embedded releases and
raise ``ContractError`` at the first that fails. ``metric_checks`` and ``attack_checks`` give them
one by one, for a test suite. A metric or an attack that supports none of the embedded releases is
given a ``ContractExample`` of its own.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from headcount.attacks import Attack, ClaimedCounts, ClaimedPeople, ClaimedRecords, Claims
from headcount.attacks.differencing import Slivers
from headcount.domain import Domain
from headcount.errors import HeadcountError
from headcount.evaluation import Metric, NotFeasible, Truth
from headcount.evaluation.attacked import score_claims
from headcount.evaluation.counts_found import sliver_counts
from headcount.evaluation.part import Part, TruePeople
from headcount.geography import regular
from headcount.mechanisms import Geometric, Identity, protect
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.mechanisms.suppression.mechanism import Suppression
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population
from headcount.release import Release
from headcount.release.published import by_name
from headcount.report.finding import Finding, Support
from headcount.report.model import Figure
from headcount.report.specs import chart_spec
from headcount.schema import Attribute, Schema, impossible, load_schema
from headcount.tabulate.linked_tables import table_values
from headcount.testing.contracts import ContractError

PEOPLE, LEAVES = 400, 8
_CONFIDENTIAL = ("headcount.population", "headcount.mechanisms", "headcount.evaluation")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_PLAIN = (str, int, float, bool, Fraction, Path, type(None))


@dataclass(frozen=True, eq=False)
class ContractExample:
    """A release with its truth, and another release and another truth of the same domain."""

    release: Release
    truth: Truth
    other_release: Release
    other_truth: Truth


_Given: TypeAlias = ContractExample | None


@dataclass(frozen=True)
class ContractCheck:
    """One check of one metric or attack: call it."""

    name: str
    body: Callable[[], None]

    def __str__(self) -> str:
        return self.name

    def __call__(self) -> None:
        """Run the check; a failure is a ``ContractError`` that names it."""
        try:
            self.body()
        except ContractError as error:
            raise ContractError(f"{self.name}: {error}") from None


def check_metric(metric: Metric, *, example: ContractExample | None = None) -> None:
    """Run every check on a metric; raise ``ContractError`` at the first that fails."""
    for check in metric_checks(metric, example=example):
        check()


def check_attack(attack: Attack, *, example: ContractExample | None = None) -> None:
    """Run every check on an attack; raise ``ContractError`` at the first that fails."""
    for check in attack_checks(attack, example=example):
        check()


def metric_checks(
    metric: Metric, *, example: ContractExample | None = None
) -> Iterator[ContractCheck]:
    """Every check of a metric."""
    for body in (
        parameters_are_plain_and_frozen,
        metric_says_what_it_supports,
        metric_shows_and_explains_itself,
        metric_follows_from_its_input,
        metric_leaves_its_input_alone,
    ):
        yield ContractCheck(f"{metric.name}-{body.__name__}", _bound(body, metric, example))


def attack_checks(
    attack: Attack, *, example: ContractExample | None = None
) -> Iterator[ContractCheck]:
    """Every check of an attack."""
    for body in (
        parameters_are_plain_and_frozen,
        attack_imports_nothing_confidential,
        attack_says_what_it_supports,
        attack_learns_what_it_does_not_know,
        attack_knows_no_more_than_the_release,
        attack_shows_and_explains_itself,
    ):
        yield ContractCheck(f"{attack.name}-{body.__name__}", _bound(body, attack, example))


def _bound(
    body: Callable[..., None], part: Any, example: ContractExample | None
) -> Callable[[], None]:
    return (lambda: body(part)) if example is None else (lambda: body(part, example))


def parameters_are_plain_and_frozen(part: Any, example: ContractExample | None = None) -> None:
    """A frozen dataclass of numbers, words and paths: nothing in it can hold the truth."""
    _require(dataclasses.is_dataclass(part), "it is no dataclass; make it one with frozen=True")
    _require(
        part.__dataclass_params__.frozen,
        "its dataclass can be changed; make it one with frozen=True",
    )
    _require(bool(_NAME.fullmatch(part.name)), f"name {part.name!r} is not words with hyphens")
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        for one in value if isinstance(value, tuple) else (value,):
            kind = type(one).__name__
            _require(isinstance(one, _PLAIN), f"parameter {field.name!r} holds a {kind}")
    hash(part)


def metric_says_what_it_supports(metric: Metric, example: ContractExample | None = None) -> None:
    """Support is yes, or no with a reason; and one of the examples is supported."""
    for one in (example,) if example is not None else examples():
        support = metric.supports(one.release, one.truth)
        _require(isinstance(support, Support), f"supports gives {support!r}, not a Support")
        _require(len(support.why_not) != 1, "the reason is no sentence")
    _example(metric, example)


def metric_shows_and_explains_itself(
    metric: Metric, example: ContractExample | None = None
) -> None:
    """The finding has the metric's name, a table, a figure that can be drawn, and words."""
    one = _example(metric, example)
    finding = metric.compute(one.release, one.truth)
    _require(finding.name == metric.name, f"the finding is named {finding.name!r}")
    _shows(finding)


def metric_follows_from_its_input(metric: Metric, example: ContractExample | None = None) -> None:
    """The same input gives the same table; another of what it depends on gives another one.

    In one example at least: a count of numbers below 0 is 0 wherever no noise was drawn.
    """
    one = _example(metric, example)
    table = metric.compute(one.release, one.truth).table
    again = metric.compute(one.release, one.truth)
    _require(table.equals(again.table), "the same release and truth gave two tables")
    for what in sorted(metric.depends_on & {"truth", "release"}):
        differs = any(_differs(metric, one, what) for one in _supported(metric, example))
        _require(differs, f"the table does not depend on the {what}")


def _differs(metric: Metric, one: ContractExample, what: str) -> bool:
    """Whether another truth or release gives another table, or is refused as it does not fit."""
    first = metric.compute(one.release, one.truth)
    release = one.other_release if what == "release" else one.release
    truth = one.other_truth if what == "truth" else one.truth
    try:
        other = metric.compute(release, truth)
    except HeadcountError:
        return True
    _require(repr(other) == repr(first), "the repr of the finding depends on its numbers")
    return not first.table.equals(other.table)


def metric_leaves_its_input_alone(metric: Metric, example: ContractExample | None = None) -> None:
    """The truth is what it was."""
    one = _example(metric, example)
    before = one.truth.counts.dense()
    metric.compute(one.release, one.truth)
    _require(np.array_equal(before, one.truth.counts.dense()), "the truth was changed")


def attack_imports_nothing_confidential(attack: Attack, given: _Given = None) -> None:
    """Neither the population, nor mechanisms, nor what holds the truth."""
    source = Path(inspect.getfile(type(attack))).read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            far = any(name == room or name.startswith(f"{room}.") for room in _CONFIDENTIAL)
            _require(not far, f"the module imports {name}, and an attacker has no such thing")


def attack_says_what_it_supports(attack: Attack, given: _Given = None) -> None:
    """Support is yes, or no with a reason; and one of the examples is supported."""
    for one in examples():
        support = attack.supports(one.release)
        _require(isinstance(support, Support), f"supports gives {support!r}, not a Support")
    _attacked(attack, given)


def attack_learns_what_it_does_not_know(attack: Attack, given: _Given = None) -> None:
    """What is claimed about people is not among what the attacker was given."""
    example = _attacked(attack, given)
    claims, _ = _claims(attack, example.release, example)
    if isinstance(claims, ClaimedPeople):
        known = set(claims.learnt) & set(attack.knows(example.release.schema))
        _require(not known, f"{sorted(known)} is both known and learnt")


def attack_knows_no_more_than_the_release(attack: Attack, given: _Given = None) -> None:
    """From a release that has nothing to do with the truth, claims are right by chance only.

    The release has as many people, of kinds drawn anew and evenly. An attack that is right more
    often than a guess could be has seen the truth.
    """
    example = _attacked(attack, given)
    claims, people = _claims(attack, example.other_release, example)
    again, _ = _claims(attack, example.other_release, example)
    _require(_equal_claims(claims, again), "the same release and people gave two sets of claims")
    right, tried, chance = _by_chance(claims, people, example.other_release)
    most = tried * chance + 5 * np.sqrt(tried * chance * (1 - chance)) + 1
    _require(right <= most, f"{right} of {tried} claims are right, by chance at most {most:.0f}")


def _by_chance(claims: Claims, people: TruePeople, release: Release) -> tuple[int, int, float]:
    """Claims that are right, all claims, and the share of them that a guess could get right."""
    if isinstance(claims, ClaimedRecords):
        records = np.asarray(claims.matrix.toarray())
        truth = np.zeros_like(records)
        np.add.at(truth, (people.unit, people.cell), 1)
        return int(np.minimum(records, truth).sum()), int(records.sum()), 0.5
    if isinstance(claims, ClaimedPeople):
        sizes = tuple(claims.schema.attribute(name).size for name in claims.learnt)
        true = np.ravel_multi_index(tuple(people.codes(name) for name in claims.learnt), sizes)
        value = claims.value
    elif isinstance(claims, Slivers):
        own = claims.claimed()
        truths = sliver_counts(claims.pieces, people.counts())
        value = np.concatenate([own[where].ravel() for where in truths])
        true = np.concatenate([one.ravel() for one in truths.values()])
    elif isinstance(claims, ClaimedCounts):
        own, tables, counts = (
            claims.claimed(),
            by_name(release.as_tables().published),
            people.counts(),
        )
        value = np.concatenate([one.ravel() for one in own.values()])
        true = np.concatenate(
            [
                table_values(counts.at(level), tables[name, level].cells).ravel()
                for name, level in own
            ]
        )
    else:  # nothing is said of anybody
        return 0, 0, 0.0
    claimed = value >= 0
    chance = float(np.bincount(true).max() / len(true))
    return int((value == true)[claimed].sum()), int(claimed.sum()), chance


def attack_shows_and_explains_itself(attack: Attack, given: _Given = None) -> None:
    """Claims carry the attack's name, a question and words; scored, they can be shown."""
    example = _attacked(attack, given)
    claims, people = _claims(attack, example.release, example)
    _require(isinstance(claims, Claims), f"found {type(claims).__name__}")
    _require(claims.attack == attack.name, f"the claims are those of {claims.attack!r}")
    _require(len(claims.words.split()) >= 8, "the attack does not say how it works")
    _require(bool(claims.title.strip()), "the claims have no title")
    _shows(score_claims(claims, people, Part(example.release, LEAVES, LEAVES)))


def _shows(finding: Finding) -> None:
    _require(isinstance(finding, Finding), f"found {type(finding).__name__}, not a Finding")
    _require(isinstance(finding.table, pl.DataFrame), "the table is no DataFrame")
    _require(finding.table.height > 0, "the table is empty")
    _require(len(finding.explain().split()) >= 12, "explain says next to nothing")
    figure = finding.figure()
    _require(isinstance(figure, Figure), f"figure gives a {type(figure).__name__}")
    chart_spec(figure.chart)
    _require(bool(finding.section().blocks), "the section is empty")
    for name, table in finding.files().items():
        _require(bool(_NAME.fullmatch(name)), f"file name {name!r} is not words with hyphens")
        _require(isinstance(table, pl.DataFrame), f"file {name!r} is no DataFrame")
    if finding.value:
        missing = {*finding.index, finding.value} - set(finding.table.columns)
        _require(not missing, f"compared columns {sorted(missing)} are not in the table")
        _require(
            bool(finding.value_words),
            "the finding has a `value` and no `value_words` that say what it is",
        )


@cache
def examples() -> tuple[ContractExample, ...]:
    """Whole people, noisy counts, impossible ones, tables with gaps and with changed counts."""
    schema = load_schema("sex-age38-race7-hispanic")
    town, other, third = (_town(schema, seed) for seed in (1, 2, 3))
    noisy = Geometric(epsilon=Fraction(1))
    rules = Suppression(rule="1980")
    return (
        _example_of(town, other, Identity(), near=third),
        _example_of(town, other, noisy),
        _with_impossible_counts(),
        _example_of(town, other, rules),
        _example_of(town, other, Rounding(tables=("P1",))),
    )


def _town(schema: Schema, seed: int) -> Population:
    """People of even kinds, evenly in few units."""
    rng = np.random.default_rng(seed)
    unit = np.sort(rng.integers(0, LEAVES, PEOPLE)).astype(np.int32)
    possible = np.flatnonzero(schema.possible)
    cell = rng.choice(possible, PEOPLE).astype(np.int32)
    return Population("contract town", Domain(schema, regular(children=2, depth=3)), unit, cell)


def _example_of(
    town: Population, other: Population, mechanism: Any, *, near: Population | None = None
) -> ContractExample:
    releases = [_released(one, mechanism) for one in (town, near or other)]
    truths = [Truth.of(one).made_by(mechanism) for one in (town, other)]
    return ContractExample(releases[0], truths[0], releases[1], truths[1])


def _released(population: Population, mechanism: Any) -> Release:
    noise = KeyedNoise(RunKey.from_seed(1), mechanism.name, b"contract", b"contract")
    return protect(population, mechanism, noise)


def _with_impossible_counts() -> ContractExample:
    age, work = Attribute("age", ("child", "adult")), Attribute("work", ("none", "office"))
    schema = Schema((age, work), (impossible({"age": ["child"], "work": ["office"]}),))
    example = _example_of(_town(schema, 1), _town(schema, 2), Identity())
    strange = [_strange(example.release, 1), _strange(example.other_release, 2)]
    return replace(example, release=strange[0], other_release=strange[1])


def _strange(release: Release, people: int) -> Release:
    """The same with people where nobody can be."""
    table = release.at(release.geography.leaf).copy()
    table[:, ~release.schema.possible] = people
    return replace(release.as_counts(), tables={release.geography.leaf: table})


def _example(metric: Metric, given: ContractExample | None) -> ContractExample:
    for one in _supported(metric, given):
        return one
    raise ContractError("it supports none of the examples: give one that it supports")


def _supported(metric: Metric, given: ContractExample | None) -> Iterator[ContractExample]:
    """The examples that a metric can be computed on."""
    for one in (given,) if given is not None else examples():
        if metric.supports(one.release, one.truth):
            with suppress(NotFeasible):
                metric.compute(one.release, one.truth)
                yield one


def _attacked(attack: Attack, given: ContractExample | None) -> ContractExample:
    for one in (given,) if given is not None else examples():
        if attack.supports(one.release):
            return one
    raise ContractError("it supports none of the examples")


def _claims(
    attack: Attack, release: Release, example: ContractExample
) -> tuple[Claims, TruePeople]:
    people = TruePeople.of(example.truth.counts, release.geography)
    return attack.run(release, people.known(attack.knows(release.schema))), people


def _equal_claims(one: Claims, other: Claims) -> bool:
    if isinstance(one, ClaimedPeople) and isinstance(other, ClaimedPeople):
        return np.array_equal(one.value, other.value)
    if isinstance(one, ClaimedRecords) and isinstance(other, ClaimedRecords):
        return bool((one.matrix != other.matrix).nnz == 0)
    if isinstance(one, ClaimedCounts) and isinstance(other, ClaimedCounts):
        mine, its = one.claimed(), other.claimed()
        return all(np.array_equal(mine[where], its[where]) for where in {*mine, *its})
    return type(one) is type(other) and one.facts == other.facts


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ContractError(message)
