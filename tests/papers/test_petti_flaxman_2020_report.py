"""The report of petti-flaxman-2020: it renders, and says no more than its tables do."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import polars as pl
import pytest

from headcount.comparison import template
from headcount.comparison.study import Findings
from headcount.comparison.template import write_text
from headcount.report.html import _render_html
from headcount.report.model import (
    CONFIDENTIAL_BANNER,
    Callout,
    KeyNumbers,
    Prose,
    Report,
    Table,
    gather_provenance,
)
from headcount_papers.petti_flaxman_2020 import STUDY
from headcount_papers.petti_flaxman_2020 import report as report_room
from headcount_papers.petti_flaxman_2020.report import same_error
from headcount_papers.petti_flaxman_2020.report_facts import (
    a_sample,
    compared,
    errors_by_size,
    headline,
    judged,
    samples_at,
    shown_epsilons,
)
from headcount_papers.petti_flaxman_2020.settings import Settings
from tests.papers.petti_tables import made_up_tables, paper

PART = {"whole": False, "people": 266_505, "states": ["Delaware"], "counties": 3, "districts": 280}
WHOLE = PART | {"whole": True, "states": [f"S{i}" for i in range(51)], "counties": 3_108}
BY_GROUP = "counts by age, race and ethnicity in counties"


@pytest.fixture
def tables() -> dict[str, pl.DataFrame]:
    return made_up_tables()


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """No charts: most of a report's time, and nothing to do with its words."""
    for charts in (template.CHARTS, report_room.CHARTS):
        for name in list(charts):
            monkeypatch.setitem(charts, name, MagicMock())


def made(
    tables: dict[str, pl.DataFrame],
    about: dict[str, Any] = PART,
    *,
    public: bool = True,
    settings: Settings | None = None,
) -> Report:
    found = Findings(
        settings=settings or Settings(), tables=tables, confidential=not public, facts=about
    )
    return write_text(STUDY, found, provenance=gather_provenance(recipe="recipe", seeds=[1]))


def text_of(one: Report) -> str:
    return unescape(_render_html(one))


def words_of(one: Report) -> str:
    """What the report says outside its tables and figures, without the cost of drawing them."""
    return "\n".join(b.text for b in one.blocks() if isinstance(b, Prose | Callout))


def finding(one: Report) -> str:
    (callout,) = [b for b in one.summary if isinstance(b, Callout) and b.kind == "key finding"]
    return callout.text


def table(one: Report, name: str) -> Table:
    (found,) = [b for b in one.blocks() if isinstance(b, Table) and b.name == name]
    return found


def test_report_has_its_figures_and_tables_and_renders(tables):
    one = made(tables)
    assert [figure.name for figure in one.figures()] == [
        *("errors-by-epsilon", "samples", "figure-1a", "figure-1b", "figure-2", "figure-3"),
        *("bias-by-size", "bias-by-group", "small-samples", "pure-noise", "appendix-epl"),
        "appendix-sensitivity",
    ]
    folded = {block.name: block.folded for block in one.blocks() if isinstance(block, Table)}
    assert not folded["table-1"]
    assert not folded["agreement"]
    assert folded["paper-numbers"]
    assert folded["topdown-table"]
    page = text_of(one)
    for words in ("ignored all three", "upside down", "23 occurs", "one sample four times"):
        assert words in page
    assert len(table(one, "topdown-table").rows) == 2 * 3 * 3


def test_the_sample_named_is_the_one_of_the_tables(tables, undrawn):
    text = finding(made(tables))
    assert text.startswith(f"**ε = 1 is like working with a 50 % sample for {BY_GROUP}, a 50 %")
    other = compared(tables).with_columns(pl.lit(0.85).alias("fraction"))
    first = samples_at(other, 2.0)["alike"][0]
    assert a_sample(first) == f"an 85 % sample for {BY_GROUP}"


def test_no_sample_is_named_where_none_is_alike(tables, undrawn):
    one = made(tables | {"equivalences": tables["equivalences"].filter(count_type="SC")})
    assert "and like no sample for totals of counties or totals of districts**" in finding(one)
    sentence = "ε = 1 is like no sample in both error and loss"
    one = made(tables | {"sampling": tables["sampling"].with_columns(pl.col("epl") * 1.8)})
    page = words_of(one)
    assert "is like working with" not in page
    assert sentence in finding(one)
    (numbers,) = [block for block in one.summary if isinstance(block, KeyNumbers)]
    assert not any("sample" in number.label for number in numbers.numbers)
    alike = [column.key for column in table(one, "table-1").columns].index("word")
    assert {row[alike] for row in table(one, "table-1").rows} == {"no"}


