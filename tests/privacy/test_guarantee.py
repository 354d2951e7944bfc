"""The guarantee in words: the worst news first, exact releases and limits always."""

from __future__ import annotations

from fractions import Fraction

import pytest

from headcount.privacy import Guarantee, PureLoss, UnitOfPrivacy, ZCDPLoss

PURE = PureLoss(epsilon=Fraction(1, 4), unit=UnitOfPrivacy.ADD_REMOVE)
RHO = ZCDPLoss(rho=Fraction(1, 8), unit=UnitOfPrivacy.CHANGE_ONE)


def test_a_guarantee_lists_losses_exact_releases_and_limits():
    said = Guarantee(losses=(PURE, RHO)).also_exact("the population of each state").sentences()
    assert said[0] == "Differential privacy: epsilon 0.25 when one person is added or removed."
    assert said[1] == "Differential privacy: rho 0.125 when one person's record changes."
    assert said[2] == "Released without noise: the population of each state."
    assert all(line.startswith("Not covered: ") for line in said[3:])
    assert len(said) == 5


def test_noise_from_a_cipher_says_whom_it_holds_against():
    keyed = Guarantee(losses=(PURE,)).from_cipher()
    assert keyed.exists
    assert keyed.sentences()[1].startswith(
        "Holds against: everybody who cannot break the encryption"
    )


def test_a_seeded_run_says_first_that_it_is_not_private():
    seeded = Guarantee(losses=(PURE,)).from_cipher().seeded()
    assert not seeded.exists
    assert seeded.losses == (PURE,)
    said = seeded.sentences()
    assert said[0].startswith("NOT PRIVATE, do not publish: the noise comes from a seed")
    assert said[1].startswith("With a secret key the method would have epsilon 0.25")
    assert not any(line.startswith(("Differential privacy", "Holds against")) for line in said)


def test_a_method_without_a_guarantee_says_so_however_it_was_keyed():
    none = Guarantee.none("swapping bounds no attacker")
    assert not none.exists
    assert none.seeded().from_cipher() == none
    assert none.sentences()[0] == (
        "No differential-privacy guarantee: swapping bounds no attacker."
    )


def test_the_loss_for_a_unit_of_privacy():
    both = Guarantee(losses=(PURE, RHO))
    assert both.loss_for(UnitOfPrivacy.CHANGE_ONE) == RHO
    assert Guarantee(losses=(PURE,)).loss_for(UnitOfPrivacy.CHANGE_ONE) is None


def test_contradictions_are_refused():
    with pytest.raises(ValueError, match="either losses or a reason why it has none"):
        Guarantee()
    with pytest.raises(ValueError, match="either losses or a reason why it has none"):
        Guarantee(losses=(PURE,), why_none="none")
    with pytest.raises(ValueError, match="one loss for each unit of privacy, found two"):
        Guarantee(losses=(PURE, PURE))
