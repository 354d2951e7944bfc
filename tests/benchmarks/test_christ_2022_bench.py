"""Verdicts of christ-2022 over several seeds."""

import polars as pl

from benchmarks.christ_2022 import over_seeds


def verdicts(*holds: str) -> pl.DataFrame:
    share = {"yes": 1.0, "depends": 0.5, "no": 0.0}
    rows = [
        {
            "id": str(number),
            "claim": "so it is",
            "covered_by": "",
            "holds": word,
            "share": share[word],
            "cause": "" if word == "yes" else "chance",
        }
        for number, word in enumerate(holds)
    ]
    return pl.DataFrame(rows)


def test_a_verdict_that_differs_between_seeds_depends():
    found = over_seeds([verdicts("yes", "yes", "no"), verdicts("yes", "no", "no")])
    assert found["holds"].to_list() == ["yes", "depends", "no"]
    assert found["share"].to_list() == [1.0, 0.5, 0.0]
    assert found["shares"].to_list()[1] == [1.0, 0.0]
    assert found["cause"].to_list() == ["", "chance", "chance"]
