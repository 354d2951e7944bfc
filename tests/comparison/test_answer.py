"""What a comparison answers: how far down counts are usable, who is pointed out, in sentences."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

import headcount as hc
from headcount.comparison.answer import (
    _NOWHERE,
    _UNPUBLISHED,
    _Answer,
    _listed,
    _reach,
    _sentences,
    _usable_to,
    _with_risk,
    public_sentences,
)
from headcount.comparison.methods import NONE
from headcount.domain import CountsOf, Domain
from headcount.evaluation import Truth
from headcount.evaluation.uniqueness import Uniqueness, alone_by_attributes
from headcount.geography.geography import Geography, regular
from headcount.mechanisms import Geometric, Identity, Tabulated, protect
from headcount.population.uniform import uniform
from headcount.schema import Attribute, Schema
from headcount.schema.roles import NO_ROLES, Attacker
from headcount.tabulate import Query

SCHEMA = Schema(
    (Attribute("sex", ("f", "m")), Attribute("faith", ("a", "b"))),
    attacker=Attacker(knows=("sex",), sensitive=("faith",)),
)
PLACES = regular(children=3, depth=2)
LEVELS = ("whole", "town", "street")
DOMAIN = Domain(SCHEMA, Geography(LEVELS, PLACES.units, PLACES.parents))


def made(case: str, *, usable: dict[str, str] | None = None, **more: object) -> _Answer:
    kinds = {"totals": "street", "sex": "town", "every cell": _NOWHERE}
    given = {"method": case, "epsilon": None, "found": 50.0, "right": 80.0, **more}
    return _Answer(case=case, usable=usable or kinds, **given)  # type: ignore[arg-type]


def kept(use: dict[str, str]) -> pl.DataFrame:
    return pl.DataFrame({"level": list(use), "kind": ["sex"] * len(use), "use": list(use.values())})


@pytest.mark.parametrize(
    ("use", "finest"),
    [
        ({"whole": "usable", "town": "usable", "street": "with care"}, "town"),
        ({"whole": "usable", "town": "not usable", "street": "usable"}, "whole"),
        ({"town": "usable"}, "town"),  # the whole is not published
        ({"whole": "with care"}, _NOWHERE),
        ({}, _UNPUBLISHED),
    ],
)
def test_counts_are_usable_down_to_the_first_level_at_which_they_are_not(use, finest):
    assert _usable_to(kept(use), "sex", LEVELS) == finest


def test_usable_is_judged_by_mean_and_by_19_of_20_of_the_same_counts():
    people = uniform(people=3000, depth=2, mean=30, seed=1)
    noise = Geometric(epsilon=Fraction(1))
    found = hc.compare(people, cases={"noise": noise}, replicates=3)
    counts = Tabulated.of(people).counts
    for row in found.tables["kept"].filter(case="noise").iter_rows(named=True):
        assert row["mean_count"] == pytest.approx(3000 / row["counts"])
        part = max(row["error"], row["within"]) / row["mean_count"]
        assert row["use"] == (
            "usable" if part <= 0.1 else "with care" if part <= 0.5 else "not usable"
        )
    exact = found.tables["kept"].filter(case=NONE)
    assert set(exact["use"]) == {"usable"}
    assert counts.totals().sum() == 3000


def test_counts_that_are_nearly_all_empty_are_not_usable_because_zeros_are_kept():
    """19 of 20 counts are exact, and nobody is where they live."""
    people = uniform(people=60, depth=2, mean=2, seed=1)
    found = hc.compare(people, cases={"half": hc.Sampling(fraction=Fraction(1, 2))}, replicates=3)
    leaf = found.domain.geography.leaf
    cells = found.tables["kept"].filter(case="half", level=leaf)
    assert "usable" not in set(cells["use"])


def test_people_alone_are_those_that_a_look_at_every_count_finds():
    people = hc.to_population(hc.towns(people=1000, seed=3))
    counts = Tabulated.of(people).counts
    release = protect(people, Geometric(epsilon=Fraction(2)), seed=5)
    table = Uniqueness().compute(release, Truth.of(counts)).table
    schema = counts.schema
    for level in counts.geography.levels:
        for name in schema.names:
            answer = Query(name, (name,)).matrix(schema)
            true = (counts.at(level).matrix @ answer).toarray().ravel()
            shown = np.asarray(release.table(level) @ answer).ravel()
            row = table.filter(level=level, kind=name).row(0, named=True)
            assert row["alone"] == sum(n == 1 for n in true)
            assert row["claimed"] == sum(n == 1 for n in shown)
            assert row["right"] == sum(a == b == 1 for a, b in zip(true, shown, strict=True))
    exact = Uniqueness().compute(protect(people, Identity(), seed=1), Truth.of(counts)).table
    one = alone_by_attributes(exact, level=counts.geography.leaf)
    assert one["alone"] > 0
    assert one["found_percent"] == one["right_percent"] == 100


def test_what_an_attacker_knows_is_a_kind_of_its_own():
    people = hc.to_population(hc.towns(people=1000, seed=3))
    names = people.schema.names
    known = people.meaning(NO_ROLES, Attacker(knows=names[:1]))
    counts = Tabulated.of(known).counts
    table = Uniqueness().compute(protect(known, Identity(), seed=1), Truth.of(counts)).table
    both = [table.filter(kind=kind)["alone"].to_list() for kind in ("what is known", names[0])]
    assert both[0] == both[1]


def test_sentences_say_how_far_down_at_which_risk_and_call_no_case_the_best():
    found = [
        made(NONE),
        made("much noise", epsilon=1.0, usable={"totals": "town", "sex": "whole"}, found=1.0),
        made("less noise", epsilon=4.0, usable={"totals": "street", "sex": "whole"}, found=30.0),
        made("rounded", usable={"totals": "street", "sex": "street"}, right=None, found=0.0),
    ]
    said = [one.replace("\N{NO-BREAK SPACE}", " ") for one in _sentences(found, DOMAIN)]
    assert said[1] == (
        "Totals: with a promise usable down to street (less noise: 30 % found, 80 % right); "
        "without one usable down to street (rounded: 0 % found)."
    )
    assert said[2].startswith("Counts by sex: with a promise usable down to whole (much noise: 1 %")
    assert said[-1].startswith("For you to judge: whether a promise that holds")
    assert not any(word in " ".join(said).lower() for word in ("best", "winner", "recommend"))


def test_what_no_case_keeps_and_what_each_gives_up_is_said():
    found = [
        made("noise", epsilon=1.0, usable={"totals": _NOWHERE}, gives_up=("is below 0",)),
        made("keys", usable={"totals": _UNPUBLISHED}, named=60.0),
    ]
    said = " ".join(_sentences(found, DOMAIN)).replace("\N{NO-BREAK SPACE}", " ")
    assert "Totals: with a promise usable nowhere; without one usable nowhere." in said
    assert "Given up: noise: is below 0." in said
    assert "names faith rightly for 60 % (keys)" in said


def test_of_many_attributes_the_weakest_stands_for_all():
    usable = {"totals": "street", **dict.fromkeys("abcde", "town"), "every cell": _NOWHERE}
    one = made("noise", epsilon=1.0, usable={**usable, "d": "whole"})
    assert _reach(one, "a", LEVELS) == "whole"
    said = _sentences([one], DOMAIN)
    assert sum("Counts by" in sentence for sentence in said) == 2
    assert any(sentence.startswith("Counts by every attribute") for sentence in said)


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (["Totals"], "Totals"),
        (["Totals", "Counts by sex"], "Totals and counts by sex"),
        (["Totals", "Counts by sex", "Counts by age"], "Totals, counts by sex and by age"),
        (["Counts by sex", "Counts by age"], "Counts by sex and by age"),
    ],
)
def test_kinds_of_counts_with_one_answer_begin_one_sentence(kinds, said):
    assert _listed(kinds) == said


def test_the_version_to_publish_answers_by_promises_and_noise_alone():
    cases = pl.DataFrame(
        {"case": [NONE, "noise", "rounded"], "epsilon": [None, 1.0, None]},
        schema_overrides={"epsilon": pl.Float64},
    )
    predicted = pl.DataFrame(
        {"case": ["noise"], "level": ["town"], "query": ["total"], "within": [12.0]}
    )
    said = public_sentences(cases, predicted, LEVELS, CountsOf.PEOPLE)
    assert said[0] == "With a promise: noise. It bounds what anybody can learn of one person."
    assert said[1].startswith("Without one: rounded. Nothing bounds")
    assert said[2] == (
        "Totals of a town: 19 of 20 are within 12 people (noise) to 12 (noise) of the truth."
    )


def test_a_case_without_a_figure_is_not_the_one_that_points_out_fewest():
    same: dict[str, Any] = {"method": "noise", "epsilon": None, "usable": {}}
    unknown = _Answer(case="weak", found=None, right=None, **same)
    known = _Answer(case="strong", found=5.0, right=50.0, **same)
    for cases in ([unknown, known], [known, unknown]):
        assert _with_risk(cases).startswith("strong: 5")
    assert _with_risk([unknown]) == "weak"
