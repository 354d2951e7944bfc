"""The contract of metrics and attacks: ours keep it, broken ones are caught."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headcount.attacks import Attack, ClaimedCounts, ClaimedPeople, People
from headcount.attacks.feasible_intervals import WorkOut
from headcount.attacks.linkage import Link
from headcount.attacks.reidentification import Reidentify
from headcount.evaluation import Metric
from headcount.evaluation.audit import Audit
from headcount.evaluation.error import Error, _Errors
from headcount.evaluation.evaluate import Choice
from headcount.evaluation.impossible_counts import ImpossibleCounts
from headcount.evaluation.part import TruePeople
from headcount.evaluation.swapping import Swapping
from headcount.mechanisms.swapping.households import REPORT
from headcount.report.finding import Support
from headcount.schema import Schema
from headcount.tabulate.linked_tables import table_values
from headcount.testing import (
    ContractError,
    attack_checks,
    check_attack,
    check_metric,
    metric_checks,
)
from headcount.testing.evaluation_contracts import examples
from headcount_papers.empirical_privacy_loss import EmpiricalPrivacyLoss

QUICK = EmpiricalPrivacyLoss(calibrated=False)
OURS = [one for one in Choice(given=(QUICK,)).chosen_metrics() if not isinstance(one, Swapping)]


@pytest.mark.parametrize(
    "check", [c for m in (*OURS, Audit(runs=200)) for c in metric_checks(m)], ids=str
)
def test_our_metrics_keep_the_contract(check):
    check()


def test_the_account_of_a_swap_keeps_it_too(tmp_path: Path):
    account = {"households": 9, "asked": 2, "swapped": 2, "unpaired": 0, "partners": {"whole": 1}}
    (tmp_path / REPORT).write_text(json.dumps({"0": account}))
    plain = examples()[0]
    check_metric(
        Swapping(), example=replace(plain, truth=replace(plain.truth, folders=(tmp_path,)))
    )


@pytest.mark.parametrize(
    "check",
    [c for a in Choice().chosen_attacks() if a.name != "differencing" for c in attack_checks(a)],
    ids=str,
)
def test_our_attacks_keep_the_contract(check):
    """That which needs a second release has an example of its own in ``test_difference_run``."""
    check()


@dataclass(frozen=True, kw_only=True)
class Blind(ImpossibleCounts):
    """Reads the release only, and does not say so."""

    depends_on = frozenset({"release", "truth"})


@dataclass(frozen=True, kw_only=True)
class Deaf(Error):
    """Compares the truth with itself, whatever was released."""

    def compute(self, release: Any, truth: Any, **more: Any) -> Any:
        itself = replace(release, tables={truth.counts.level: truth.counts.dense()})
        return super().compute(itself, truth)


@dataclass(frozen=True, kw_only=True)
class Wordless(Error):
    def compute(self, release: Any, truth: Any, **more: Any) -> Any:
        class Silent(_Errors):
            def explain(self) -> str:
                return ""

        made = super().compute(release, truth)
        return Silent(**{name: getattr(made, name) for name in made.__dataclass_fields__})


@dataclass(frozen=True, kw_only=True)
class Undrawn(Error):
    def compute(self, release: Any, truth: Any, **more: Any) -> Any:
        class Invisible(_Errors):
            def figure(self) -> Any:
                return None

        made = super().compute(release, truth)
        return Invisible(**{name: getattr(made, name) for name in made.__dataclass_fields__})


@dataclass(frozen=True, kw_only=True)
class Random(Error):
    def compute(self, release: Any, truth: Any, **more: Any) -> Any:
        made = super().compute(release, truth)
        noise = np.random.default_rng().random(made.table.height)
        return replace(made, table=made.table.with_columns(luck=noise))


@dataclass(frozen=True, kw_only=True)
class Curt(Error):
    def supports(self, release: Any, truth: Any) -> Any:
        return True


@dataclass(frozen=True, kw_only=True)
class Unwilling(Error):
    def supports(self, release: Any, truth: Any) -> Support:
        return Support("it never applies")


@dataclass(frozen=True, kw_only=True)
class Vandal(Error):
    def compute(self, release: Any, truth: Any, **more: Any) -> Any:
        found = super().compute(release, truth)
        truth.counts.matrix.data[0] += 1
        return found


@dataclass(frozen=True, kw_only=True)
class Misnamed(Error):
    name = "Error!"


@dataclass(frozen=True, eq=False, kw_only=True)
class Holding(Error):
    """Keeps a table, which may be the truth, as a parameter."""

    kept: Any = None


BROKEN_METRICS = [
    (Blind(), "the table does not depend on the truth"),
    (Deaf(), "the table does not depend on the release"),
    (Wordless(), "explain says next to nothing"),
    (Undrawn(), "figure gives a NoneType"),
    (Random(), "the same release and truth gave two tables"),
    (Curt(), "supports gives True, not a Support"),
    (Unwilling(), "it supports none of the examples"),
    (Misnamed(), "name 'Error!' is not words with hyphens"),
    (Holding(kept=np.zeros(3)), "parameter 'kept' holds a ndarray"),
]


@pytest.mark.parametrize(
    ("broken", "message"), BROKEN_METRICS, ids=lambda v: type(v).__name__ if v else ""
)
def test_a_broken_metric_is_caught(broken: Metric, message: str):
    with pytest.raises(ContractError, match=message):
        check_metric(broken)


def test_a_metric_that_changes_the_truth_is_caught():
    before = examples()[0]
    counts = replace(before.truth.counts, matrix=before.truth.counts.matrix.copy())
    example = replace(before, truth=replace(before.truth, counts=counts))
    (check,) = (c for c in metric_checks(Vandal(), example=example) if "alone" in str(c))
    with pytest.raises(ContractError, match=r"error-metric_leaves.*: the truth was changed"):
        check()


def _claims(attack: Attack, release: Any, people: People, value: Any, **more: Any) -> ClaimedPeople:
    return ClaimedPeople(
        attack=attack.name,
        title="What is it?",
        schema=release.schema,
        geography=release.geography,
        people=people,
        learnt=more.pop("learnt", ("hispanic",)),
        value=np.asarray(value, dtype=np.int64),
        words=more.pop("words", "Takes the truth from under the table and claims to be clever."),
    )


@dataclass(frozen=True, kw_only=True)
class Peeking(Link):
    """Looks the answers up in the truth that the contract holds."""

    def run(self, release: Any, people: People, **more: Any) -> ClaimedPeople:
        truth = TruePeople.of(examples()[0].truth.counts, release.geography)
        return _claims(self, release, people, truth.codes("hispanic"))


@dataclass(frozen=True, kw_only=True)
class Reaching(Link):
    """Asks for what the attacker was not given."""

    def run(self, release: Any, people: People, **more: Any) -> ClaimedPeople:
        return _claims(self, release, people, people.codes["hispanic"])


@dataclass(frozen=True, kw_only=True)
class Circular(Link):
    """Learns what it knows."""

    def knows(self, schema: Schema) -> tuple[str, ...]:
        return ("age", "hispanic")

    def run(self, release: Any, people: People, **more: Any) -> ClaimedPeople:
        return _claims(self, release, people, people.codes["hispanic"])


@dataclass(frozen=True, kw_only=True)
class Mute(Link):
    def run(self, release: Any, people: People, **more: Any) -> ClaimedPeople:
        return _claims(self, release, people, np.full(len(people), -1), words="Trust me.")


@dataclass(frozen=True, eq=False, kw_only=True)
class Loaded(Reidentify):
    """Brings the truth along."""

    truth: Any = None


def test_an_attack_that_peeks_at_the_truth_is_caught():
    (check,) = (c for c in attack_checks(Peeking()) if "no_more_than" in str(c))
    with pytest.raises(ContractError, match="400 of 400 claims are right, by chance at most"):
        check()


@dataclass(frozen=True, kw_only=True)
class PeekingAtCounts(WorkOut):
    """Looks the counts up in the truth that the contract holds."""

    def run(self, release: Any, people: People, **more: Any) -> ClaimedCounts:
        truth = TruePeople.of(examples()[0].truth.counts, release.geography).counts()
        claims = super().run(release, people, **more)
        true = {
            (one.name, one.level): table_values(truth.at(one.level), one.cells)
            for one in release.published
        }
        ranges = tuple(replace(one, low=true, high=true) for one in claims.ranges)
        return replace(claims, ranges=ranges)


def test_an_attack_that_peeks_at_true_counts_is_caught():
    (check,) = (c for c in attack_checks(PeekingAtCounts()) if "no_more_than" in str(c))
    with pytest.raises(ContractError, match=r"(\d+) of \1 claims are right, by chance at most"):
        check()


def test_an_attack_whose_module_imports_the_truth_is_caught():
    with pytest.raises(ContractError, match="imports headcount"):
        check_attack(Peeking())  # this module does


@pytest.mark.parametrize(
    ("broken", "check", "message"),
    [
        (Circular(), "learns", r"\['hispanic'\] is both known and learnt"),
        (Mute(), "shows", "the attack does not say how it works"),
        (Loaded(truth=examples), "parameters_are_plain", "parameter 'truth' holds a"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Attack) else "",
)
def test_a_broken_attack_is_caught(broken: Attack, check: str, message: str):
    (wanted,) = (one for one in attack_checks(broken) if check in str(one))
    with pytest.raises(ContractError, match=message):
        wanted()


def test_an_attack_is_not_given_what_it_does_not_say_it_knows():
    (check,) = (c for c in attack_checks(Reaching()) if "learns" in str(c))
    with pytest.raises(KeyError, match="hispanic"):
        check()
