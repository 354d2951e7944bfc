"""One dataclass gives a study's options, recipe and manifest."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import pytest
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.comparison.study import Option, Seed, StudySettings, load_study, study_names
from headcount.errors import ConfigError, PrivacyError
from tests.comparison.made_up import NAME, made_up_study


@dataclass(frozen=True, kw_only=True)
class Sample(StudySettings):
    """Settings with an option of every kind."""

    places: Annotated[tuple[str, ...], Option(help="Places.", each=str.upper)] = ()
    epsilons: Annotated[tuple[Fraction, ...], Option(help="Losses.", name="epsilon")] = (
        Fraction(1, 2),
        Fraction(2),
    )
    scale: Annotated[float, Option(help="Share.")] = 1.0
    table: Annotated[Path | None, Option(help="A file.")] = None
    runs: Annotated[int | None, Option(help="Runs.", least=1)] = None
    seed: Seed = 7
    inside: int = 3


def read(**typed: object) -> Sample:
    options = {one.field: one for one in Sample.options()}
    return Sample(**{name: options[name].read(value) for name, value in typed.items()})


def test_options_are_the_marked_fields_in_order():
    assert [one.name for one in Sample.options()] == [
        *("places", "epsilon", "scale", "table", "runs", "seed"),
    ]


def test_lists_are_read_from_what_was_typed():
    made = read(places=" wa, ga,,", epsilons=["1,1/4", "0.5"])
    assert made.places == ("WA", "GA")
    assert made.epsilons == (Fraction(1, 4), Fraction(1, 2), Fraction(1))
    assert read(places="", epsilons=None) == Sample()
    with pytest.raises(PrivacyError, match="--epsilon: found 'abc'"):
        read(epsilons=["abc"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"runs": 0}, "runs: found 0, expected 1 or more"),
        ({"seed": -1}, "seed: found -1, expected 0 to 9,223,372,036,854,775,808"),
        ({"epsilons": ()}, "epsilons: found none, expected distinct numbers above 0"),
        ({"epsilons": (Fraction(0),)}, "epsilons: found 0, expected distinct numbers above 0"),
        ({"epsilons": (Fraction(1, 2),) * 2}, "epsilons: found 1/2, 1/2, expected distinct"),
    ],
)
def test_options_outside_their_bounds_are_refused(wrong: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        Sample(**wrong)


def test_the_recipe_names_what_differs_and_the_seed_but_no_folder():
    assert Sample().recipe(study="s", out="o") == "headcount study s --out o --seed 7"
    made = Sample(
        places=("WA",),
        epsilons=(Fraction(1, 4), Fraction(1)),
        scale=0.5,
        table=Path("/some/folder/a b"),
    )
    assert made.recipe(study="s", out="my out") == (
        "headcount study s --out 'my out' --places WA --epsilon 1/4 --epsilon 1 --scale 0.5 "
        "--table 'a b' --seed 7"
    )


def test_the_manifest_holds_the_options_as_json_can_hold_them():
    assert Sample(table=Path("/some/folder/a.csv")).identity() == {
        "places": [],
        "epsilons": ["1/2", "2"],
        "scale": 1.0,
        "table": "a.csv",
        "runs": None,
        "seed": 7,
    }
    assert "inside = 3" in Sample().text()
    assert "/some" not in Sample(table=Path("/some/folder/a.csv")).text()


def test_studies_are_found_by_entry_points():
    assert study_names() == [
        *("christ-2022", "flaxman-2019", "hawes-rodriguez-2021", "petti-flaxman-2020"),
        *("swapping-and-cell-keys", "without-noise"),
    ]
    assert load_study("flaxman-2019").name == "flaxman-2019"
    with pytest.raises(ConfigError, match="study: found 'flaxman-2018', expected one of 'christ"):
        load_study("flaxman-2018")


MODULE = """from headcount.comparison.study import Study
from tests.comparison.test_settings import Sample
STUDY = Study(
    name="some-2000",
    package=__name__,
    title="A title.",
    about="More.",
    settings=Sample,
    keeps="pieces",
)
"""


def test_a_new_package_is_a_new_command_with_an_option_for_each_setting(tmp_path: Path):
    with made_up_study(tmp_path, {"__init__.py": MODULE}):
        assert NAME in study_names()
        text = " ".join(CliRunner().invoke(app, ["study", NAME, "--help"]).output.split())
    assert "A title. More." in text
    for part in ("--epsilon <list[str]>", "[default: 7; x>=0]", "[default: 1.0]", "[required]"):
        assert part in text
    assert "Where finished pieces are kept; OUT.cache if not given." in text


def test_the_command_lists_the_studies_and_refuses_others():
    runner = CliRunner()
    listed = runner.invoke(app, ["study", "--help"]).output
    assert all(name in listed for name in study_names())
    wrong = runner.invoke(app, ["study", "flaxman-2018"])
    assert wrong.exit_code == 2
    assert "No such command 'flaxman-2018', expected one of 'all', 'christ-2022'" in wrong.output
    short = runner.invoke(app, ["study", "petti", "--out", "x"])
    assert short.exit_code == 2
    assert "did you mean 'petti-flaxman-2020'?" in " ".join(short.output.split())
    low = runner.invoke(app, ["study", "flaxman-2019", "--out", "x", "--replicates", "0"])
    assert low.exit_code == 2
    assert "greater than or equal to 1" in low.output
