"""The receipt of a run: all of it but the outcome is known, and checked, before any loss."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from headcount.mechanisms import ChainDesign, PlannedMeasurement, losses_of, total_loss
from headcount.noise import SAMPLER_VERSION, KeyedNoise
from headcount.noise.keyed import served_by
from headcount.privacy import DEFAULT_UNIT, Guarantee, Ledger, UnitOfPrivacy
from headcount.release import Release
from headcount.release.directory import RunFacts
from headcount.release.store import geographies_to_json, guarantee_to_json, versions
from headcount.run.how_far_off import HowFarOff


def draft_receipt(
    design: ChainDesign,
    guarantee: Guarantee,
    *,
    key_kind: str,
    dataset: str,
    config_digest: str,
    far: HowFarOff,
    plugins: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything about the making that may be published and does not depend on a draw."""
    mechanism, plan, more = design.chain, design.plan, dict(design.receipt)
    losses, drawn = guarantee.losses, mechanism.draws_noise
    unit = losses[0].unit if losses else DEFAULT_UNIT
    recorded = "no ledger was named: the losses of this dataset's releases are not added up"
    return {
        "made_by": "headcount",
        "mechanism": mechanism.public_text,
        **({} if mechanism.single else {"steps": _steps(design)}),
        **({"settings": more["settings"]} if "settings" in more else {}),
        "guarantee": guarantee_to_json(guarantee),
        "geography": geographies_to_json(design.domain.geography, design.last.tree),
        "measurements": _measurements(plan, unit),
        **({"certificate": more["certificate"]} if "certificate" in more else {}),
        "how_far_off": far.to_json(),
        "key_kind": key_kind if drawn else "none",
        "noise_backend": KeyedNoise.backend if drawn else "none",
        "sampler_version": SAMPLER_VERSION,
        "noise_served_by": _served(plan),
        "ledger": f"dataset {dataset!r}" if dataset else recorded,
        # Whoever guesses settings could test the guess against a digest without a key.
        "config_digest": None if mechanism.keeps_settings_secret else config_digest,
        **({"plugins": list(plugins)} if plugins else {}),
        "versions": versions(),
    }


def _steps(design: ChainDesign) -> list[dict[str, Any]]:
    """The chain step by step: for each that changes records what it makes of one step."""
    mechanism = design.chain
    before = [
        {
            "step": step.public_text,
            "changes": "records",
            "stability": {str(unit): k for unit, k in one.stability.items()}
            or f"none: {one.no_bound}",
        }
        for step, one in zip(mechanism.steps, design.steps, strict=True)
    ]
    if mechanism.parts == mechanism.steps:
        return before
    return [*before, {"step": mechanism.last.public_text, "changes": "tables"}]


def check_receipt(draft: dict[str, Any]) -> None:
    """Make sure that the receipt can be written; what cannot raises here, before any loss."""
    json.dumps(draft, ensure_ascii=False, allow_nan=False).encode()


def finished_receipt(
    draft: dict[str, Any], facts: RunFacts, release: Release, ledger: Ledger | None
) -> dict[str, Any]:
    """The receipt with what the run itself adds.

    The digest of the data is bound to the run: two receipts do not tell whether data changed.
    """
    digest = None
    if ledger is not None:
        digest = ledger.public_digest(facts.data_digest, run_id=facts.run_id)
    return {
        **draft,
        "run_id": facts.run_id,
        "data_digest": digest,
        "notes": dict(release.notes),
        "negative_counts": release.negative_counts(),
    }


def _served(plan: Sequence[PlannedMeasurement]) -> dict[str, str]:
    return {f"{one.level}/{one.query}": served_by(one.law) for one in plan}


def _measurements(plan: Sequence[PlannedMeasurement], unit: UnitOfPrivacy) -> list[dict[str, Any]]:
    """The allocation and what it costs, in exact fractions as text; shares under ``unit``."""
    whole, parts = total_loss(plan, unit), losses_of(plan, unit)
    told = []
    for one, part in zip(plan, parts, strict=True):
        # After a step without a bound no unit has a loss about the people.
        costs = {which: one.loss(which) for which in one.units}
        currency = next((loss.currency for loss in costs.values() if loss), "")
        told.append(
            {
                "level": one.level,
                "query": one.query,
                "share": str(part.amount / whole.amount) if part and whole else "0",
                "counts": 1 if one.distance else one.entries,
                "draws": one.draws,
                "noise": one.law.name,
                **one.law.stated,
                "variance": one.law.variance,
                **{
                    f"{currency} {which}": str(loss.amount) if loss else "0"
                    for which, loss in costs.items()
                },
            }
        )
    return told
