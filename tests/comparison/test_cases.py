"""Cases: released by the shipped function, measured by shipped metrics, labelled, cached."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from headcount.attacks.reidentification import Reidentify
from headcount.comparison.cache import JSON, Cache
from headcount.comparison.cases import (
    Case,
    Released,
    labelled,
    run_cases,
    score_cases,
    seeded_noise,
)
from headcount.comparison.study import Work
from headcount.errors import InputError
from headcount.evaluation.error import Error
from headcount.evaluation.withheld import Withheld
from headcount.mechanisms import Geometric, Identity, Sampling, Tabulated, protect
from headcount.population.uniform import uniform

ME = "headcount.comparison.cases"
HALF = Fraction(1, 2)
NOISY = Geometric(epsilon=HALF)
TWICE = Case(name="noisy 1/2", mechanism=NOISY, runs=range(2), columns={"epsilon": 0.5, "of": 3})
EXACT = Case(name="exact", mechanism=Identity(), runs=range(2), columns={"epsilon": None, "of": 1})


@pytest.fixture(scope="module")
def data() -> Tabulated:
    return Tabulated.of(uniform(people=2_000, depth=2, mean=50, seed=3))


def total(one: Released) -> pl.DataFrame:
    return pl.DataFrame({"total": [float(one.release.at("level_2").sum())]})


def how(data: Any, folder: Path | None = None, **more: Any) -> dict[str, Any]:
    return {"data": data, "seed": 7, "work": Work(cache=Cache(folder)), "made_by": ME, **more}


def test_rows_carry_the_columns_of_their_case_and_the_replicate_before_the_measure(data):
    found = score_cases([TWICE, EXACT], {"errors": Error(), "totals": total}, **how(data))
    assert list(found) == ["errors", "totals"]
    assert found["totals"].columns == ["epsilon", "of", "replicate", "total"]
    assert found["totals"].select("epsilon", "of", "replicate").rows() == [
        (0.5, 3, 0),
        (0.5, 3, 1),
        (None, 1, 0),
        (None, 1, 1),
    ]
    first, second, exact, again = found["totals"]["total"]
    assert first != second
    assert exact == again == 2_000
    assert found["errors"].columns[:5] == ["epsilon", "of", "replicate", "level", "query"]
    assert found["errors"].filter(of=1)["max_absolute"].max() == 0


def test_a_case_is_released_by_the_shipped_function_with_seeded_noise(data):
    (made,) = run_cases([TWICE], lambda rs: [one.release for one in rs], **_plain(data))
    noise = seeded_noise(NOISY, seed=7, digest=data.digest)
    for run, release in enumerate(made):
        assert np.array_equal(
            release.at("level_2"), protect(data, NOISY, noise, run=run).at("level_2")
        )


def _plain(data: Any) -> dict[str, Any]:
    return {"data": data, "seed": 7, "work": Work(cache=Cache())}


def test_words_seed_and_people_key_the_noise(data):
    other = replace(data, digest=b"another")
    table = {
        (words, seed, people.digest): score_cases(
            [replace(TWICE, words=words)], {"t": total}, **{**how(people), "seed": seed}
        )["t"]["total"][0]
        for words, seed, people in (
            ("", 7, data),
            ("as it was", 7, data),
            ("", 8, data),
            ("", 7, other),
        )
    }
    assert len(set(table.values())) == 4


def test_people_may_differ_from_case_to_case(data):
    more = Tabulated.of(uniform(people=4_000, depth=2, mean=50, seed=3))
    found = score_cases(
        [EXACT, replace(EXACT, columns={"epsilon": None, "of": 2})],
        {"totals": total},
        **how(lambda case: data if case.columns["of"] == 1 else more),
    )
    assert found["totals"]["total"].to_list() == [2_000, 2_000, 4_000, 4_000]


def test_the_truth_knows_the_chain_and_the_curators_folder(data):
    def seen(made: Iterator[Released]) -> list[Any]:
        return [(o.truth.chain(), [one.is_dir() for one in o.truth.folders]) for o in made]

    chain = replace(TWICE, mechanism=Sampling(fraction=HALF))
    (found,) = run_cases([chain], seen, **_plain(data))
    assert [repr(mechanism) for mechanism, _ in found] == [repr(Sampling(fraction=HALF))] * 2
    assert [there for _, there in found] == [[True], [True]]


def test_a_measure_that_does_not_support_a_release_is_an_error_that_says_why(data):
    with pytest.raises(InputError, match=r"'noisy 1/2'.*withheld.*it withholds nothing") as error:
        score_cases([TWICE], {"withheld": Withheld()}, **how(data))
    assert "a release that the measure supports" in str(error.value)
    with pytest.raises(InputError, match=r"'noisy 1/2'.*reidentification"):
        score_cases([TWICE], {"people": Reidentify()}, **how(data))


def test_a_case_is_cached_and_made_again_when_it_changes(data, tmp_path):
    made = []

    def counted(one: Released) -> pl.DataFrame:
        made.append((one.case.name, one.replicate))
        return total(one)

    def scored(*cases: Case, **more: Any) -> pl.DataFrame:
        return score_cases(cases, {"t": counted}, **how(data, tmp_path, **more))["t"]

    first = scored(TWICE, inputs="2,000 people")
    assert_frame_equal(scored(TWICE, inputs="2,000 people"), first)
    assert len(made) == 2
    assert [path.name.rsplit("-", 1)[0] for path in tmp_path.iterdir()] == 2 * ["noisy-1-2"]
    assert scored(replace(TWICE, runs=range(3)), inputs="2,000 people").height == 3
    scored(TWICE, inputs="other settings")
    scored(replace(TWICE, mechanism=Geometric(epsilon=Fraction(1, 4))), inputs="2,000 people")
    assert len(made) == 2 + 3 + 2 + 2


def test_any_result_can_be_cached_with_a_codec_of_its_own(data, tmp_path):
    def totals(made: Iterator[Released]) -> list[float]:
        return [float(one.release.at("level_2").sum()) for one in made]

    first = run_cases([TWICE, EXACT], totals, **how(data, tmp_path, codec=JSON))
    assert len(list(tmp_path.glob("*.json"))) == 2
    again = run_cases([TWICE, EXACT], _refuse, **how(data, tmp_path, codec=JSON))
    assert again == first


def _refuse(_made: Iterator[Released]) -> list[float]:
    raise AssertionError("made again")


def test_an_empty_table_is_labelled_too():
    empty = labelled(pl.DataFrame(schema={"x": pl.Int64}), {"method": "none", "replicate": 1})
    assert empty.schema == {"method": pl.String, "replicate": pl.Int64, "x": pl.Int64}
    assert empty.height == 0
