"""Sensitivity: how far neighbours can move the answers to a query, and what noise on them costs.

A query at a level is measured as **one vector**: its cells in every unit of the level. Each person
lives in one unit of the level and falls into one cell of the query, so a person is one count in
one entry of that vector. That is the whole argument for measuring every unit of a level at the
level's full loss (parallel composition over disjoint units and cells); it needs no further
step, and unlike composing units one by one it is also right when a changed record moves a person
from one unit to another.

**Housemates.** Where the query asks for household size, a person who comes or goes changes the
level of everyone in the household. Let the level of a household of n be l(n), and call n a *step*
if n = 1 or l(n) differs from l(n - 1). The person who makes a household of n - 1 one of n adds

    n at level l(n), -(n - 1) at level l(n - 1)     if n is a step,     1 at l(n) otherwise

for the fullest entry: n - 1 housemates who are alike but for that level, and the newcomer. So with
t the largest step (4 where sizes end in "4 and more")

    one person added or removed:   l1 = 2t - 1,    l2^2 = t^2 + (t - 1)^2

A changed record may take a person out of a household of a and into one that becomes one of b. The
changes add up, so l1 = 2(2t - 1). Their squares add too unless entries meet. Out of a: -a at l(a),
a - 1 at l(a - 1). Into b: b at l(b), -(b - 1) at l(b - 1). Entries with the same sign meet where
l(a) = l(b - 1) and where l(a - 1) = l(b); if one of these holds, no entries of opposite sign meet,
because l(a) differs from l(a - 1) and l(b) from l(b - 1). Hence

    one record changed:   l2^2 = max over steps a, b of  a^2 + (a - 1)^2 + b^2 + (b - 1)^2
                                 + 2 a (b - 1) [l(a) = l(b - 1)] + 2 (a - 1) b [l(a - 1) = l(b)]

(98 for sizes 1 to 5: out of a household of 5 and into one that becomes one of 4). That every
housemate is in one entry is the worst case, because the square of a sum is convex in who is where.
A move that is no step adds 1 to one entry, at most 2 t^2 in all, which a = b = t exceeds.

**Households.** With at most m people in each, one household more or less moves m counts, all in
one entry at worst: l1 = m, l2^2 = m^2. One that becomes another takes m from an entry and gives m
to another: l1 = 2m, l2^2 = 2 m^2. A person in group quarters is a unit of their own: 1, not m.

**Housing units.** Where each record is a housing unit, vacant or occupied, one that changes moves
the counts as a changed record of a person does: l1 = l2^2 = 2. A person who comes or goes changes
one housing unit at most. One who moves changes two: the first becomes vacant, the second occupied.
These changes a and b have opposite signs in every entry that both of them move, so a . b <= 0 and

    |a + b|_1 <= 4,    |a + b|_2^2 = |a|^2 + |b|^2 + 2 a . b <= 4

twice what one housing unit changes, where any two records would have four times its l2^2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import singledispatch
from itertools import pairwise, product

from headcount.errors import PrivacyError
from headcount.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric
from headcount.privacy.loss import Loss, PureLoss, UnitOfPrivacy, ZCDPLoss
from headcount.schema.schema import ALONE, Steps


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
    *,
    unit: UnitOfPrivacy,
    units: int,
    cells: int,
    covers_everyone: bool = True,
    steps: Steps = ALONE,
    largest_household: int | None = None,
) -> Sensitivity:
    """The sensitivity of a marginal measured in all units of a level, as one vector.

    where
        units               number of units of the level (public, whoever lives there)
        cells               number of cells of the query in each unit
        covers_everyone     True if each person falls into exactly one cell; False if some fall
                            into none (adults by sex, say). A query that counts a person twice
                            is not a marginal and is not treated here.
        steps               how the query's cells go by household size, where they do
        largest_household   m, for units of privacy that are households

    Without housemates, adding or removing a person changes one entry by 1: l1 = l2_squared = 1.
    Changing a record takes 1 from an entry and gives 1 to another: l1 = l2_squared = 2. With a
    single entry (the total at the root) there is no other entry: a change of record leaves the
    total of everyone as it is (0), and can only move a person into or out of a part count (1); a
    household that changes moves it by m - 1, from one person to m.
    """
    if units < 1 or cells < 1:
        raise PrivacyError(
            f"sensitivity: found {units} units and {cells} cells, expected at least one of each"
        )
    alone = units * cells == 1
    if unit.of_household:
        l1, l2_squared = _household(unit, largest_household, alone=alone and covers_everyone)
    elif alone and not unit.adds:
        l1 = l2_squared = 0 if covers_everyone else 1
    else:
        l1, l2_squared = _person(unit, steps)
    return Sensitivity(l1=l1, l2_squared=l2_squared, unit=unit)


def of_people_at_home(homes: Sensitivity, unit: UnitOfPrivacy) -> Sensitivity:
    """What a person, or a household, moves in counts of housing units.

    where
        homes   what one housing unit that changes moves
        unit    whose loss is asked for: one who comes or goes changes one housing unit, one who
                moves two
    """
    many = 1 if unit.adds else 2
    return replace(homes, l1=many * homes.l1, l2_squared=many * homes.l2_squared, unit=unit)


def _person(unit: UnitOfPrivacy, steps: Steps) -> tuple[int, int]:
    largest = steps[-1][0]
    if unit.adds:
        return 2 * largest - 1, largest**2 + (largest - 1) ** 2
    # For each step its size, its level and the level one person below; nobody has a level of -1.
    moves = [(1, steps[0][1], -1), *((b[0], b[1], a[1]) for a, b in pairwise(steps))]
    most = max(
        (a**2 + (a - 1) ** 2 + b**2 + (b - 1) ** 2)
        + 2 * a * (b - 1) * (here == before)
        + 2 * (a - 1) * b * (below == there)
        for (a, here, below), (b, there, before) in product(moves, moves)
    )
    return 2 * (2 * largest - 1), most


def _household(unit: UnitOfPrivacy, largest: int | None, *, alone: bool) -> tuple[int, int]:
    if largest is None:
        raise PrivacyError(
            f"sensitivity: found no largest household with unit '{unit}', expected one: "
            f"what one household can change depends on how many people it may have"
        )
    if unit.adds:
        return largest, largest**2
    if alone:
        return largest - 1, (largest - 1) ** 2
    return 2 * largest, 2 * largest**2


@singledispatch
def noise_loss(law: Law, moved: Sensitivity, *, draws: int = 1) -> Loss:
    """The loss of ``draws`` answers with noise of a law, when neighbours move each by ``moved``."""
    raise PrivacyError(
        f"noise: found {law}, a law without a stated loss, expected one that is registered with "
        "headcount.privacy.sensitivity"
    )


@noise_loss.register
def _(law: TwoSidedGeometric, moved: Sensitivity, *, draws: int = 1) -> PureLoss:
    """Epsilon = rate l1, for each draw.

    Ghosh, Roughgarden and Sundararajan (2012), "Universally Utility-Maximizing Privacy
    Mechanisms", definition 2.2.
    """
    return PureLoss(epsilon=law.rate * moved.l1 * draws, unit=moved.unit)


@noise_loss.register
def _(law: DiscreteGaussian, moved: Sensitivity, *, draws: int = 1) -> ZCDPLoss:
    """Rho = l2_squared / (2 sigma2), for each draw.

    Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy",
    theorem 4 and, for vectors, theorem 14.
    """
    return ZCDPLoss(rho=Fraction(moved.l2_squared) / (2 * law.sigma2) * draws, unit=moved.unit)


def law_for(loss: Loss, moved: Sensitivity) -> Law:
    """The law with which one answer costs ``loss``: the inverse of ``noise_loss``.

    rate = epsilon / l1, or sigma2 = l2_squared / (2 rho)
    """
    if loss.unit is not moved.unit:
        raise PrivacyError(
            f"noise: found a loss for '{loss.unit}' and a sensitivity for '{moved.unit}', "
            f"expected one unit of privacy"
        )
    if moved.l1 == 0:
        raise PrivacyError(
            f"noise: found a query of sensitivity 0, expected one that a person can change: "
            f"when {loss.unit.phrase} its answer stays the same. Give it no share, or take the "
            f"unit '{loss.unit.pair[1]}'"
        )
    if isinstance(loss, PureLoss):
        return TwoSidedGeometric(loss.epsilon / moved.l1)
    if isinstance(loss, ZCDPLoss):
        return DiscreteGaussian(Fraction(moved.l2_squared) / (2 * loss.rho))
    raise PrivacyError(f"noise: found {loss}, expected a pure or a zCDP loss")
