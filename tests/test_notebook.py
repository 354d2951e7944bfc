"""What a notebook shows, and what it says when something is asked for in the wrong way."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import headcount as hc
from headcount.attacks.linkage import Link
from headcount.errors import ConfigError, InputError, PrivacyError
from headcount.noise import KeyedNoise, RunKey
from headcount.report.model import Figure
from headcount.report.notebook import MOST_ROWS, shown

GROUPS = ("child", "adult")


def well_formed(said: str) -> None:
    """Every element is closed, and what was text is escaped."""
    assert ElementTree.fromstring(said).tag == "div"


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    places = [f"{county}{tract}" for county in "AB" for tract in range(1, 6)]
    rows = [(place[0], place, group) for place in places for group in GROUPS for _ in range(20)]
    return pl.DataFrame(rows, schema=["county", "tract", "group"], orient="row")


@pytest.fixture(scope="module")
def people(frame: pl.DataFrame) -> hc.Population:
    return hc.read(frame, geography=["county", "tract"], attributes={"group": list(GROUPS)})


@pytest.fixture(scope="module")
def release(people: hc.Population) -> hc.Release:
    return hc.protect(people, hc.TopDown(epsilon=Fraction(1)), seed=1)


@pytest.fixture(scope="module")
def evaluation(release: hc.Release, people: hc.Population) -> hc.Evaluation:
    return hc.evaluate(release, people, choice=hc.Choice(attacks=()))


def test_a_release_without_a_seed_is_drawn_from_the_operating_system_and_each_is_another(
    people: hc.Population,
) -> None:
    made = [hc.protect(people, hc.Geometric(epsilon=Fraction(1))) for _ in range(2)]
    assert {one.key_kind for one in made} == {"os"}
    assert not np.array_equal(made[0].at("tract"), made[1].at("tract"))


def test_a_seed_makes_the_same_release_again_and_says_that_it_is_not_private(
    people: hc.Population, release: hc.Release
) -> None:
    again = hc.protect(people, hc.TopDown(epsilon=Fraction(1)), seed=1)
    assert np.array_equal(again.at("tract"), release.at("tract"))
    assert release.key_kind == "seed"
    assert release.guarantee.sentences()[0].startswith("NOT PRIVATE, do not publish")
    noise = KeyedNoise(RunKey.from_seed(1), "topdown", b"", b"")
    with pytest.raises(PrivacyError, match="protect: found noise and a seed, expected one or the"):
        hc.protect(people, hc.TopDown(epsilon=Fraction(1)), noise, seed=1)


def test_a_whole_number_is_an_exact_epsilon() -> None:
    assert API.TopDown(epsilon=1) == hc.TopDown(epsilon=Fraction(1))


def test_a_population_shows_its_public_domain_and_people_only_of_public_data(
    frame: pl.DataFrame, people: hc.Population
) -> None:
    said = people._repr_html_()
    well_formed(said)
    assert "10 of &#x27;tract&#x27;" in said
    assert "2 levels: child, adult" in said
    assert "400" not in said
    assert "Numbers of people are not shown" in said
    twice = hc.read(
        pl.concat([frame, frame]), geography=["county", "tract"], attributes={"group": list(GROUPS)}
    )
    assert twice._repr_html_() == said  # nothing in it depends on how many there are
    public = hc.read(frame, geography=["county", "tract"], attributes=["group"], public=True)
    assert "400 (the data are public)" in public._repr_html_()


def test_a_release_shows_its_guarantee_and_its_first_rows(release: hc.Release) -> None:
    said = release._repr_html_()
    well_formed(said)
    for sentence in release.guarantee.sentences():
        assert sentence.split("'")[0] in said
    first = release.to_polars("whole", tidy=True)
    assert f"{first['n'][0]:,}" in said
    assert "anyone who knows it can take the noise away" in said


def test_scores_show_their_key_numbers_under_the_banner(
    evaluation: hc.Evaluation, release: hc.Release, frame: pl.DataFrame
) -> None:
    said = evaluation._repr_html_()
    well_formed(said)
    assert "computed from confidential data, not protected, do not publish" in said
    for number in evaluation["error"].numbers():
        assert number.label.split("'")[0] in said
    assert "not computed: " in said
    finding = evaluation["error"]._repr_html_()
    well_formed(finding)
    assert "Computed from the truth: confidential" in finding
    open_people = hc.read(
        frame, geography=["county", "tract"], attributes={"group": list(GROUPS)}, public=True
    )
    scores = hc.evaluate(release, open_people, choice=hc.Choice(attacks=()))
    assert "do not publish" not in scores._repr_html_()


def test_a_release_streams_its_leaf_and_becomes_any_frame(release: hc.Release) -> None:
    tidy = release.to_polars("tract", tidy=True)
    assert pa.table(release).num_rows == tidy.height == 20
    assert pl.DataFrame(release)["n"].to_list() == tidy["n"].to_list()
    assert release.to_pandas("tract", tidy=True)["n"].tolist() == tidy["n"].to_list()
    assert release.to_pandas("county").columns.tolist() == ["county", "child", "adult"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda release, _: release.plot(),
        lambda release, _: release.plot("county", by="group"),
        lambda _, evaluation: evaluation.plot(),
        lambda _, evaluation: evaluation.plot("error"),
        lambda _, evaluation: evaluation["error"].plot(),
    ],
)
def test_plots_are_drawings_that_need_no_network(
    release: hc.Release, evaluation: hc.Evaluation, draw: Callable[..., Figure], tmp_path: Path
) -> None:
    figure = draw(release, evaluation)
    drawn = figure._repr_svg_()
    assert drawn.startswith("<svg")
    assert "href" not in drawn.replace('xlink:href="#', "")
    figure.save(tmp_path / "figure.svg")
    figure.save(tmp_path / "figure.png")
    assert (tmp_path / "figure.svg").read_text(encoding="utf-8").startswith("<svg")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"found ending '.gif', expected .svg or .png"):
        figure.save(tmp_path / "figure.gif")


def test_a_suppressed_release_shows_what_is_withheld() -> None:
    towns = hc.to_population(hc.towns(people=1000, counties=1), None)
    release = hc.protect(towns, hc.Suppression(tables=("P1",), rule="1980"))
    assert release.plot().caption == "**Cells withheld**, by table and level."
    well_formed(release._repr_html_())
    assert pa.table(release).num_rows > 0
    with pytest.raises(InputError, match="plot: found level or by, expected neither"):
        release.plot("tract")


API: Any = hc
"""headcount as somebody uses it who has not read its types."""

WRONG: dict[str, tuple[type[Exception], Callable[..., object]]] = {
    r"found the class TopDown, expected a method with its settings, such as TopDown\(epsilon=1\)": (
        ConfigError,
        lambda one: API.protect(one.people, hc.TopDown),
    ),
    "mechanism: found an object of str, expected a method with its settings": (
        ConfigError,
        lambda one: API.protect(one.people, "topdown"),
    ),
    r"TopDown: found setting 'epsilom', expected .*\(did you mean 'epsilon'\?\)": (
        ConfigError,
        lambda one: API.TopDown(epsilom=1),
    ),
    r"epsilon: found 0.5 \(float\), expected an exact number": (
        PrivacyError,
        lambda one: API.TopDown(epsilon=0.5),
    ),
    r"protect: found a DataFrame to protect, expected a Population: read\(data\)": (
        InputError,
        lambda one: API.protect(one.frame, hc.TopDown(epsilon=Fraction(1))),
    ),
    "truth: found a CountsRelease, expected the Population that was protected, after the release": (
        InputError,
        lambda one: API.evaluate(one.people, one.release),
    ),
    "release: found a Population, expected a release first": (
        InputError,
        lambda one: API.attack(one.people, one.release, Link()),
    ),
    "truth: found a DataFrame, expected the Population that was protected": (
        InputError,
        lambda one: API.evaluate(one.release, one.frame),
    ),
    "attack: found the class Link, expected an attack with its settings": (
        InputError,
        lambda one: API.attack(one.release, one.people, Link),
    ),
    "eror: expected one of .*did you mean 'error'": (KeyError, lambda one: one.evaluation["eror"]),
    r"found level 'tracts', expected .*\(did you mean 'tract'\?\)": (
        InputError,
        lambda one: one.release.to_polars("tracts"),
    ),
    "plot: by: found 'grup', expected .*did you mean 'group'": (
        InputError,
        lambda one: one.release.plot(by="grup"),
    ),
    "'tract' with 10 units, expected a level of at most 8 units: 'whole' or 'county'": (
        InputError,
        lambda one: one.release.plot("tract", by="group"),
    ),
    "no attribute 'reed'; did you mean 'read'": (AttributeError, lambda one: API.reed),
    "evaluation: found no finding to draw": (
        InputError,
        lambda one: hc.Evaluation(findings=()).plot(),
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_asked_for_in_the_wrong_way_is_refused_with_the_right_one(
    people: hc.Population,
    release: hc.Release,
    evaluation: hc.Evaluation,
    frame: pl.DataFrame,
    message: str,
) -> None:
    kind, ask = WRONG[message]
    made = SimpleNamespace(people=people, release=release, evaluation=evaluation, frame=frame)
    with pytest.raises(kind, match=message):
        ask(made)


def test_long_tables_are_cut_and_say_so() -> None:
    frame = pl.DataFrame({"<b>": range(20), "mean": [0.5, 1e6] * 10})
    said = shown("x & y", frames={"rows": frame})
    well_formed(said)
    assert said.count("<tr>") == 1 + MOST_ROWS
    assert "and 12 more rows" in said
    assert "&lt;b&gt;" in said
    assert "1,000,000" in said
