"""The report on one release: it opens, says what is promised, and carries its banner."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from headcount.domain import Domain
from headcount.evaluation import Truth
from headcount.evaluation.error import Error
from headcount.evaluation.evaluate import Choice, evaluate, evaluation_report
from headcount.evaluation.tally import CellSet
from headcount.geography import regular
from headcount.mechanisms import Geometric, Identity, Mechanism, protect
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population
from headcount.report.html import write_report
from headcount.report.model import CONFIDENTIAL_BANNER, Callout, KeyNumbers, Prose, Report, Table
from headcount.report.specs import chart_spec
from headcount.run.evaluate import evaluate_run
from headcount.run.protect import protect_run
from headcount.schema import Attribute, Schema
from headcount.tabulate import Tabulated, counts_digest, tabulate
from headcount_papers.histogram import Histogram
from headcount_papers.raked import Raked
from tests.report.browser import open_report
from tests.report.layout import layout_faults

FIGURES = ["mean-error-by-level", "relative-error-by-level", "error-by-group"]


def report_on(
    mechanism: Mechanism, *, public: bool, key: RunKey | None = None, cells: CellSet = "all"
) -> Report:
    schema = Schema((Attribute("sex", ("f", "m")), Attribute("age", ("minor", "adult"))))
    generator = np.random.default_rng(0)
    unit = generator.integers(0, 9, 300).astype(np.int32)
    cell = generator.integers(0, 4, 300).astype(np.int32)
    counts = tabulate(Population("town", Domain(schema, regular(children=3, depth=2)), unit, cell))
    digest = counts_digest(counts)
    noise = KeyedNoise(key or RunKey.from_os(), mechanism.name, digest, b"config")
    release = protect(Tabulated.of(counts), mechanism, noise)
    choice = Choice(metrics=("error",), given=(Error(cells=cells),))
    found = evaluate(release, Truth.of(counts), choice=choice).findings
    return evaluation_report(release, found, recipe="headcount evaluate town", public=public)


def said(report: Report) -> str:
    """All prose, labels and notes."""
    parts: list[str] = []
    for block in report.blocks():
        if isinstance(block, Prose | Callout):
            parts.append(block.text)
        elif isinstance(block, KeyNumbers):
            parts += [f"{one.value} {one.unit} {one.label}" for one in block.numbers]
        elif isinstance(block, Table):
            parts += [block.caption, block.notes]
    return "\n".join(parts)


def test_errors_stand_beside_the_size_of_what_is_counted():
    report = report_on(Geometric(epsilon=Fraction(1, 10)), public=True, key=RunKey.from_seed(4))
    text = said(report)
    assert "median error of a level_2's total; the median level_2 with any people has 3" in text
    assert "as a percentage of people" in text
    assert "counts are below 0" in text
    assert "counts are published below 0" in text
    assert "groups with" in text
    assert "Counted here: every count that is possible, empty or not." in text
    assert "depends on the release" not in text


def test_a_release_without_negative_counts_does_not_speak_of_them_as_a_finding():
    text = said(report_on(Identity(), public=True))
    assert "are published below 0" not in text
    assert "Published at level_2: 0 of 36 counts are below 0." in text
    assert "0 groups with 0 people in them are lost" in text


def test_the_papers_set_and_clipping_are_said():
    report = report_on(Histogram(epsilon=Fraction(1)), public=True, cells="either")
    text = said(report)
    assert "That set depends on the release: do not compare methods by these figures." in text
    assert "sums below 0 be set to 0: they are scored that way" in text


def test_levels_and_groups_stand_under_their_names():
    report = report_on(Raked(epsilon=Fraction(1)), public=True)
    first, _, groups = (chart_spec(figure.chart) for figure in report.figures())
    x = first["layer"][0]["encoding"]["x"]
    assert (x["type"], x["sort"]) == ("nominal", ["whole", "level_1", "level_2"])
    x = groups["layer"][0]["encoding"]["x"]
    assert (x["type"], x["sort"]) == ("nominal", ["f", "m", "minor", "adult"])


def callouts(report: Report) -> list[Callout]:
    return [block for block in report.summary if isinstance(block, Callout)]


@pytest.mark.browser
@pytest.mark.parametrize("public", [True, False])
def test_the_report_opens_in_a_browser(public: bool, tmp_path: Path):
    path = tmp_path / "report.html"
    write_report(report_on(Raked(epsilon=Fraction(1)), public=public), path)
    facts = open_report(path, figures=FIGURES)
    assert facts.problems() == []
    assert facts.console_warnings == ()
    text = path.read_text(encoding="utf-8")
    assert (CONFIDENTIAL_BANNER in text) == (not public)


TOWNS = """
[population]
kind = "towns"
people = 1000
counties = 2
schema = "sex-age38-race7-hispanic"
[[mechanism]]
name = "swapping"
preset = "lo"
[[attack]]
name = "reconstruction"
steps = 200
most_units = 5
[run]
out = "out"
"""


@pytest.mark.browser
def test_all_findings_can_be_read_on_every_screen_and_on_paper(tmp_path: Path):
    config = tmp_path / "config.toml"
    config.write_text(TOWNS, encoding="utf-8")
    done = evaluate_run(protect_run(config))
    assert {"error", "swapping", "representation", "linkage", "reconstruction"} <= {
        finding.name for finding in done.evaluation.findings
    }
    assert layout_faults(done.report) == []


def test_a_column_of_empty_words_is_not_shown(tmp_path: Path):
    config = tmp_path / "config.toml"
    config.write_text(TOWNS, encoding="utf-8")
    done = evaluate_run(protect_run(config), choice=Choice(metrics=("swapping",), attacks=()))
    account = done.evaluation["swapping"]
    assert "step" in account.table.columns
    assert [column.label for column in account.columns()] == ["What", "Number", "Percent"]


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
