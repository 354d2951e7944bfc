"""How often a linkage attack is right: matches scored against the truth.

A match is *confirmed* if the released row is of the same individual and its Hispanic origin, the
secret, is that of the individual in truth. "The same individual" can be read in three ways, which
differ once people were swapped:

    slot     the released row stands in the person's own place, whoever's record it now holds
    person   the released row holds the person's own record, wherever it now stands
    value    any row: what counts is that the secret is learnt

At a swap rate of 1 nobody is confirmed by *person*, by construction. Only *slot* can give the
rates above zero that Christ, Radway & Bellovin (2022, figure 11) publish there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from headcount.arrays import Flags, Ints
from headcount.attacks.linkage import Links
from headcount.errors import InputError

IdentityRule = Literal["slot", "person", "value"]
IDENTITY_RULES: tuple[IdentityRule, ...] = get_args(IdentityRule)


@dataclass(frozen=True, kw_only=True)
class LinkageRisk:
    """Matches of some group of people, and how many of them are right.

    where
        people      everyone of the group in the public table
        matched     those who fit exactly one released row
        confirmed   those of them for whom the attacker is right
    """

    identity_rule: IdentityRule
    group: str
    people: int
    matched: int
    confirmed: int

    @property
    def percent(self) -> float:
        """Confirmed matches in percent of the group; not a number for a group of nobody."""
        return 100 * self.confirmed / self.people if self.people else float("nan")

    @property
    def precision(self) -> float:
        """Confirmed matches as a share of all matches; not a number without matches."""
        return self.confirmed / self.matched if self.matched else float("nan")


def confirmed(
    links: Links,
    *,
    rule: IdentityRule,
    secret: ArrayLike,
    released_secret: ArrayLike,
    origin: ArrayLike | None = None,
    slot: ArrayLike | None = None,
) -> Flags:
    """For each public row, whether its match is right.

    where
        secret            the true Hispanic origin of each public row
        released_secret   Hispanic origin of each released row
        origin            for each released row, whose record it holds: the position where that
                          record stood before the swap, -1 for a record from outside the table;
                          None if nothing was swapped
        slot              for each public row its own place in the released table; None if the
                          public rows stand in the order of the released ones
    """
    truth, seen = np.asarray(secret), np.asarray(released_secret)
    own = np.arange(len(truth)) if slot is None else np.asarray(slot)
    of_row = np.arange(len(seen)) if origin is None else np.asarray(origin)
    for name, array, length in (
        ("secret", truth, len(links.row)),
        ("slot", own, len(links.row)),
        ("origin", of_row, len(seen)),
    ):
        if len(array) != length:
            raise InputError(
                "linkage risk", place=name, found=f"{len(array)} rows", expected=f"{length}"
            )
    if rule not in IDENTITY_RULES:
        raise InputError(
            "linkage risk", place="rule", found=repr(rule), expected=" or ".join(IDENTITY_RULES)
        )
    right = np.zeros(len(links.row), dtype=bool)
    claimed = np.flatnonzero(links.row >= 0)
    found = links.row[claimed]
    same = np.ones(len(claimed), dtype=bool)
    if rule == "slot":
        same = found == own[claimed]
    elif rule == "person":
        same = of_row[found] == own[claimed]
    right[claimed] = same & (seen[found] == truth[claimed])
    return right


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TrueSecrets:
    """What is true of linked people: see ``confirmed``; origin and slot as far as is known."""

    secret: ArrayLike
    released: ArrayLike
    origin: Ints | None
    slot: Ints | None

    @property
    def rules(self) -> tuple[IdentityRule, ...]:
        """The readings of "the same individual" that can be told."""
        known = {"value": True, "person": self.origin is not None, "slot": self.slot is not None}
        return tuple(rule for rule in get_args(IdentityRule)[::-1] if known[rule])


def linked_frame(row: Ints, truth: TrueSecrets) -> pl.DataFrame:
    """Links scored by each rule that can be told: the released row of each person, or -1."""
    made = []
    for rule in truth.rules:
        right = confirmed(
            Links(row),
            rule=rule,
            secret=truth.secret,
            released_secret=truth.released,
            origin=truth.origin,
            slot=truth.slot if rule == "slot" else None,
        )
        risk = LinkageRisk(
            identity_rule=rule,
            group="everyone",
            people=len(row),
            matched=int((row >= 0).sum()),
            confirmed=int(right.sum()),
        )
        made.append(
            {
                "identity_rule": rule,
                "people": risk.people,
                "matched": risk.matched,
                "confirmed": risk.confirmed,
                "percent": risk.percent,
                "precision": risk.precision,
            }
        )
    return pl.DataFrame(made)


def linkage_risk(
    links: Links,
    *,
    rule: IdentityRule,
    secret: ArrayLike,
    released_secret: ArrayLike,
    minority: ArrayLike,
    origin: ArrayLike | None = None,
    slot: ArrayLike | None = None,
) -> tuple[LinkageRisk, LinkageRisk]:
    """The risk of everyone, and of those who are in a minority (a flag for each public row)."""
    right = confirmed(
        links,
        rule=rule,
        secret=secret,
        released_secret=released_secret,
        origin=origin,
        slot=slot,
    )
    few = np.asarray(minority, dtype=bool)
    if few.shape != right.shape:
        raise InputError(
            "linkage risk",
            place="minority",
            found=f"shape {few.shape}",
            expected=f"{right.shape}",
        )
    everyone = np.ones(len(right), dtype=bool)
    risks = []
    for group, of in (("everyone", everyone), ("minorities", few)):
        risks.append(
            LinkageRisk(
                identity_rule=rule,
                group=group,
                people=int(of.sum()),
                matched=int((links.row[of] >= 0).sum()),
                confirmed=int(right[of].sum()),
            )
        )
    return risks[0], risks[1]
