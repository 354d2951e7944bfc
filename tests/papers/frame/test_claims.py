"""What a paper says beside ours: every rule, every way to say a number, and nothing hidden."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headcount.comparison.study import load_study, study_names
from headcount.errors import ConfigError
from headcount_papers.frame.claims import COLUMNS, MeasuredClaim, read_claims, verdicts
from tests.comparison.made_up import PACKAGE, made_up_study

OURS = {
    "t": pl.DataFrame(
        {
            "level": ["county", "state"],
            "epsilon": [1.0, 2.0],
            "value": [10.4, 3.0],
            "law": [10.0, 3.5],
            "sd": [0.1, 0.2],
        }
    )
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with made_up_study(tmp_path, {}) as package:
        yield package


@pytest.fixture
def judge(folder: Path):
    def made(text: str, **more: Any) -> dict[str, pl.DataFrame]:
        head = '[[claims]]\nid = "a"\nsource = "table 1"\n'
        (folder / "published.toml").write_text(head + text, encoding="utf-8")
        return verdicts(PACKAGE, OURS, **more)

    return made


def row(tables: dict[str, pl.DataFrame]) -> dict[str, Any]:
    return tables["claims"].row(0, named=True)


ONE = 'claim = "c"\ntable = "t"\nours = "value"\nwhere = {level = "county"}\n'


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ('rule = "near"\ntolerance = 0.5\npublished = 10.0', "yes"),
        ('rule = "near"\ntolerance = 0.3\npublished = 10.0', "no"),
        ('rule = "near"\ntolerance = 0.3\nfactor = 1.1\npublished = 10.0', "yes"),
        ('rule = "near"\npublished = 10.0', "not judged"),
        ('rule = "relative"\ntolerance = 0.05\npublished = 10.0', "yes"),
        ('rule = "relative"\ntolerance = 0.03\npublished = 10.0', "no"),
        ('rule = "below"\npublished = 10.4', "no"),
        ('rule = "at most"\npublished = 10.4', "yes"),
        ('rule = "above"\npublished = 10.4', "no"),
        ('rule = "at least"\npublished = 10.4', "yes"),
        ('rule = "same sign"\npublished = 1', "yes"),
        ('rule = "same sign"\npublished = -1', "no"),
        ('rule = "not judged"\npublished = 1', "not judged"),
    ],
)
def test_every_rule_says_yes_and_no(rule: str, holds: str, judge):
    found = row(judge(ONE + rule))
    assert found["holds"] == holds
    assert found["ours"] == 10.4
    assert found["difference"] == pytest.approx(10.4 - found["published"])


def test_zero_has_the_sign_of_neither_side(judge):
    tables = judge(
        'claim = "c"\nmeasure = "none"\nrule = "same sign"\npublished = -1\n',
        measures={"none": lambda _tables: MeasuredClaim(value=0.0)},
    )
    assert row(tables)["holds"] == "no"
    assert row(tables)["difference"] == 1.0


def test_a_family_of_rows_is_matched_by_its_keys(judge):
    text = """claim = "{level} at {epsilon:g}"
    table = "t"
    ours = "value"
    keys = ["level", "epsilon"]
    rule = "near"
    tolerance = [
        { level = "state" },
        { level = "county", relative = 0.01, absolute = 0.2, column = "sd", times = 5 },
    ]
    published = [["county", 1.0, 10.0], ["state", 2.0, 9.0], ["state", 4.0, 1.0]]
    """
    table = judge(text)["claims"]
    assert table.columns == [*COLUMNS, "level", "epsilon"]
    assert table["claim"].to_list() == ["county at 1", "state at 2", "state at 4"]
    assert table["tolerance"].to_list() == [0.5, None, None]
    assert table["holds"].to_list() == ["yes", "not judged", "not testable"]
    assert judge(text + "only_run = true")["claims"].height == 2


def test_the_number_may_be_in_a_file_or_a_law_in_our_own_table(judge, folder):
    (folder / "data").mkdir()
    (folder / "data" / "p.csv").write_text("level,epsilon,rmse\ncounty,1,11\nstate,2,\n")
    family = 'claim = "c"\ntable = "t"\nours = "value"\nkeys = ["level"]\nrule = "near"\n'
    family += "tolerance = [{ relative = 0.1 }]\npublished = "
    of_file = judge(family + '{ file = "p.csv", column = "rmse" }')["claims"]
    assert of_file.select("level", "published", "holds").rows() == [("county", 11.0, "yes")]
    of_law = judge(family + '{ column = "law" }')["claims"]
    assert of_law["published"].to_list() == [10.0, 3.5]
    assert of_law["holds"].to_list() == ["yes", "no"]


@pytest.mark.parametrize(
    ("measured", "holds"),
    [
        (MeasuredClaim(true=3, of=3, finding="3 of 3"), "yes"),
        (MeasuredClaim(true=2, of=3), "depends"),
        (MeasuredClaim(true=1, of=3), "depends"),
        (MeasuredClaim(true=0, of=3), "no"),
        (MeasuredClaim(finding="no such county"), "not testable"),
        (MeasuredClaim(true=0, of=1, reason="no tract is that small"), "not testable"),
    ],
)
def test_a_statement_about_cases_holds_in_all_some_or_none(
    measured: MeasuredClaim, holds: str, judge
):
    text = 'claim = "c"\npaper = "always"\nmeasure = "m"\nrule = "in every case"\n'
    found = row(judge(text, measures={"m": lambda _tables: measured}))
    assert found["holds"] == holds
    tried = holds != "not testable"
    shares = {"yes": 1.0, "depends": (measured.true or 0) / 3, "no": 0.0}
    assert found["share"] == shares.get(holds)
    assert bool(found["reason"]) != tried
    assert (found["paper"], found["finding"]) == ("always", measured.finding)
    left_out = judge(text + 'to = "others"', measures={"m": lambda _tables: None})["others"]
    assert (left_out.height, left_out.columns) == (0, list(COLUMNS))


@pytest.mark.parametrize("value", [None, float("nan")])
def test_a_missing_number_is_not_taken_for_a_no(value: float | None, judge):
    text = 'claim = "c"\nmeasure = "m"\nrule = "below"\npublished = 1\n'
    found = row(judge(text, measures={"m": lambda _t: MeasuredClaim(value=value, finding="none")}))
    assert found["holds"] == "not testable"
    assert found["reason"] == "this run has no such number"


def test_another_population_is_judged_only_by_what_must_always_hold(judge):
    text = ONE + 'rule = "above"\npublished = 1\n'
    assert row(judge(text, judged=False))["holds"] == "not judged"
    assert row(judge(text + "always = true", judged=False))["holds"] == "yes"


def test_a_mistake_in_the_file_is_named(judge):
    with pytest.raises(ConfigError, match=r"some_2000/published.toml: a: found 'near by', exp"):
        judge(ONE + 'rule = "near by"')
    with pytest.raises(ConfigError, match=r"a: found .*'colour'.*, expected keys of a claim"):
        judge(ONE + 'rule = "near"\ncolour = "red"')
    with pytest.raises(ConfigError, match=r"toml: a: found 'bad luck', expected one of the paper"):
        judge(ONE + 'rule = "near"\ncause = "bad luck"')
    with pytest.raises(ConfigError, match=r"toml: a: found 'luck', expected one of the paper errs"):
        judge(ONE + 'rule = "near"\ncases = [{ cause = "luck" }]')
    with pytest.raises(ConfigError, match=r"toml: a: found 'a', expected one of $"):
        judge(ONE + 'rule = "near"\ncovered_by = "a"')


def test_every_file_that_is_shipped_can_be_read_and_its_ids_are_unique():
    packages = [load_study(name).package for name in study_names()]
    there = [p for p in packages if (files(p) / "report.md").is_file()]
    assert "headcount_papers.flaxman_2019" in there
    for package in there:
        ids = [claim.id for claim in read_claims(package)]
        assert len(set(ids)) == len(ids) > 0


def test_a_measure_is_called_once_for_each_case(judge):
    def found(_tables: object, *, county: str, width: int = 1) -> MeasuredClaim | None:
        return None if county == "c" else MeasuredClaim(value=float(width), finding=county)

    text = (
        'claim = "{county} of {words}"\nmeasure = "m"\nrule = "at least"\npublished = 2\n'
        'criterion = "in {county}"\ncases = [\n'
        '{ county = "a", say = { words = "x" } },\n'
        '{ county = "b", width = 3, paper = "many", say = { words = "y" } },\n'
        '{ county = "c", say = { words = "z" } },\n]\n'
    )
    rows = judge(text, measures={"m": found})["claims"]
    assert rows["claim"].to_list() == ["a of x", "b of y"]  # what was not run is left out
    assert rows["holds"].to_list() == ["no", "yes"]
    assert rows["paper"].to_list() == ["2", "many"]
    assert rows["rule"].to_list() == ["in a", "in b"]


def test_a_verdict_other_than_yes_has_its_cause_and_a_yes_has_none(judge):
    text = ONE + 'rule = "below"\ncause = "chance"\nreason = "one draw"\npublished = '
    no, yes = (row(judge(text + number, examined=True)) for number in ("10", "11"))
    assert (no["holds"], no["cause"], no["reason"]) == ("no", "chance", "one draw")
    assert (yes["holds"], yes["cause"], yes["reason"]) == ("yes", "", "")
    not_judged = row(judge(text + "10", judged=False))
    assert (not_judged["holds"], not_judged["cause"]) == ("not judged", "")


def test_a_no_without_a_cause_is_an_error_in_the_run_that_was_examined(judge):
    text = ONE + 'rule = "below"\npublished = 10'
    said = r"some_2000/published.toml: a: found 'no' without a cause: c, expected one of the paper"
    with pytest.raises(ConfigError, match=said):
        judge(text, examined=True)
    assert row(judge(text))["cause"] == "not examined: other settings than the study's own"


@pytest.mark.parametrize(
    "cause",
    [
        'cause = "chance"',
        'cause = "chance"\nreason = ""',
        'cause = [{ level = "state", cause = "chance", reason = "own" }, { cause = "chance" }]',
        'cause = [{ level = "state", cause = "chance" }, { cause = "chance", reason = "own" }]',
    ],
)
def test_a_cause_without_a_reason_is_refused_whatever_the_verdict(cause: str, judge):
    said = r"some_2000/published.toml: a: found the cause 'chance' without a reason, expected the"
    for published in ("10", "11"):
        with pytest.raises(ConfigError, match=said):
            judge(ONE + f'rule = "below"\npublished = {published}\n{cause}')


def test_rows_of_a_family_have_causes_of_their_own(judge):
    text = """claim = "{level}"
    table = "t"
    ours = "value"
    keys = ["level"]
    rule = "near"
    tolerance = 0.1
    published = [["county", 1.0], ["state", 2.0]]
    reason = "of both"
    cause = [{ level = "county", cause = "chance", reason = "own" }, { cause = "the paper errs" }]
    """
    found = judge(text, examined=True)["claims"]
    assert found["cause"].to_list() == ["chance", "the paper errs"]
    assert found["reason"].to_list() == ["own", "of both"]


def test_what_cannot_be_tested_says_why(judge):
    text = 'claim = "c"\nmeasure = "m"\nrule = "not testable"\n'
    with pytest.raises(ConfigError, match=r"a: found no reason, expected why it is not testable"):
        judge(text)
    found = judge(
        text + 'reason = "a plan"', measures={"m": lambda _t: MeasuredClaim(true=1, of=1)}
    )
    assert (row(found)["holds"], row(found)["reason"]) == ("not testable", "a plan")


def test_section_and_figure_are_the_claims_own_or_a_cases(judge):
    text = (
        'claim = "c"\nmeasure = "m"\nrule = "in every case"\nsection = "4.1"\nfigure = "one"\n'
        'cases = [{}, { section = "4.2", figure = "two" }]\n'
    )
    found = judge(text, measures={"m": lambda _t: MeasuredClaim(true=1, of=1)})["claims"]
    assert found.select("section", "figure").rows() == [("4.1", "one"), ("4.2", "two")]
    assert row(judge(ONE + 'rule = "not judged"'))["section"] == "table 1"  # its source


def test_a_share_of_nothing_is_refused(judge):
    with pytest.raises(ConfigError, match=r"published\.toml: a: .*number 0.*\"relative\"") as error:
        judge(ONE + 'rule = "relative"\ntolerance = 0.1\npublished = 0.0')
    assert "nothing is a share of 0" in str(error.value)


def test_what_every_case_is_called_with_is_written_once(judge):
    def far(_tables: Any, *, limit: float, county: str) -> MeasuredClaim:
        return MeasuredClaim(finding=f"{county} {limit:g}", true=1, of=1)

    text = 'claim = "c"\nmeasure = "far"\nrule = "in every case"\ngiven = { limit = 2.0 }\n'
    cases = 'cases = [{ county = "A" }, { county = "B", limit = 3.0 }]\n'
    found = judge(text + cases, measures={"far": far})["claims"]
    assert found["finding"].to_list() == ["A 2", "B 3"]


TRIED = {
    "t": pl.DataFrame(
        {"area": [1, 1, 2, 2, 3, 3], "value": [1.0, 2.0, 1.0, 9.0, 8.0, None], "law": [3.0] * 6}
    )
}
QUERY = """
[[claims]]
id = "a"
source = "text"
claim = "{words}: at most 3"
query = "SELECT * FROM {view}"
trials = ["area"]
called = "areas"
rule = "at most"
published = 3
cause = "chance"
reason = "few trials"
show = "{{:.1f}} people"
"""


def tried(folder: Path, text: str) -> list[dict[str, Any]]:
    views = (
        '[views]\nsome = "SELECT area, value FROM t"\nfirst = "SELECT * FROM some WHERE area = 1"\n'
    )
    (folder / "published.toml").write_text(views + text.replace("{{", "{").replace("}}", "}"))
    return verdicts(PACKAGE, TRIED)["claims"].rows(named=True)


def test_a_claim_is_true_in_a_trial_if_enough_of_its_rows_keep_the_rule(folder: Path):
    case = 'cases = [{ view = "some", say = { words = "small" } }]\n'
    (found,) = tried(folder, QUERY + case)
    assert (found["holds"], found["cause"]) == ("depends", "chance")
    assert found["share"] == pytest.approx(1 / 3)
    assert found["claim"] == "small: at most 3"
    assert found["finding"] == "2.0 people (1.0 to 8.6); true in 1 of 3 areas"
    (found,) = tried(folder, QUERY + case + "within = 0.5\n")
    assert found["share"] == pytest.approx(2 / 3)  # a row without a number is never kept
    (found,) = tried(folder, QUERY + case + "within = 0.5\nmost = 0.6\n")
    assert (found["holds"], found["cause"]) == ("yes", "")
    (found,) = tried(folder, QUERY + case + "most = 0.6666666666666667\n")
    assert found["holds"] == "no"  # one of three is what two of three leave


def test_values_of_different_kinds_are_shown_apart_and_have_no_common_middle(folder: Path):
    rows = {"place": ["a", "b"] * 2, "width": [15, 15, 2, 2], "value": [40.0, 44.0, 80.0, 90.0]}
    text = """[[claims]]
