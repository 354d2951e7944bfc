"""Swapping in a config: presets, every key, and errors before data is read."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from headcount.config.load import load_config
from headcount.errors import ConfigError
from headcount.mechanisms.swapping.keys import PseudoUnits, SizeNoise
from headcount.mechanisms.swapping.mechanism import HouseholdSwapping
from headcount.mechanisms.swapping.risk import Risk
from headcount.mechanisms.targeted_swapping import TargetedSwapping
from headcount_papers.histogram import Histogram
from headcount_papers.person_swapping.mechanism import PersonSwapping

HEAD = '[population]\nkind = "towns"\n[run]\nout = "out"\n[mechanism]\n'
NEAR = ("tract", "county", "state")
EVERYTHING = """
name = "swapping"
rate = 0.05
key = ["size", "tenure"]
within = "county"
between = "tract"
nearest = ["county"]
rate_is_floor = true
risk = { attributes = ["race"], levels = ["tract", "block"], k = 2 }
size_noise = { minus = 0.1, plus = 0 }
pseudo = { level = "tract", permute = { county = "1/3" } }
"""


def built(folder: Path, mechanism: str) -> object:
    path = folder / "config.toml"
    path.write_text(HEAD + mechanism)
    (made,) = load_config(path).mechanism
    return made


def test_presets(tmp_path):
    low = HouseholdSwapping(rate=Fraction(1, 20), key=("size",), nearest=NEAR)
    assert built(tmp_path, 'name = "swapping"\npreset = "lo"') == low
    high = HouseholdSwapping(
        rate=Fraction(1, 2),
        key=("size",),
        nearest=NEAR,
        size_noise=SizeNoise(minus=Fraction(1, 4), plus=Fraction(1, 4)),
        pseudo=PseudoUnits(
            level="tract", permute=(("county", Fraction(2, 5)), ("state", Fraction(3, 10)))
        ),
    )
    assert built(tmp_path, 'name = "swapping"\npreset = "hi"') == high
    own = built(tmp_path, 'name = "swapping"\npreset = "lo"\nrate = 1\nwithin = "county"')
    assert own == HouseholdSwapping(rate=Fraction(1), key=("size",), nearest=NEAR, within="county")


def test_every_key(tmp_path):
    assert built(tmp_path, EVERYTHING) == HouseholdSwapping(
        rate=Fraction(1, 20),
        key=("size", "tenure"),
        within="county",
        between="tract",
        nearest=("county",),
        rate_is_floor=True,
        risk=Risk(attributes=("race",), levels=("tract", "block"), k=2),
        size_noise=SizeNoise(minus=Fraction(1, 10), plus=Fraction(0)),
        pseudo=PseudoUnits(level="tract", permute=(("county", Fraction(1, 3)),)),
    )


def test_the_other_swappers(tmp_path):
    targeted = 'name = "targeted-swapping"\nrate = 0.1\nrisk_variables = ["race"]\nk = 4\n'
    targeted += 'hierarchy = ["county", "block"]\nsimilar = [["size"], []]\nwithin = "state"\n'
    assert built(tmp_path, targeted + 'carry_along = ["tenure"]') == TargetedSwapping(
        rate=Fraction(1, 10),
        risk_variables=("race",),
        hierarchy=("county", "block"),
        similar=(("size",), ()),
        k=4,
        carry_along=("tenure",),
        within="state",
    )
    persons = 'name = "person-swapping"\nlevel = "tract"\nrate = 0.5\nk = 3\narea = "a"\nkeep = []'
    assert built(tmp_path, persons) == PersonSwapping(
        level="tract", rate=Fraction(1, 2), k=3, area="a", keep=()
    )


BAD = {
    "no rate": ('name = "swapping"', "mechanism.rate: found nothing, expected a value"),
    "rate above 1": (
        'name = "swapping"\nrate = 1.01',
        "mechanism.rate: found 1.01, expected a share from 0 to 1",
    ),
    "rate below 0": ('name = "swapping"\nrate = -0.1', "mechanism.rate: found -0.1, expected a sh"),
    "no number": ('name = "swapping"\nrate = true', "mechanism.rate: found True, expected a share"),
    "preset": ('name = "swapping"\npreset = "mid"', "mechanism.preset: found 'mid', expected"),
    "unknown key": ('name = "swapping"\nrate = 0\nkeys = []', "mechanism.keys: found an unknown"),
    "unknown key of risk": (
        'name = "swapping"\nrate = 0\nrisk = { attributes = ["a"], levels = ["b"], kk = 1 }',
        "mechanism.risk.kk: found an unknown key, expected one of 'attributes', 'levels', 'k'",
    ),
    "floor without risk": (
        'name = "swapping"\nrate = 0\nrate_is_floor = true',
        "mechanism.rate_is_floor: found no rule that says who must be swapped, expected risk",
    ),
    "shares above 1": (
        'name = "swapping"\nrate = 0\nsize_noise = { minus = 0.6, plus = 0.6 }',
        "mechanism.size_noise: found minus + plus above 1, expected at most 1",
    ),
    "no profile": (
        'name = "targeted-swapping"\nrate = 0\nrisk_variables = ["a"]\nsimilar = []',
        "mechanism.similar: found none, expected one or more",
    ),
    "kind": (
        'name = "person-swapping"\nrate = 0\nlevel = "a"\nkind = "alike"',
        "mechanism.kind: found 'alike', expected 'random', 'pseudo-random' or 'similar'",
    ),
}


@pytest.mark.parametrize(("mechanism", "message"), BAD.values(), ids=BAD)
def test_faults_are_named(tmp_path, mechanism, message):
    with pytest.raises(ConfigError) as caught:
        built(tmp_path, mechanism)
    assert message in str(caught.value)


def test_what_a_row_must_be_alone_on(tmp_path):
    chosen = 'name = "person-swapping"\nlevel = "tract"\nrate = 0.1\nunique_by = ["age", "sex"]'
    mechanism = built(tmp_path, chosen)
    assert isinstance(mechanism, PersonSwapping)
    assert mechanism.unique_by == ("age", "sex")


def test_the_histogram_beside_swapping(tmp_path):
    assert built(tmp_path, 'name = "histogram"\nepsilon = 2') == Histogram(epsilon=Fraction(2))
    text = 'name = "histogram"\nepsilon = "1/3"\nclip = "cell"'
    assert built(tmp_path, text) == Histogram(epsilon=Fraction(1, 3), clip="cell")
    with pytest.raises(ConfigError, match=r"mechanism\.clip: found 'total'"):
        built(tmp_path, 'name = "histogram"\nepsilon = 2\nclip = "total"')
