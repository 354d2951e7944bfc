"""The report on one release: it opens, says what is promised, and carries its banner."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from headcount.evaluate.scores import score
from headcount.geography import regular
from headcount.mechanisms import Geometric, Identity, Mechanism, Raked, protect
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population
from headcount.report.evaluation import evaluation_report
from headcount.report.html import write_report
from headcount.report.model import CONFIDENTIAL_BANNER, Callout, Report
from headcount.schema import Attribute, Schema
from headcount.tabulate import content_digest, tabulate
from tests.report.browser import open_report

FIGURE = "median-error-by-level"


def report_on(mechanism: Mechanism, *, public: bool, key: RunKey | None = None) -> Report:
    schema = Schema((Attribute("sex", ("f", "m")), Attribute("age", ("minor", "adult"))))
    generator = np.random.default_rng(0)
    unit = generator.integers(0, 9, 300).astype(np.int32)
    cell = generator.integers(0, 4, 300).astype(np.int32)
    counts = tabulate(Population("town", schema, regular(children=3, depth=2), unit, cell))
    digest = content_digest(counts)
    noise = KeyedNoise(key or RunKey.from_os(), mechanism.name, digest, b"config")
    release = protect(counts, mechanism, noise)
    scores = score(counts, release)
    return evaluation_report(release, scores, recipe="headcount evaluate town", public=public)


def callouts(report: Report) -> list[Callout]:
    return [block for block in report.summary if isinstance(block, Callout)]


@pytest.mark.browser
@pytest.mark.parametrize("public", [True, False])
def test_the_report_opens_in_a_browser(public: bool, tmp_path: Path):
    path = tmp_path / "report.html"
    write_report(report_on(Raked(epsilon=Fraction(1)), public=public), path)
    facts = open_report(path, figures=[FIGURE])
    assert facts.problems() == []
    assert facts.console_warnings == ()
    text = path.read_text(encoding="utf-8")
    assert (CONFIDENTIAL_BANNER in text) == (not public)


def test_it_says_what_the_release_promises():
    (promise,) = callouts(report_on(Geometric(epsilon=Fraction(1, 2)), public=True))
    assert promise.kind == "key finding"
    assert "epsilon 0.5 when one person's record changes" in promise.text
    assert "epsilon 0.25 when one person is added or removed" in promise.text


@pytest.mark.parametrize(
    ("mechanism", "key", "said"),
    [
        (Identity(), None, "No differential-privacy guarantee"),
        (Geometric(epsilon=Fraction(1)), RunKey.from_seed(1), "NOT PRIVATE, do not publish"),
    ],
    ids=["identity", "seeded"],
)
def test_a_release_that_is_not_private_carries_a_warning(mechanism, key, said: str):
    (promise,) = callouts(report_on(mechanism, public=False, key=key))
    assert promise.kind == "warning"
    assert said in promise.text


def test_it_says_what_it_does_not_cover(tmp_path: Path):
    path = tmp_path / "report.html"
    write_report(report_on(Geometric(epsilon=Fraction(1)), public=False), path)
    text = path.read_text(encoding="utf-8")
    assert "other releases about the same people" in text
    assert "one release, not the spread over new noise" in text
    assert "headcount evaluate town" in text
