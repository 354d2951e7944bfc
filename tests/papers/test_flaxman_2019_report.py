"""The report of flaxman-2019: it renders, tells both variants apart and hides no failure."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

from headcount.comparison.cache import Cache
from headcount.comparison.study import Findings, Work
from headcount.comparison.template import write_text
from headcount.errors import InputError
from headcount.report.html import _render_html
from headcount.report.model import CONFIDENTIAL_BANNER, Callout, Report, Table, gather_provenance
from headcount_papers.flaxman_2019 import STUDY
from headcount_papers.flaxman_2019.settings import Settings
from headcount_papers.flaxman_2019.study import run


@pytest.fixture(scope="module")
def study() -> Findings:
    settings = Settings(
        seed=3,
        replicates=2,
        people=40_000,
        mean=100,
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
    page = _render_html(made)
    assert "headcount study flaxman-2019 --out DIR --seed 3 --replicates 2" in page
    assert "direct_epsilon = 0.1" in page
    assert not made.confidential


def test_report_shows_both_variants_and_says_which_is_which(study: Findings) -> None:
    tables = {block.name: block for block in report(study).blocks() if isinstance(block, Table)}
    noise = [row[2] for row in tables["epl"].rows]
    assert noise.count("published") == noise.count("exact") == 9
    page = _render_html(report(study))
    assert "−ln(1 − ε)" in page
    assert "null test" in page


def test_report_says_so_when_a_number_does_not_agree(study: Findings) -> None:
    assert set(study.tables["claims"]["outcome"]) == {"not judged"}  # the people are fewer
    assert "this run is not judged by them" in _render_html(report(study))
    made = report(changed(study, "claims", outcome="not reproduced here"))
    (claims,) = [b for b in made.blocks() if isinstance(b, Table) and b.name == "claims"]
    outcome = [column.key for column in claims.columns].index("outcome")
    assert {row[outcome] for row in claims.rows} == {"not reproduced here"}
    page = _render_html(made)
    assert "Of 21 claims 21 are not reproduced here." in page
    assert "Three of these numbers are printed in the paper" in page


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


def own(folder: Path, *, people: int = 1) -> Path:
    """Men and women of 3 regions with 4 towns each, as a user has them."""
    rows = [
        (f"r{r}", f"r{r}t{t}", people * (7 * r + t), people * 2) for r in range(3) for t in range(4)
    ]
    text = "\n".join(",".join(map(str, row)) for row in [("region", "town", "m", "f"), *rows])
    (folder / "towns.csv").write_text(text + "\n", encoding="utf-8")
    (folder / "sex.toml").write_text('[[attribute]]\nname = "sex"\nlevels = ["m", "f"]\n', "utf-8")
    path = folder / "own.toml"
    path.write_text(
        '[population]\nkind = "counts"\nfile = "towns.csv"\nschema = "sex.toml"\n'
        '[population.geography]\nroot = "all"\ncolumns = ["region", "town"]\n',
        encoding="utf-8",
    )
    return path


def test_counts_of_ones_own_are_confidential_and_not_judged(tmp_path: Path) -> None:
    settings = Settings(
        population=own(tmp_path),
        mechanisms=("geometric",),
        epsilons=(Fraction(1, 5), Fraction(1, 2)),
        replicates=1,
        direct_runs=40,
        audit_runs=40,
        swept={"people": (100,), "epsilon": (Fraction(1),), "kernel_factor": (0.3,)},
    )
    assert (settings.areas, settings.levels, settings.pair) == (12, 2, (0, 11))
    found = run(settings, Work(cache=Cache()))
    assert found.confidential
    assert set(found.tables["epl"]["mechanism"]) == {"geometric"}
    assert set(found.tables["epl"]["epsilon"]) == {0.2, 0.5}
    assert found.tables["claims"].is_empty()
    assert set(found.tables["sweep"]["parameter"]) == {"epsilon", "kernel_factor"}
    made = report(found)
    page = _render_html(made)
    assert CONFIDENTIAL_BANNER in page
    assert "The 126 people of the file live in 12 areas" in page
    assert "--population own.toml" in page
    assert str(tmp_path) not in page
    assert not {"raked-spread", "averaged-law"} & {figure.name for figure in made.figures()}


def test_a_file_without_anybody_to_move_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found nobody, expected people in 2 areas or more"):
        run(Settings(population=own(tmp_path, people=0)), Work(cache=Cache()))
