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
from headcount_papers.frame.claims import MeasuredClaim, read_claims, verdicts
from headcount_papers.frame.verdict import COLUMNS
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


YES, NO, MISSED = "reproduced", "not reproduced here", "not testable here"
LIKE, OPEN = "compatible", "undecided"
ONE = 'claim = "c"\ntable = "t"\nours = "value"\nexact = true\nwhere = {level = "county"}\n'


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ('rule = "near"\ntolerance = 0.5\npublished = 10.0', YES),
        ('rule = "near"\ntolerance = 0.3\npublished = 10.0', NO),
        ('rule = "near"\ntolerance = 0.3\nfactor = 1.1\npublished = 10.0', YES),
        ('rule = "near"\nfactor = "similar"\npublished = 8.1', YES),
        ('rule = "near"\nfactor = "similar"\npublished = 7.9', NO),
        ('rule = "number"\ntolerance = { relative = 0.05 }\npublished = 10.0', YES),
        ('rule = "number"\ntolerance = { relative = 0.03 }\npublished = 10.0', NO),
        ('rule = "near"\ntolerance = 1e-11\npublished = 10.40000000001', YES),
        ('rule = "number"\npublished = 10.0', MISSED),
        ('rule = "below"\npublished = 10.4', NO),
        ('rule = "at most"\npublished = 10.4', YES),
        ('rule = "above"\npublished = 10.4', NO),
        ('rule = "at least"\npublished = 10.4', YES),
        ('rule = "at least"\npublished = "much"', YES),
        ('rule = "same sign"\npublished = 1', YES),
        ('rule = "same sign"\npublished = -1', NO),
    ],
)
def test_every_rule_says_yes_and_no(rule: str, outcome: str, judge):
    found = row(judge(ONE + rule))
    assert found["outcome"] == outcome
    assert found["ours"] == 10.4
    assert found["difference"] == pytest.approx(10.4 - found["published"])


def test_zero_has_the_sign_of_neither_side(judge):
    tables = judge(
        'claim = "c"\nmeasure = "none"\nrule = "same sign"\nexact = true\npublished = -1\n',
        measures={"none": lambda _tables: MeasuredClaim(values=[0.0])},
    )
    assert row(tables)["outcome"] == NO
    assert row(tables)["difference"] == 1.0


def test_a_family_of_rows_is_matched_by_its_keys(judge):
    text = """claim = "{level} at {epsilon:g}"
    table = "t"
    ours = "value"
    keys = ["level", "epsilon"]
    rule = "near"
    exact = true
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
    assert table["outcome"].to_list() == [YES, NO, MISSED]
    assert judge(text + "only_run = true")["claims"].height == 2


def test_the_number_may_be_in_a_file_or_a_law_in_our_own_table(judge, folder):
    (folder / "data").mkdir()
    (folder / "data" / "p.csv").write_text("level,epsilon,rmse\ncounty,1,11\nstate,2,\n")
    family = 'claim = "c"\ntable = "t"\nours = "value"\nkeys = ["level"]\nrule = "near"\n'
    family += "exact = true\ntolerance = [{ relative = 0.1 }]\npublished = "
    of_file = judge(family + '{ file = "p.csv", column = "rmse" }')["claims"]
    assert of_file.select("level", "published", "outcome").rows() == [("county", 11.0, YES)]
    of_law = judge(family + '{ column = "law" }')["claims"]
    assert of_law["published"].to_list() == [10.0, 3.5]
    assert of_law["outcome"].to_list() == [YES, NO]


DRAWN = {
    "t": pl.DataFrame(
        {
            "level": ["a"] * 8 + ["b"] * 8,
            "value": [9.0, 10.0, 11.0, 10.5, 9.5, 10.2, 9.8, 10.0] + [1.0, 1.1, 0.9, 1.0] * 2,
        }
    ),
    "pooled": pl.DataFrame({"level": ["a"], "value": [10.0], "value_sd": [0.5], "runs": [4]}),
}


def test_rows_with_the_same_keys_are_draws_of_one_printed_number(folder: Path):
    text = """[[claims]]
