"""Verdicts as readers see them: by section, with cause and figure, errors of the paper apart."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

import polars as pl
import pytest

from headcount.comparison.study import load_study, study_names
from headcount_papers.frame.claims import read_claims
from headcount_papers.frame.claims_table import ERRATA, claims_table, percentile
from headcount_papers.frame.paper import held, said
from headcount_papers.frame.verdict import COLUMNS


def claims(*rows: dict[str, Any]) -> pl.DataFrame:
    plain = {"section": "2", "outcome": "reproduced", "cause": "", "reason": "", "covered_by": ""}
    full = [dict.fromkeys(COLUMNS) | plain | {"claim": f"claim {row['id']}"} | row for row in rows]
    return pl.DataFrame(full, schema=COLUMNS)


def test_sections_keep_the_order_of_the_paper_and_its_errors_come_last():
    table = claims_table(
        claims(
            {"id": "a", "section": "3", "outcome": "the paper errs", "cause": "theirs"},
            {"id": "b", "section": "3"},
            {"id": "c", "section": "2"},
            {"id": "d", "section": "3"},
        ),
        figures=(),
    )
    assert table["id"].to_list() == ["b", "d", "c", "a"]
    assert table["group"].to_list() == ["3", "3", "2", ERRATA]


def test_a_verdict_says_how_sure_it_is():
    share = {"share": 0.55, "low": 0.315, "high": 0.769, "draws": 20, "needed": 410}
    table = claims_table(
        claims(
            {"id": "a", "outcome": "undecided", **share},
            {"id": "b", "outcome": "undecided", **share, "needed": None},
            {"id": "c", "outcome": "compatible", "percentile": 63.4, "draws": 9},
            {"id": "d", "outcome": "reproduced"},
        ),
        figures=(),
    )
    assert table["chance"].to_list() == [
        "true in 55 % of 20 draws (32 to 77); about 410 would decide",
        "true in 55 % of 20 draws (32 to 77); no number would decide",
        "percentile 63 of ours, 9 draws",
        "",
    ]


@pytest.mark.parametrize(
    ("number", "shown"), [(0.2, "below 1"), (1.0, "1"), (98.7, "99"), (99.9, "above 99")]
)
def test_a_percentile_is_never_rounded_to_the_end_of_the_scale(number: float, shown: str):
    assert percentile(number) == shown


def test_the_cause_is_followed_by_its_sentence_and_by_what_covers_the_claim():
    table = claims_table(
        claims(
            {
                "id": "a",
                "outcome": "not reproduced here",
                "cause": "chance",
                "reason": "one draw",
                "covered_by": "b",
            },
            {"id": "b", "outcome": "not testable here", "reason": "a plan"},
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


def test_claims_are_counted_by_outcome():
    rows = [
        ("a", "reproduced", ""),
        ("b", "not reproduced here", ""),
        ("b", "not judged", ""),
        ("c", "the paper errs", ""),
        ("d", "undecided", "a"),
        ("e", "undecided", ""),
        ("f", "not testable here", ""),
    ]
    frame = pl.DataFrame(rows, schema=["id", "outcome", "covered_by"], orient="row")
    counts = held(frame)
    assert counts["judged"] == 3
    assert counts["undecided"] == counts["reproduced"] == counts["not testable here"] == 1
    assert said(counts) == (
        "Of 3 claims 1 is reproduced, 1 is undecided and 1 is not reproduced here. "
        "Besides, in 1 the paper itself errs and 1 is not testable here."
    )
    nothing = held(frame.filter(outcome="not judged"))
    assert said(nothing) == "No claim is judged."


def test_every_study_has_its_main_claims_in_order():
    for name in study_names():
        package = load_study(name).package
        if not (files(package) / "published.toml").is_file():
            continue
        found = [
            case.get("headline", claim.headline)
            for claim in read_claims(package)
            for case in (claim.cases or ({},))
        ]
        chosen = sorted({number for number in found if number})
        assert chosen == list(range(1, len(chosen) + 1)), name
