"""headcount evaluate on a suppressed run: what is withheld, what leaks, and where it is kept."""

import polars as pl
import pytest

from headcount.run.evaluate import _open_run, evaluate_run
from headcount.run.protect import protect_run

CONFIG = """
[population]
kind = "towns"
people = 1500
counties = 3
schema = "sex-age38-race7-hispanic"
[mechanism]
name = "suppression"
rule = "{rule}"
lowest = "tract"
[run]
out = "{out}"
"""


@pytest.mark.parametrize("rule", ["1980", "complementary"])
def test_the_account_of_what_is_withheld(tmp_path, rule):
    (tmp_path / "config.toml").write_text(CONFIG.format(rule=rule, out=tmp_path / "run"))
    run = protect_run(tmp_path / "config.toml")
    before = {path: path.read_bytes() for path in (run / "release").iterdir()}
    done = evaluate_run(run)
    frame, report = done.evaluation["withheld"].table, done.report
    assert done.public
    assert report.parent == run / "internal" / "evaluation"
    text = report.read_text()
    assert "What is withheld, and what still leaks" in text
    assert "withheld cells audited" in text
    everybody = int(_open_run(run)[1].counts.totals().sum())
    first = frame.filter(table="P1")  # counts everybody once, whatever the level
    assert first["people_percent"].to_list() == pytest.approx(
        [100 * people / everybody for people in first["people"]]
    )
    worst = frame.sort("people_percent", descending=True).row(0, named=True)
    assert (
        f"that {worst['table']} counts are in cells at {worst['level']} that are withheld" in text
    )
    assert "people-withheld-by-level" in text
    assert {path: path.read_bytes() for path in (run / "release").iterdir()} == before
    assert pl.read_csv(report.parent / "withheld.csv").height == frame.height == 12
    if rule == "1980":  # the same numbers as the summary of the rules, counted another way
        rules = pl.read_csv(run / "internal" / "suppression.csv")
        for table, column, kind in (("P1", "zeroed", "cell"), ("P4", "tables", "table")):
            asked = rules.filter(table=table, rule=kind).filter(pl.col("level") != "block")
            asked = asked.filter(pl.col("level") != "block_group")
            assert frame.filter(table=table)[column].to_list() == asked["withheld"].to_list()
    else:
        assert frame["zeroed"].sum() == 0
        assert 0 < frame["withheld"].sum() < frame["cells"].sum()
        assert (frame.filter(pl.col("withheld") > 0)["people"] > 0).all()