id = "a"
source = "text"
claim = "c"
query = "SELECT place, width, value FROM t"
trials = ["place"]
apart = ["width"]
called = "places"
rule = "at most"
published = 85
show = "{:.0f} %"
cause = "chance"
reason = "few"
"""
    (folder / "published.toml").write_text(text, encoding="utf-8")
    found = row(verdicts(PACKAGE, {"t": pl.DataFrame(rows)}))
    assert found["finding"] == "85 % (81 to 89), 42 % (40 to 44); true in 1 of 2 places"
    assert (found["holds"], found["ours"]) == ("depends", None)


def test_each_case_fills_in_the_query_and_ours_may_stand_beside_ours(folder: Path):
    first, all_of = (
        f'{{ view = "{view}", say = {{ words = "{words}" }} }}'
        for view, words in (("first", "one"), ("t", "all"))
    )
    both = f"cases = [{first}, {all_of}]\n"
    one, every = tried(folder, QUERY + both)
    assert (one["holds"], one["finding"]) == (
        "yes",
        "1.5 people (1.1 to 1.9); true in 1 of 1 areas",
    )
    assert every["holds"] == "depends"
    beside = QUERY.replace(
        "SELECT * FROM {view}", "SELECT area, value, law * 3 AS beside FROM {view}"
    )
    assert [row["share"] for row in tried(folder, beside + both.replace("first", "t"))] == [
        2 / 3
    ] * 2
    nobody = QUERY.replace("FROM {view}", "FROM {view} WHERE area > 3")
    assert tried(folder, nobody + both) == []


def test_a_query_that_cannot_be_run_is_named(folder: Path):
    case = 'cases = [{ view = "nothing", say = { words = "" } }]\n'
    with pytest.raises(
        ConfigError, match=r"published.toml: a: found .*nothing.*, expected a query"
    ):
        tried(folder, QUERY + case)


def test_a_case_may_be_covered_by_another_of_its_claim(folder: Path):
    both = (
        'cases = [{ view = "some", say = { words = "" } }, '
        '{ view = "some", covered_by = "a", say = { words = "" } }]\n'
    )
    assert [row["covered_by"] for row in tried(folder, QUERY + both)] == ["", "a"]
    with pytest.raises(ConfigError, match="found 'a', expected one of"):
        tried(folder, QUERY.replace("{view}", "some").replace("{words}", "") + 'covered_by = "a"\n')
