"""Names of people, numbers of persons, dates of birth and the like are never levels or places.

By their names in several languages, and by their shape under names that say nothing: nearly
every row has another. Nothing of them stands in a file that ``init`` writes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import headcount as hc
from headcount.errors import HeadcountError
from tests.cli.test_cli import Headcount, headcount
from tests.init.dirty_files.cases import Plan
from tests.init.dirty_files.dirt import SIGNS, identifier, with_column
from tests.init.dirty_files.files import write
from tests.init.dirty_files.model import Case
from tests.init.dirty_files.shapes import persons

__all__ = ["headcount"]

SILENT = "zz_7"
NAMED = [(kind, name) for kind, names in SIGNS.items() for name in names]
BY_SHAPE = [(kind, SILENT) for kind in SIGNS if kind != "first name"]
"""Some first names stand in many rows, as levels do: only their column's name tells them."""
WHO = [*NAMED, *BY_SHAPE]


def roll(kind: str, name: str, *, at: int, seed: int = 5) -> tuple[Case, set[str]]:
    """Persons, and a column more that says who they are; what stands in it."""
    case = Plan(persons, (), seed).made()
    places = case.at("place")
    named = ["state", "county", "tract", "block", "ward", "street"][: len(places)]
    columns = list(case.columns)
    for k, one in zip(
        [*places, *case.at("attribute")], [*named, "sex", "age", "status"], strict=False
    ):
        columns[k] = replace(columns[k], head=(one,))
    random = Random(f"{kind} {name}")
    own = [identifier(kind, random, k) for k in range(len(case.rows))]
    place = {-1: len(columns), 0: 0, 1: len(places)}[at]
    made = with_column(replace(case, columns=tuple(columns)), name, own, at=place)
    return made, set(own)


@pytest.mark.parametrize("number", range(len(WHO)), ids=lambda k: " ".join(WHO[k]))
def test_who_somebody_is_is_no_level_and_no_place(tmp_path: Path, number: int) -> None:
    kind, name = WHO[number]
    case, own = roll(kind, name, at=(-1, 0, 1)[number % 3])
    path = write(case, tmp_path)
    places = [case.columns[k].head[0] for k in case.at("place")]
    answers: list[dict[str, Any]] = [{}, {"geography": places, "kind": "people"}]
    for told in answers:
        try:
            population = hc.read(str(path), **told)
        except HeadcountError:
            assert not told  # a question is no offer, but who answers it is to be heard
            continue
        assert name not in population.geography.levels
        assert not own & {str(unit) for unit in population.geography.units[-1]}
        for attribute in population.schema.attributes:
            assert attribute.name != name
            assert not own & set(attribute.levels), attribute


@pytest.mark.parametrize("kind", SIGNS)
def test_nothing_of_who_somebody_is_is_written(
    tmp_path: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    case, own = roll(kind, SIGNS[kind][0], at=-1)
    path = write(case, tmp_path)
    where = ",".join(case.columns[k].head[0] for k in case.at("place"))
    answer = headcount("init", path.name, "--yes", "--kind", "people", "--places", where)
    assert answer.code == 0, answer.err
    for file in set(tmp_path.iterdir()) - {path}:
        text = file.read_bytes()
        assert not [one for one in own if len(one) > 3 and one.encode() in text], file
    assert not [one for one in own if len(one) > 3 and one in answer.out]
