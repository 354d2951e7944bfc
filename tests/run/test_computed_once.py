"""What is known before data is worked out once for a run, and once for its rehearsal."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest

import headcount
from headcount.run.protect import protect_run
from tests.run.town import write_config, write_town

HOME = str(Path(headcount.__file__).parent)
TWICE = 2
"""For the run, and for the release of nobody that is made before it."""
BOTH = {
    "Chain.on": TWICE,
    "ChainDesign.promise": 1 + TWICE,
    "draft_receipt": 1,
    "tabulate": TWICE,
    "config_digest": 4,
}
MOST = {
    "geometric": BOTH
    | {"Geometric.on": TWICE, "law_of_all": TWICE, "PlannedMeasurement.sensitivity": 4 * TWICE},
    "topdown": BOTH
    | {
        "TopDown.on": TWICE,
        "TopDownSettings.completed": TWICE,
        "planned_noise": TWICE,
        "unit_classes": TWICE,
        "TopDownSettings.unit_shares": 3 * TWICE,
        "TopDownSettings.allocation": 2 * TWICE,
        "TopDownDesign.certificate": 1,
        "ExpectedErrors.of": 1,
    },
}


@pytest.mark.parametrize("method", MOST)
def test_nothing_is_asked_twice_that_does_not_change(method, tmp_path):
    write_town(tmp_path)
    write_config(tmp_path, mechanism=f'name = "{method}"\nepsilon = 1')
    found: Counter[str] = Counter()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(HOME):
            found[frame.f_code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        protect_run(tmp_path / "config.toml")
    finally:
        sys.setprofile(before)
    wanted = MOST[method]
    assert all(found[name] for name in wanted), "a name that is no more"
    assert {name: found[name] for name, most in wanted.items() if found[name] > most} == {}