id = "a"
source = "text"
claim = "{level}"
table = "t"
ours = "value"
keys = ["level"]
rule = "number"
show = "{:.1f} people"
published = [["a", 10.5], ["b", 10.5]]
"""
    (folder / "published.toml").write_text(text, encoding="utf-8")
    near, far = verdicts(PACKAGE, DRAWN)["claims"].rows(named=True)
    assert (near["outcome"], near["draws"], near["ours"]) == ("compatible", 8, 10.0)
    assert 50 < near["percentile"] < 95
    assert near["finding"] == "10.0 people (9.3 to 10.7)"
    assert (far["outcome"], far["cause"]) == (NO, "unknown")
    assert far["percentile"] > 99.9
    by_logarithm = text.replace('[["a", 10.5], ["b", 10.5]]', '[["a", 1.0], ["b", 0]]')
    (folder / "published.toml").write_text(by_logarithm + "log = true\n", encoding="utf-8")
    far, none = verdicts(PACKAGE, DRAWN)["claims"].rows(named=True)
    assert (far["outcome"], none["outcome"]) == (NO, NO)  # 0 has no logarithm


def test_a_number_that_pools_runs_has_the_spread_of_the_runs(folder: Path):
    text = """[[claims]]
id = "a"
source = "text"
claim = "{level}"
table = "pooled"
ours = "value"
spread = "value_sd"
runs = "runs"
keys = ["level"]
rule = "number"
published = [["a", 10.1]]
"""
    (folder / "published.toml").write_text(text, encoding="utf-8")
    found = row(verdicts(PACKAGE, DRAWN))
    assert (found["outcome"], found["draws"]) == ("compatible", 4)
    (folder / "published.toml").write_text(text + "pooled = 4\n", encoding="utf-8")
    pooled = row(verdicts(PACKAGE, DRAWN))
    assert pooled["percentile"] > found["percentile"] > 50


@pytest.mark.parametrize(
    ("measured", "outcome"),
    [
        (MeasuredClaim(true=8, of=8, finding="8 of 8"), YES),
        (MeasuredClaim(true=4, of=8), "undecided"),
        (MeasuredClaim(true=0, of=8), NO),
        (MeasuredClaim(finding="no such county"), MISSED),
        (MeasuredClaim(true=0, of=1, reason="no tract is that small"), MISSED),
    ],
)
def test_a_statement_is_judged_by_the_draws_in_which_it_is_true(
    measured: MeasuredClaim, outcome: str, judge
):
    text = 'claim = "c"\npaper = "always"\nmeasure = "m"\nrule = "statement"\n'
    found = row(judge(text, measures={"m": lambda _tables: measured}))
    assert found["outcome"] == outcome
    shares = {YES: 1.0, "undecided": 0.5, NO: 0.0}
    assert found["share"] == shares.get(outcome)
    assert (found["paper"], found["finding"]) == ("always", measured.finding)
    if outcome == MISSED:
        assert found["reason"] == measured.reason or "this run has no such number"
    left_out = judge(text + 'to = "others"', measures={"m": lambda _tables: None})["others"]
    assert (left_out.height, left_out.columns) == (0, list(COLUMNS))


@pytest.mark.parametrize("values", [(), (float("nan"),)])
def test_a_missing_number_is_not_taken_for_a_no(values: tuple[float, ...], judge):
    text = 'claim = "c"\nmeasure = "m"\nrule = "below"\npublished = 1\n'
    measured = MeasuredClaim(values=values, finding="none")
    found = row(judge(text, measures={"m": lambda _t: measured}))
    assert found["outcome"] == MISSED
    assert found["reason"] == "this run has no such number"


def test_one_draw_is_not_enough_for_a_printed_number(judge):
    found = row(judge(ONE.replace("exact = true\n", "") + 'rule = "number"\npublished = 10'))
    assert (found["outcome"], found["reason"]) == (MISSED, "one draw shows nothing of chance")


@pytest.mark.parametrize(("tolerance", "outcomes"), [(0.0, [YES, NO]), (0.3, [LIKE, OPEN])])
def test_a_tolerance_of_nothing_leaves_nothing_to_chance(
    tolerance: float, outcomes: list[str], judge
):
    """Whatever the last printed digit, and however few the draws."""
    found = judge(
        f"""claim = "c"
        measure = "none"
        rule = "number"
        unit = 1
        tolerance = {tolerance}
        cases = [{{ one = 0.0, published = 0.0 }}, {{ one = 0.5, published = 0.0 }}]
        """,
        measures={"none": lambda _tables, one: MeasuredClaim(values=[one, one])},
    )
    assert found["claims"]["outcome"].to_list() == outcomes


def test_another_population_is_judged_only_by_what_must_always_hold(judge):
    text = ONE + 'rule = "above"\npublished = 1\n'
    assert row(judge(text, judged=False))["outcome"] == "not judged"
    assert row(judge(text + "always = true", judged=False))["outcome"] == YES


def test_a_mistake_in_the_file_is_named(judge):
    with pytest.raises(ConfigError, match=r"some_2000/published.toml: a: found 'near by', exp"):
        judge(ONE + 'rule = "near by"')
    with pytest.raises(ConfigError, match=r"a: found .*'colour'.*, expected keys of a claim"):
        judge(ONE + 'rule = "near"\ncolour = "red"')
    with pytest.raises(ConfigError, match=r"toml: a: found 'bad luck', expected one of popul"):
        judge(ONE + 'rule = "near"\ncause = "bad luck"')
    with pytest.raises(ConfigError, match=r"toml: a: found 'luck', expected one of population"):
        judge(ONE + 'rule = "near"\ncases = [{ cause = "luck" }]')
    with pytest.raises(ConfigError, match=r"toml: a: found 'rather', expected one of all, most, m"):
        judge(ONE + 'rule = "near"\nfactor = "rather"')
    with pytest.raises(ConfigError, match=r"toml: a: found 'some', expected one of all, most$"):
        judge(ONE + 'rule = "near"\nneeds = "some"')
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
        return None if county == "c" else MeasuredClaim(values=[float(width)], finding=county)

    text = (
        'claim = "{county} of {words}"\nmeasure = "m"\nrule = "at least"\npublished = 2\n'
        'exact = true\ncriterion = "in {county}"\ncases = [\n'
        '{ county = "a", say = { words = "x" } },\n'
        '{ county = "b", width = 3, paper = "many", headline = 2, say = { words = "y" } },\n'
        '{ county = "c", say = { words = "z" } },\n]\n'
    )
    rows = judge(text, measures={"m": found})["claims"]
    assert rows["claim"].to_list() == ["a of x", "b of y"]  # what was not run is left out
    assert rows["outcome"].to_list() == [NO, YES]
    assert rows["paper"].to_list() == ["2", "many"]
    assert rows["rule"].to_list() == ["in a", "in b"]
    assert rows["headline"].to_list() == [0, 2]


def test_only_what_is_not_reproduced_has_a_cause(judge):
    text = ONE + 'rule = "below"\ncause = "chance"\nreason = "one draw"\npublished = '
    no, yes = (row(judge(text + number, examined=True)) for number in ("10", "11"))
    assert (no["outcome"], no["cause"], no["reason"]) == (NO, "chance", "one draw")
    assert (yes["outcome"], yes["cause"], yes["reason"]) == (YES, "", "")
    not_judged = row(judge(text + "10", judged=False))
    assert (not_judged["outcome"], not_judged["cause"]) == ("not judged", "")


def test_a_mistake_of_the_paper_is_an_outcome_of_its_own_in_every_run(judge):
    text = ONE + 'rule = "below"\ncause = "theirs"\nreason = "a misprint"\npublished = '
    for examined in (True, False):
        found = row(judge(text + "10", examined=examined))
        assert (found["outcome"], found["cause"]) == ("the paper errs", "theirs")
    assert row(judge(text + "11"))["outcome"] == YES


def test_a_cause_that_nobody_found_is_unknown_and_so_are_those_of_other_runs(judge):
    text = ONE + 'rule = "below"\npublished = 10'
    found = row(judge(text, examined=True))
    assert (found["cause"], found["reason"]) == ("unknown", "no cause was found")
    found = row(judge(text + '\ncause = "chance"\nreason = "of the usual run"'))
    assert found["cause"] == "unknown"  # causes of the usual run are not those of another
    assert found["reason"] == "causes were looked for with the study's own settings only"


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
    exact = true
    tolerance = 0.1
    published = [["county", 1.0], ["state", 2.0]]
    reason = "of both"
    cause = [{ level = "county", cause = "chance", reason = "own" }, { cause = "theirs" }]
    """
    found = judge(text, examined=True)["claims"]
    assert found["cause"].to_list() == ["chance", "theirs"]
    assert found["reason"].to_list() == ["own", "of both"]


