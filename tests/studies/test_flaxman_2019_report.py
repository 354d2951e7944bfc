"""The report of flaxman-2019: it renders, tells both variants apart and hides no failure."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import polars as pl
import pytest

from headcount.report.html import render_html
from headcount.report.model import Callout, Report, Table
from headcount.report.provenance import gather_provenance
from headcount.studies.flaxman_2019 import STUDY
from headcount.studies.flaxman_2019.settings import Settings
from headcount.studies.flaxman_2019.study import run
from headcount.studies.frame.cache import Cache
from headcount.studies.frame.report import write_text
from headcount.studies.frame.study import Findings, Work


@pytest.fixture(scope="module")
def study() -> Findings:
    settings = Settings(
        seed=3,
        replicates=2,
        people=40_000,
        mean=100,
        moved=(0, 100),
        direct_runs=60,
        audit_runs=60,
        audit_epsilon=Fraction(1),
        swept={"epsilon": (Fraction(1, 5),), "depth": (2,), "kernel_factor": (0.1, 0.3)},
    )
    return run(settings, Work(cache=Cache()))


def report(found: Findings) -> Report:
    recipe = found.settings.recipe(study=STUDY.name, out="DIR")
    provenance = gather_provenance(recipe=recipe, seeds=[3], config=found.settings.text())
    return write_text(STUDY, found, provenance=provenance)


def changed(found: Findings, table: str, **columns: object) -> Findings:
    values = [pl.lit(value).alias(name) for name, value in columns.items()]
    frame = found.tables[table].with_columns(values)
    return replace(found, tables={**found.tables, table: frame})


def test_report_has_its_figures_and_tables_and_renders(study: Findings) -> None:
    made = report(study)
    assert [figure.name for figure in made.figures()] == [
        *("figure-1a", "figure-1b", "promise-and-measurement", "curves-by-epsilon"),
        *("raked-spread", "averaged-law", "direct-estimate", "sweep", "error-by-level"),
    ]
    page = render_html(made)
    assert "headcount study flaxman-2019 --out DIR --seed 3 --replicates 2" in page
    assert "direct_epsilon = 0.1" in page
    assert not made.confidential


def test_report_shows_both_variants_and_says_which_is_which(study: Findings) -> None:
    tables = {block.name: block for block in report(study).blocks() if isinstance(block, Table)}
    noise = [row[2] for row in tables["epl"].rows]
    assert noise.count("published") == noise.count("exact") == 9
    page = render_html(report(study))
    assert "−ln(1 − ε)" in page
    assert "null test" in page


def test_report_says_so_when_a_number_does_not_agree(study: Findings) -> None:
    made = report(changed(study, "claims", holds="no"))
    (claims,) = [b for b in made.blocks() if isinstance(b, Table) and b.name == "claims"]
    verdict = [column.key for column in claims.columns].index("verdict")
    assert {row[verdict] for row in claims.rows} == {"no"}
    page = render_html(made)
    assert "0 of 21 published numbers come out again" in page
    assert "The published numbers come out again" not in page


@pytest.mark.parametrize(("bound", "kind"), [(0.9, "key finding"), (0.1, "note")])
def test_report_claims_no_more_than_the_audit_proved(
    study: Findings, bound: float, kind: str
) -> None:
    made = report(changed(study, "audit", audit_epsilon_lower=bound))
    section = next(s for s in made.sections if s.title.startswith("Three ways"))
    (callout,) = [block for block in section.blocks if isinstance(block, Callout)]
    assert callout.kind == kind
    assert f"{bound:.2f}" in callout.text
    (finding,) = [block for block in made.summary if isinstance(block, Callout)]
    assert ("at least 0.90" in finding.text) == (kind == "key finding")
