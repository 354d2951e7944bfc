"""How far one person can move the answers to a query, and the noise that a loss then asks for.

A query at a level is measured as **one vector**: its cells in every unit of the level. Each person
lives in one unit of the level and falls into one cell of the query, so a person is one count in
one entry of that vector. That is the whole argument for measuring every unit of a level at the
level's full loss (parallel composition over disjoint units and cells); it needs no further
step, and unlike composing units one by one it is also right when a changed record moves a person
from one unit to another.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from headcount.errors import PrivacyError
from headcount.privacy.loss import PureLoss, ZCDPLoss
from headcount.privacy.unit import UnitOfPrivacy


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """The most that one step between neighbouring databases changes a vector of counts.

    where
        l1           sum over entries of |change|
        l2_squared   sum over entries of change^2
        unit         which databases are neighbours
    """

    l1: int
    l2_squared: int
    unit: UnitOfPrivacy


def marginal_sensitivity(
    *, unit: UnitOfPrivacy, units: int, cells: int, covers_everyone: bool = True
) -> Sensitivity:
    """The sensitivity of a marginal measured in all units of a level, as one vector.

    where
        units             number of units of the level (public, whoever lives there)
        cells             number of cells of the query in each unit
        covers_everyone   True if each person falls into exactly one cell; False if some fall
                          into none (adults by sex, say). A query that counts a person twice
                          is not a marginal and is not treated here.

    Adding or removing a person changes one entry by 1: l1 = l2_squared = 1. Changing a record
    takes 1 from an entry and gives 1 to another: l1 = l2_squared = 2. With a single entry
    (the total at the root) there is no other entry: a change of record leaves the total of
    everyone as it is (0), and can only move a person into or out of a part count (1).
    """
    if units < 1 or cells < 1:
        raise PrivacyError(
            f"sensitivity: found {units} units and {cells} cells, expected at least one of each"
        )
    if unit is UnitOfPrivacy.ADD_REMOVE:
        most = 1
    elif units * cells > 1:
        most = 2
    else:
        most = 0 if covers_everyone else 1
    return Sensitivity(l1=most, l2_squared=most, unit=unit)


def geometric_rate(loss: PureLoss, *, sensitivity: Sensitivity) -> Fraction:
    """The rate of the two-sided geometric noise that costs ``loss``.

    Pr[noise = k] is proportional to exp(-rate |k|), with rate = epsilon / l1

    Ghosh, Roughgarden and Sundararajan (2012), "Universally Utility-Maximizing Privacy
    Mechanisms", definition 2.2.
    """
    _check(loss, sensitivity=sensitivity)
    return loss.epsilon / sensitivity.l1


def gaussian_variance(loss: ZCDPLoss, *, sensitivity: Sensitivity) -> Fraction:
    """The variance parameter of the discrete Gaussian noise that costs ``loss``.

    Pr[noise = k] is proportional to exp(-k^2 / (2 sigma^2)), with sigma^2 = l2_squared / (2 rho)

    Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy",
    theorem 4 and, for vectors, theorem 14.
    """
    _check(loss, sensitivity=sensitivity)
    return sensitivity.l2_squared / (2 * loss.rho)


def _check(loss: PureLoss | ZCDPLoss, *, sensitivity: Sensitivity) -> None:
    if loss.unit is not sensitivity.unit:
        raise PrivacyError(
            f"noise: found a loss for '{loss.unit}' and a sensitivity for '{sensitivity.unit}', "
            f"expected one unit of privacy"
        )
    if sensitivity.l1 == 0:
        raise PrivacyError(
            f"noise: found a query of sensitivity 0, expected one that a person can change: "
            f"when {loss.unit.phrase} its answer stays the same. Give it no share, or take the "
            f"unit '{UnitOfPrivacy.ADD_REMOVE}'"
        )
