"""The study without noise: its measures by plain counting, its plans, files, and a tiny run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount.comparison.cases import Case, releases
from headcount.errors import ConfigError, InputError
from headcount.run.study import run_study
from headcount_papers.without_noise.measures import errors, estimate, proven
from headcount_papers.without_noise.methods import ways
from headcount_papers.without_noise.people import BY_AGE, REDISTRICTING, cut, every_people
from headcount_papers.without_noise.settings import Settings
from headcount_papers.without_noise.study import given_up

SMALL = Settings(people=1_000, draws=1)


@pytest.fixture(scope="module")
def people():
    return {one.detail: one for one in every_people(SMALL, 0)}


def measured(people, name):
    (way,) = [one for one in ways(people) if one.name == name]
    columns = {"family": way.family}
    case = Case(name=name, mechanism=way.mechanism, columns=columns)
    (one,) = releases(case, people.data, seed=1)
    read = estimate(one.release, people)
    return errors(one, people, read), proven(one, people, read).row(0, named=True)


def by_hand(people):
    """Proven where all of a leaf and key are of one secret, and claims about the others."""
    x = people.counts.matrix.toarray()
    levels = np.indices(people.counts.schema.shape).reshape(len(people.counts.schema.names), -1)
    names = people.counts.schema.names
    key = [tuple(levels[names.index(n), c] for n in people.known) for c in range(x.shape[1])]
    secret = [tuple(levels[names.index(n), c] for n in people.secret) for c in range(x.shape[1])]
    order = sorted(set(secret))
    all_, unlike_proven, unlike = 0, 0, 0
    for row in x:
        of_secret = {s: sum(row[c] for c in range(len(row)) if secret[c] == s) for s in order}
        modal = max(sorted(order), key=of_secret.__getitem__)  # the first of the largest
        held: dict[tuple[int, ...], dict[tuple[int, ...], int]] = {}
        for c in np.flatnonzero(row):
            held.setdefault(key[c], {})[secret[c]] = row[c]
        unlike += sum(n for s, n in of_secret.items() if s != modal)
        for own in held.values():
            if len(own) == 1:
                ((s, n),) = own.items()
                all_ += n
                unlike_proven += n * (s != modal)
    return 100 * all_ / x.sum(), 100 * unlike_proven / unlike


@pytest.mark.parametrize("detail", [BY_AGE, REDISTRICTING])
@pytest.mark.parametrize("name", ["as counted", "leaves, crossed"])
def test_tables_as_they_are_have_no_error_and_prove_what_counting_says(people, detail, name):
    off, told = measured(people[detail], name)
    assert off["percent"].max() < 0.1
    all_, unlike = by_hand(people[detail])
    assert told["all_percent"] == pytest.approx(all_)
    assert told["unlike_percent"] == pytest.approx(unlike)
    assert told["claimed"] == told["claimed_right"]


def test_areas_err_below_their_threshold_and_prove_less(people):
    off, told = measured(people[BY_AGE], "areas of 100, crossed")
    _, all_told = measured(people[BY_AGE], "leaves, crossed")
    _, apart = measured(people[BY_AGE], "areas of 100, apart, never crossed")
    block = off.filter(level="block", counted="race and origin")["percent"][0]
    county = off.filter(level="county", counted="race and origin")["percent"][0]
    assert block > county
    assert apart["all_percent"] <= told["all_percent"] <= all_told["all_percent"]


def test_where_chance_decides_nothing_is_said_to_be_proven(people):
    _, told = measured(people[REDISTRICTING], "TopDown, epsilon 4")
    assert told["all_percent"] is None
    assert told["claimed"] >= told["claimed_right"]


def test_cut_blocks_have_the_same_people_in_parts_of_about_seven(people):
    whole, parts = people[BY_AGE], cut(people[BY_AGE])
    assert parts is not None
    geography = parts.counts.geography
    assert geography.levels[-2:] == ("block", "part")
    back = np.zeros(whole.counts.matrix.shape)
    np.add.at(back, geography.ancestors("block"), parts.counts.matrix.toarray())
    assert (back == whole.counts.matrix.toarray()).all()
    size = parts.counts.totals()
    assert 6 <= size[size > 0].mean() <= 8
    assert cut(parts) is None


def test_the_finest_ladder_that_keeps_a_limit():
    plans = pl.DataFrame(
        {
            "people": "x",
            "detail": "age",
            "replicate": 0,
            "crossed": ["a", "a", "a", "b"],
            "joined": "as wanted",
            "least_people": [0, 100, 500, 0],
            "unlike_percent": [5.0, 0.9, 0.05, 3.0],
        }
    )
    found = given_up(plans).sort("crossed", "most", descending=[False, True])
    assert found["least_people"].to_list() == [100, 500, None, None]


def test_files_of_ones_own(tmp_path):
    persons = tmp_path / "p.csv"
    rows = [
        f"1,{b},{'mf'[n % 2]},{(7 * n) % 90},{n % 3},{n % 5 == 0}"
        for b in range(4)
        for n in range(9)
    ]
    persons.write_text("\n".join(["county,block,sex,age,race,hispanic", *rows]))
    counts = tmp_path / "c.csv"
    counts.write_text("county,block,w_minor,w_adult,b_minor,b_adult\n1,1,3,5,0,1\n1,2,1,1,1,1\n")
    first, second = every_people(Settings(persons=persons, counts=counts), 0)
    assert (first.detail, first.counts.totals().sum()) == (BY_AGE, 36)
    assert (second.detail, second.counts.totals().tolist()) == (REDISTRICTING, [9, 4])
    assert cut(first) is None
    assert Settings(persons=persons).identity()["digests"]
    persons.write_text("county,block,sex,age,race,hispanic\n1,1,f,old,1,no\n")
    with pytest.raises(InputError, match="age: found 'old', expected whole years"):
        list(every_people(Settings(persons=persons), 0))
    persons.write_text("county,sex,age,race\n1,f,4,1\n")
    with pytest.raises(InputError, match="hispanic: found no such column"):
        list(every_people(Settings(persons=persons), 0))
    persons.write_text("sex,age,race\nf,4,1\n")
    with pytest.raises(InputError, match="expected some of"):
        list(every_people(Settings(persons=persons), 0))
    counts.write_text("county,block,w_minor\n1,1,3\n")
    with pytest.raises(InputError, match="found w_minor, expected GROUP_minor and GROUP_adult"):
        list(every_people(Settings(counts=counts), 0))
    with pytest.raises(ConfigError, match="no such file"):
        Settings(persons=Path("nowhere.csv"))


def test_a_small_run_has_a_report_and_judges_what_was_said_before(tmp_path):
    report = run_study("without-noise", tmp_path / "out", Settings(people=1_000, draws=1, seed=3))
    page = report.read_text()
    for words in ("What must be given up", "and other limits", "This study measures"):
        assert words in page
    claims = pl.read_csv(tmp_path / "out" / "tables" / "claims.csv")
    assert claims.height == 18
    assert "exact" in claims["id"].to_list()
