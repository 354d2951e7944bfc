"""Verdicts as readers see them: by section, with cause and figure, errors of the paper apart."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

import polars as pl
import pytest

from headcount.comparison.study import load_study, study_names
from headcount_papers.frame.claims import COLUMNS, read_claims
from headcount_papers.frame.claims_table import ERRATA, claims_table
from headcount_papers.frame.paper import held


def claims(*rows: dict[str, Any]) -> pl.DataFrame:
    plain = {"section": "2", "holds": "yes", "cause": "", "reason": "", "covered_by": ""}
    full = [dict.fromkeys(COLUMNS) | plain | {"claim": f"claim {row['id']}"} | row for row in rows]
    return pl.DataFrame(full, schema=COLUMNS)


def test_sections_keep_the_order_of_the_paper_and_its_errors_come_last():
    table = claims_table(
        claims(
            {"id": "a", "section": "3", "holds": "no", "cause": "the paper errs"},
            {"id": "b", "section": "3"},
            {"id": "c", "section": "2"},
            {"id": "d", "section": "3"},
        ),
        figures=(),
    )
    assert table["id"].to_list() == ["b", "d", "c", "a"]
    assert table["group"].to_list() == ["3", "3", "2", ERRATA]


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.6, "depends (60 %)"), (0.999, "depends (99 %)"), (0.001, "depends (1 %)")],
)
def test_a_share_is_never_rounded_to_none_or_all(share: float, shown: str):
    table = claims_table(claims({"id": "a", "holds": "depends", "share": share}), figures=())
    assert table["verdict"].to_list() == [shown]


def test_the_cause_is_followed_by_its_sentence_and_by_what_covers_the_claim():
    table = claims_table(
        claims(
            {"id": "a", "holds": "no", "cause": "chance", "reason": "one draw", "covered_by": "b"},
            {"id": "b", "holds": "not testable", "reason": "a plan"},
        ),
        figures=(),
    )
    covered = "chance; one draw; not counted, since it is covered by “claim b”"
    assert table["why"].to_list() == [covered, "a plan"]


def test_a_case_is_covered_by_the_first_case_of_its_claim():
    rows = [
        {"id": "a", "claim": "first_case"},
        {"id": "a", "claim": "another", "covered_by": "a"},
    ]
    table = claims_table(claims(*rows), figures=())
    assert table["why"].to_list() == ["", "not counted, since it is covered by “first_case”"]


def test_a_figure_that_this_report_lacks_is_no_link():
    table = claims_table(
        claims({"id": "a", "figure": "there"}, {"id": "b", "figure": "left-out"}),
        figures={"there"},
    )
    assert table["figure"].to_list() == ["there", ""]


def test_every_figure_that_a_shipped_claim_names_exists():
    for name in study_names():
        package = load_study(name).package
        listed = tomllib.loads((files(package) / "report.toml").read_text("utf-8"))["figures"]
        cases = [case for claim in read_claims(package) for case in (vars(claim), *claim.cases)]
        named = {case["figure"] for case in cases if case.get("figure")}
        assert named <= set(listed), name


def test_the_number_of_claims_that_hold():
    rows = [
        ("a", "yes", "", ""),
        ("b", "no", "chance", ""),
        ("b", "not judged", "", ""),
        ("c", "no", "the paper errs", ""),
        ("d", "depends", "chance", "a"),
        ("e", "depends", "chance", ""),
    ]
    frame = pl.DataFrame(rows, schema=["id", "holds", "cause", "covered_by"], orient="row")
    assert held(frame) == {"yes": 1, "depends": 1, "no": 1, "judged": 3, "errs": 1}
