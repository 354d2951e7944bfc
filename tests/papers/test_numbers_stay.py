"""Seeded numbers of the studies that must not move: what keys their noise is what it was."""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256

import numpy as np

from headcount.comparison.cases import releases
from headcount.mechanisms import mechanism_digest
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.population import uniform
from headcount.privacy import UnitOfPrivacy
from headcount_papers.christ_2022.settings import UNIT
from headcount_papers.flaxman_2019.cases import case, counted
from headcount_papers.flaxman_2019.settings import MECHANISMS, VARIANTS, Settings


def test_releases_of_flaxman_2019_are_the_same_to_the_bit():
    """Every mechanism and variant, as version 0.1.0 made them before there was a unit."""
    settings = Settings(people=2000, depth=2, mean=20, moved=(0, 1), seed=12345)
    data = counted(uniform(people=2000, depth=2, mean=20, seed=1))
    found = sha256()
    for name in MECHANISMS:
        for variant in VARIANTS:
            noisy = case(settings, name, Fraction(1, 10), variant=variant, runs=range(2))
            made = [one.release.as_counts() for one in releases(noisy, data, seed=settings.seed)]
            for level in made[0].tables:
                both = np.stack([np.asarray(one.at(level), dtype=np.float64) for one in made])
                found.update(both.tobytes())
    assert found.hexdigest()[:16] == "d6791ba27ccbe98b"


def test_the_words_that_key_the_noise_of_topdown_in_studies_are_the_same():
    """petti-flaxman-2020 and hawes-rodriguez-2021 key it by the settings in words."""
    made = TopDown.from_preset("e2e-2018", epsilon="1")
    assert mechanism_digest(made).hex()[:16] == "023060c2bcaba75f"
    household = {"unit": "household-change-one", "largest_household": 4}
    other = TopDown.from_preset("e2e-2018", epsilon="1", **household)
    assert other.noise_text.endswith("largest_household=4)")


def test_the_studies_of_old_papers_name_their_unit():
    assert UNIT is UnitOfPrivacy.ADD_REMOVE
    for name in MECHANISMS:
        mechanism = Settings().mechanism(name, Fraction(1))
        assert mechanism.unit is UnitOfPrivacy.ADD_REMOVE  # type: ignore[attr-defined]