def test_a_sample_at_the_end_of_the_curve_is_not_taken_for_exact(tables, undrawn):
    end = compared(tables).with_columns(
        pl.lit(0.95).alias("fraction"), pl.lit(True).alias("at_end")
    )
    assert samples_at(end, 1.0)["alike"][0]["sample"] == "95 % or larger"


def test_report_says_where_the_loss_is_not_below_the_promise(tables, undrawn):
    assert "below the promise in 15 of 15 cases, at" in finding(made(tables))
    high = pl.when(pl.col("level") == "state").then(3.0).otherwise(pl.col("epl")).alias("epl")
    few = pl.when(pl.col("level") == "state").then(96).otherwise(pl.col("n")).alias("n")
    text = finding(made(tables | {"topdown": tables["topdown"].with_columns(high, few)}))
    assert "below the promise in 12 of 18 cases" in text


YES, NO = "reproduced", "not reproduced here"


def test_agreement_is_counted_by_what_the_numbers_are():
    found = judged(paper())
    assert found["near"].to_list() == [True, False, False, True, True, None]
    assert found["roughly"].to_list() == [True, False, False, True, True, None]


def test_report_says_how_many_numbers_agree_and_which_are_missing(tables, undrawn):
    page = words_of(made(tables, WHOLE))
    assert "Of the 5 that this run has too, **3 agree**" in page
    assert "1 belong to settings or places that are not in this run" in page
    assert "Of 2 *published numbers*" in page
    assert "**1 are reproduced or compatible**" in page
    assert "how far an earlier prototype" in " ".join(page.split())
    assert "1 of 2 figures that can be judged here are within tolerance" in page
    numbers = table(made(tables), "paper-numbers")
    agrees = [row[[c.key for c in numbers.columns].index("outcome")] for row in numbers.rows]
    assert agrees == [YES, NO, NO, YES, YES, "not testable here"]


def test_largest_errors_are_set_beside_the_papers(tables, undrawn):
    row = tables["targets"].filter(id="topdown rmse")
    largest = [
        row.with_columns(id=pl.lit("topdown max"), ours=pl.lit(o)) for o in (20.535, 82.14, 41.07)
    ]
    page = words_of(made(tables | {"targets": pl.concat([tables["targets"], *largest])}, WHOLE))
    assert "in 1 of 3 comparisons, at the median 1.00 times as large" in " ".join(page.split())
    assert "asks others to look at the tails" not in words_of(made(tables, WHOLE))


def test_a_part_is_not_taken_for_the_nation(tables, undrawn):
    assert "This run covers Delaware: 3 counties, not the nation." in words_of(made(tables))
    assert "This run covers" not in words_of(made(tables, WHOLE))
    unjudged = tables["targets"].with_columns(outcome=pl.lit("not judged"))
    page = words_of(made(tables | {"targets": unjudged}))
    assert "so this run is not judged by them" in page
    broken = unjudged.with_columns(
        id=pl.lit("topdown sum of errors"), outcome=pl.Series(["reproduced", "not reproduced here"])
    )
    assert "**DOES NOT HOLD**" in words_of(made(tables | {"targets": broken}))
    assert "**holds**" in words_of(made(tables | {"targets": broken.head(1)}))


def test_the_summary_says_that_nothing_is_private(tables, undrawn):
    first = made(tables).summary[0]
    assert isinstance(first, Prose)
    assert "nothing in it is a private release" in first.text


def test_how_errors_go_with_counts_is_read_off_the_tables(tables, undrawn):
    def told(ratio: float) -> dict[str, Any]:
        grown = pl.when(pl.col("size_from") == 100).then(6 * ratio).otherwise(6.0)
        found = errors_by_size(tables["size_bias"].with_columns(mean_absolute_error=grown))
        assert found is not None
        return found

    ratios = (1.2, 4.0, 20.0, 100.0, 0.5)
    assert [told(ratio)["kind"] for ratio in ratios] == ["same", "less", "less", "grow", "fall"]
    assert [told(ratio)["less_than_samples"] for ratio in ratios] == [
        *(True, True, False, False, True),
    ]
    assert errors_by_size(tables["size_bias"].with_columns(n=3)) is None
    few = made(tables | {"size_bias": tables["size_bias"].with_columns(n=3)})
    assert "Too few counts differ in size here" in words_of(few)
    page = words_of(made(tables))
    assert "An error is about the same in people whatever the count: in districts, counts" in page
    assert "the better TopDown compares" in page