def test_what_cannot_be_tested_says_why(judge):
    text = 'claim = "c"\nrule = "not testable here"\n'
    with pytest.raises(ConfigError, match=r"a: found no reason, expected why it is not testable"):
        judge(text)
    found = judge(text + 'reason = "a plan"')
    assert (row(found)["outcome"], row(found)["reason"]) == (MISSED, "a plan")


def test_section_and_figure_are_the_claims_own_or_a_cases(judge):
    text = (
        'claim = "c"\nmeasure = "m"\nrule = "statement"\nsection = "4.1"\nfigure = "one"\n'
        'cases = [{}, { section = "4.2", figure = "two" }]\n'
    )
    found = judge(text, measures={"m": lambda _t: MeasuredClaim(true=1, of=1)})["claims"]
    assert found.select("section", "figure").rows() == [("4.1", "one"), ("4.2", "two")]
    assert row(judge(ONE + 'rule = "above"\npublished = 1'))["section"] == "table 1"  # its source


def test_what_every_case_is_called_with_is_written_once(judge):
    def far(_tables: Any, *, limit: float, county: str) -> MeasuredClaim:
        return MeasuredClaim(finding=f"{county} {limit:g}", true=1, of=1)

    text = 'claim = "c"\nmeasure = "far"\nrule = "statement"\ngiven = { limit = 2.0 }\n'
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


