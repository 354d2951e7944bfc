"""Protecting once: the release says what it is, how it was made and what was read from the data."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from headcount.domain import Domain
from headcount.errors import PrivacyError
from headcount.geography import regular
from headcount.mechanisms import Geometric, Identity, protect
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population
from headcount.privacy import UnitOfPrivacy
from headcount.schema import Attribute, Schema
from headcount.tabulate import Tabulated, counts_digest, tabulate
from headcount_papers.averaged import Averaged
from headcount_papers.raked import Raked

PEOPLE = Population(
    "p",
    Domain(Schema((Attribute("sex", ("f", "m")),)), regular(children=2, depth=2)),
    np.array([0, 0, 3], dtype=np.int32),
    np.array([1, 0, 1], dtype=np.int32),
)
COUNTS = tabulate(PEOPLE)


def keyed(key: RunKey) -> KeyedNoise:
    return KeyedNoise(key, "test", counts_digest(COUNTS), b"config")


def test_a_seeded_release_says_that_it_is_not_private():
    release = protect(
        Tabulated.of(COUNTS), Geometric(epsilon=Fraction(1)), keyed(RunKey.from_seed(1))
    )
    assert release.key_kind == "seed"
    assert not release.guarantee.exists
    assert release.guarantee.sentences()[0].startswith("NOT PRIVATE, do not publish")


def test_a_release_with_a_key_of_its_own_is_private_and_says_against_whom():
    release = protect(Tabulated.of(COUNTS), Geometric(epsilon=Fraction(1)), keyed(RunKey.from_os()))
    assert (release.key_kind, release.backend) == ("os", "table")
    assert release.guarantee.exists
    said = " ".join(release.guarantee.sentences())
    assert "epsilon 1 when one person's record changes" in said
    assert "epsilon 0.5 when one person is added or removed" in said
    assert "cannot break the encryption" in said


def test_secret_noise_made_for_other_data_is_refused():
    """The difference of two releases under the same noise is the difference of their truths."""
    other = tabulate(replace(PEOPLE, unit=np.array([0, 1, 3], dtype=np.int32)))
    with pytest.raises(PrivacyError, match="found a source made for other data, expected one with"):
        protect(Tabulated.of(other), Geometric(epsilon=Fraction(1)), keyed(RunKey.from_os()))
    seeded = protect(
        Tabulated.of(other), Geometric(epsilon=Fraction(1)), keyed(RunKey.from_seed(1))
    )
    assert seeded.key_kind == "seed"


def test_identity_needs_no_key_and_promises_nothing():
    release = protect(Tabulated.of(COUNTS), Identity(), keyed(RunKey.from_os()))
    assert (release.key_kind, release.backend) == ("none", "none")
    assert "No differential-privacy guarantee" in release.guarantee.sentences()[0]


def test_what_was_read_off_the_data_is_listed():
    found = replace(PEOPLE.domain, read_off=("which units exist",))
    counts = tabulate(replace(PEOPLE, domain=found))
    release = protect(Tabulated.of(counts), Raked(epsilon=Fraction(1)))
    assert release.guarantee.released_exactly == ("which units exist",)
    assert "Released without noise: which units exist." in release.guarantee.sentences()
    given = protect(Tabulated.of(COUNTS), Raked(epsilon=Fraction(1)), keyed(RunKey.from_os()))
    assert given.guarantee.released_exactly == ()


@pytest.mark.parametrize("mechanism", [Geometric, Averaged, Raked])
def test_a_release_has_a_value_at_every_level(mechanism):
    made = mechanism(epsilon=Fraction(1))
    release = protect(Tabulated.of(COUNTS), made, keyed(RunKey.from_seed(1)))
    names = {one.__name__: one for one in (Fraction, UnitOfPrivacy, mechanism)}
    assert eval(release.mechanism, names) == made
    leaf = release.at(COUNTS.level)
    assert release.at("whole").shape == (1, 2)
    np.testing.assert_allclose(release.at("whole")[0], leaf.sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(release.at("level_1")[1], leaf[2:].sum(axis=0), rtol=1e-9)
    assert repr(release).startswith(f"<Release by {made!r}")


def test_protecting_is_the_first_run():
    mechanism = Geometric(epsilon=Fraction(1, 4))
    release = protect(Tabulated.of(COUNTS), mechanism, keyed(RunKey.from_seed(1)))
    runs = (
        mechanism.on(COUNTS.domain)
        .run(COUNTS, keyed(RunKey.from_seed(1)), runs=range(3))
        .as_counts()
        .tables[COUNTS.level]
    )
    assert np.array_equal(release.at(COUNTS.level), runs[0])