def test_statements_of_captions_hang_on_the_tables(tables, undrawn):
    def caption(name: str, **other: pl.DataFrame) -> str:
        (found,) = [f for f in made(tables | other).figures() if f.name == name]
        return found.caption

    assert "The larger ε, the smaller the error." in caption("errors-by-epsilon")
    rising = tables["topdown"].with_columns(rmse=pl.col("epsilon"), max=pl.lit(1.0))
    assert caption("errors-by-epsilon", topdown=rising).endswith("for which places.")
    rising = tables["curves"].with_columns(density=pl.col("x"))
    assert "hump" not in caption("figure-1a", curves=rising)
    humped = tables["curves"].with_columns(density=-(pl.col("x") + 1.5).abs())
    assert "a hump just below zero" in caption("figure-1a", curves=humped)
    assert "(it differs for at least 0 % of districts and at least 0 % of counties)" in caption(
        "figure-3"
    )
    words = (pl.col("index_definition") == "words") & (pl.col("homogeneity_index") == 8)
    moved = tables["bias"].with_columns(
        homogeneity_index=pl.when(words).then(12).otherwise(pl.col("homogeneity_index"))
    )
    assert "differs for at least 25 % of districts" in caption("figure-3", bias=moved)
    assert "chance matters more" not in caption("figure-3")  # the bias is up to 32, the spread 20
    unsure = tables["bias"].with_columns(p05=pl.lit(-50.0), p95=pl.lit(50.0))
    assert "chance matters more than bias" in caption("figure-3", bias=unsure)
    left = "What is left of it, at the median: 50 % for enumeration districts, 50 % for counties"
    assert left in caption("small-samples")


def test_one_of_a_kind_is_told_in_the_singular(tables, undrawn):
    one = {
        name: tables[name].filter(pl.col("epsilon") == 1.0)
        for name in ("topdown", "bias", "size_bias", "group_bias", "equivalences")
    }
    one["sampling"] = tables["sampling"].filter(pl.col("fraction") == 0.5)
    page = words_of(made(tables | one)).replace("\N{NO-BREAK SPACE}", " ")
    assert "Each was run 4 times for ε = 1, and for one sample of 50 %." in page
    assert "for 3 values of ε from 0.5 to 2, and for 5 samples from 5 % to 95 %" in words_of(
        made(tables)
    )


def test_the_total_of_one_state_in_a_sample_is_said_to_be_exact(tables, undrawn):
    said = "the state's total is exact by construction"
    assert said not in table(made(tables), "sampling-table").notes
    alone = {"sizes": tables["sizes"].with_columns(cells=pl.lit(1))}
    assert said in table(made(tables | alone), "sampling-table").notes


def test_the_corrected_loss_stands_beside_the_published_one(tables, undrawn):
    units = [(column.label, column.unit) for column in table(made(tables), "topdown-table").columns]
    assert units[-2:] == [("EPL", "as published"), ("EPL", "corrected")]


def test_a_file_that_is_not_public_carries_the_banner(tables, tmp_path: Path):
    (tmp_path / "usa.dat").touch()
    settings = Settings(population=f"ipums:{tmp_path / 'usa.dat'}")
    one = made(tables, public=False, settings=settings)
    assert one.confidential
    page = text_of(one)
    assert CONFIDENTIAL_BANNER in page
    assert "read from your own file of the 1940 census" in page
    assert "made up" not in one.subtitle
    assert not made(tables).confidential


def test_bias_is_told_with_its_sign(tables, undrawn):
    page = words_of(made(tables))
    assert "(index 0, 40 of them) come out **16.0 people too low**" in page
    assert "(index 22, 40) **6.0 people too high**" in page
    assert "−0.75 people (Black)" in page
    few = pl.when(pl.col("homogeneity_index") > 0).then(3).otherwise(40).alias("units")
    tables["bias"] = tables["bias"].with_columns(few)
    assert "Too few districts" in words_of(made(tables))
    tables["bias"] = tables["bias"].with_columns(pl.lit(1).alias("units"))
    names = {figure.name for figure in made(tables).figures()}
    assert "figure-3" in names  # few places are better than none


def test_words():
    sizes = ("85 %", "8 %", "11 %", "18 %", "50 %")
    words = [a_sample({"sample": size, "counts": "c"}).split()[0] for size in sizes]
    assert words == ["an", "an", "an", "an", "a"]
    assert headline([0.25, 0.75, 4.0]) == 0.75
    assert shown_epsilons([0.25, 0.5, 1.0, 2.0, 8.0]) == [0.5, 1.0, 2.0]
    assert shown_epsilons([0.1, 3.0, 4.0, 9.0]) == [0.1, 4.0, 9.0]
    assert shown_epsilons([3.0]) == [3.0]


def test_the_sample_of_the_same_error_is_the_nearest_by_ratio(tables):
    where = {"count_type": "SC", "level": "county"}
    assert same_error(tables, epsilon=1.0, **where) == 0.5
    assert same_error(tables, epsilon=2.0, **where) == 0.75
    assert same_error(tables, epsilon=1.0, count_type="TC", level="state") is None