def test_a_claim_is_true_in_a_draw_if_enough_of_its_rows_keep_the_rule(folder: Path):
    case = 'cases = [{ view = "some", say = { words = "small" } }]\n'
    (found,) = tried(folder, QUERY + case)
    assert (found["outcome"], found["needed"]) == ("undecided", 37)
    assert found["share"] == pytest.approx(1 / 3)
    assert found["claim"] == "small: at most 3"
    assert found["finding"] == "2.0 people (1.0 to 8.6); true in 1 of 3 areas"
    many = "SELECT area, value FROM t UNION ALL SELECT area, 1.0 AS value FROM t"
    (found,) = tried(folder, QUERY.replace("SELECT * FROM {view}", many) + case)
    assert found["share"] == pytest.approx(1 / 3)
    (found,) = tried(folder, QUERY.replace("SELECT * FROM {view}", many) + case + 'needs = "most"')
    assert found["share"] == pytest.approx(2 / 3)  # half is not most; no number is never kept
    (found,) = tried(folder, QUERY + case + 'needs = "most"\n')
    assert found["share"] == pytest.approx(1 / 3)  # half is not most


def test_a_draw_of_a_printed_number_is_the_middle_of_its_rows(folder: Path):
    text = QUERY.replace('"at most"', '"number"').replace("{view}", "t").replace("{words}", "x")
    (found,) = tried(folder, text)
    assert found["finding"] == "5.0 people (2.2 to 7.4)"  # 1.5, 5 and 8
    assert found["draws"] == 3


def test_each_case_fills_in_the_query_and_ours_may_stand_beside_ours(folder: Path):
    first, all_of = (
        f'{{ view = "{view}", say = {{ words = "{words}" }} }}'
        for view, words in (("first", "one"), ("t", "all"))
    )
    both = f"cases = [{first}, {all_of}]\n"
    one, every = tried(folder, QUERY + both)
    assert (one["share"], one["finding"]) == (1, "1.5 people (1.1 to 1.9); true in 1 of 1 areas")
    assert every["share"] == pytest.approx(1 / 3)
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
