"""What a receipt says of single attributes and places, as the certificates of 2020 did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headcount.geography import Geography
from headcount.mechanisms import Measured, losses_of, total_loss
from headcount.privacy import Loss, UnitOfPrivacy, ZCDPLoss, zcdp_to_approximate
from headcount.privacy.certificate import MeasuredLoss, attribute_losses, leaf_losses
from headcount.schema import Recode, Schema
from headcount.tabulate import Query
from headcount.topdown.settings import TopDownSettings

DELTA = "1e-10"
"""At which the Census Bureau stated its epsilons."""
ON_SPINE = (
    "units of the spine, not published places: a move costs the line of the smallest unit of the "
    "spine that holds both ends, which can be larger than the published place that holds both"
)


def certificate_of(
    settings: TopDownSettings,
    plan: Sequence[Measured],
    schema: Schema,
    geography: Geography,
    *,
    unit: UnitOfPrivacy,
) -> dict[str, Any]:
    """The whole loss, that of each attribute, and that of a leaf within a unit of each level.

    Where the number of records of every leaf is exact no neighbour moves one to another leaf, and
    nothing is said of leaves within larger units.

    where
        plan        what is measured
        geography   the tree that is measured
    """
    measured = [
        MeasuredLoss(level=one.level, query=one.query, loss=loss, paths=one.paths)
        for one, loss in zip(plan, losses_of(plan, unit), strict=True)
        if loss is not None
    ]
    shows = dict.fromkeys((one.query for one in plan), schema.names)  # cells, and the report
    shows |= {query.name: _shown(query, schema) for query in settings.marginals}
    whole = total_loss(plan, unit)
    assert whole is not None  # settings that measure nothing have no certificate
    said: dict[str, Any] = {
        "unit": str(unit),
        "whole": _stated(whole),
        "of a change of one attribute": {
            name: _stated(loss) for name, loss in attribute_losses(measured, shows=shows).items()
        },
    }
    if any(one.level == geography.leaf for one in settings.invariant):
        return said
    said[f"of a {geography.leaf} within"] = {
        level: _stated(loss)
        for level, loss in leaf_losses(measured, levels=geography.levels).items()
    }
    if settings.spine:
        said["places are"] = ON_SPINE
    return said


def _shown(query: Query, schema: Schema) -> tuple[str, ...]:
    """The attributes of the schema that a query goes by."""
    axes = query.on(schema).by
    return tuple(axis.source.name if isinstance(axis, Recode) else str(axis) for axis in axes)


def _stated(loss: Loss) -> dict[str, Any]:
    """A loss as text of an exact fraction; a rho also as an epsilon, with how that was found."""
    said: dict[str, Any] = {str(loss.currency): str(loss.amount)}
    if isinstance(loss, ZCDPLoss):
        found = zcdp_to_approximate(loss, delta=DELTA)
        said |= {f"epsilon at delta {DELTA}": float(found.value.amount), "by": found.method}
    return said
