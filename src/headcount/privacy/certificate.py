"""What of a loss concerns one attribute, or a place within a larger one.

A change of one attribute alone moves only the queries that show it, at all levels; a move from one
leaf to another within a unit moves all queries, at the levels below that unit:

    loss(attribute) = total x sum of shares(level, query) over queries that show the attribute
    loss(leaf within level) = total x sum of shares(level, query) over levels below it

They are smaller than the whole loss, and state what an attacker can learn who knows all else of a
person. The certificates of the 2020 census list them as epsilons.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

from headcount.privacy.allocation import Allocation
from headcount.privacy.loss import PureLoss, ZCDPLoss, scaled


def attribute_losses(
    allocation: Allocation, total: PureLoss | ZCDPLoss, *, shows: Mapping[str, Collection[str]]
) -> dict[str, PureLoss | ZCDPLoss]:
    """The loss of each attribute; ``shows`` has the attributes of each query, recoded ones too."""
    attributes = dict.fromkeys(one for some in shows.values() for one in some)
    return {
        attribute: scaled(
            total,
            sum(
                (one.share for one in allocation.shares if attribute in shows[one.query]),
                Fraction(0),
            ),
        )
        for attribute in attributes
    }


def leaf_losses(
    allocation: Allocation, total: PureLoss | ZCDPLoss, *, levels: Sequence[str]
) -> dict[str, PureLoss | ZCDPLoss]:
    """The loss of a leaf within a unit of each level above it, from the whole down."""
    return {
        level: scaled(
            total,
            sum((allocation.level_share(below) for below in levels[depth:]), Fraction(0)),
        )
        for depth, level in enumerate(levels[:-1], start=1)
    }
