"""Rehearsals: a config of its own on made-up people, and what is said of its outcome."""

from __future__ import annotations

from typing import Any

import pytest

from headcount.config.load import read_config
from headcount.files import parse_toml
from headcount.studio.plan import _rehearsal_outcome, _rehearsal_text

MEMO = """case,found_percent,guess_percent,leaf_percent,withheld_people_percent
no protection,100,96.24,0,0
"rounded, 5",89.63,96.24,4.11,
hidden,,,,12.5
"""


def test_a_rehearsal_has_the_method_and_no_other_on_made_up_people():
    parts: list[dict[str, Any]] = [
        {"name": "person-swapping", "rate": "0.1", "kind": "random", "level": "Bezirk"}
    ]
    parts.append({"name": "cell-key", "maximum": 2, "variance": 1})
    text = _rehearsal_text("swapped", parts, out="runs/x")
    config = read_config(parse_toml(text, source="r"), source="r")
    assert config.population.kind == "towns"
    assert 'level = "block"' in text
    assert "Bezirk" not in text
    assert [one.name for one in config.mechanism] == ["person-swapping", "cell-key"]
    (case,) = config.case  # where there is a case, the methods of the preset are left out
    assert case.mechanism == config.mechanism


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("rounded, 5", "names 89.6 % of them rightly (96.2 % by a guess from the place alone)."),
        ("rounded, 5", "Totals of the smallest places are off by 4.1 %."),
        ("hidden", "No attack could be made. 12.5 % of people are withheld."),
        ("other", "It does not fit made-up people."),
    ],
)
def test_the_outcome_is_said_in_sentences(case: str, said: str):
    assert said in _rehearsal_outcome(MEMO, case)
