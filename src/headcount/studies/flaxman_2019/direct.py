"""The paper's direct estimate: one person moves, and both databases are really run, many times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.errors import InputError
from headcount.evaluate import AuditBound, DirectEstimate, audit, direct
from headcount.population import Population
from headcount.population.uniform import uniform
from headcount.privacy import PureLoss, UnitOfPrivacy
from headcount.progress import Progress, silent
from headcount.studies.flaxman_2019.runs import counted, outcomes
from headcount.studies.flaxman_2019.settings import EXACT, MECHANISMS, MechanismName, Settings

DIRECT_COLUMNS = (
    "mechanism",
    "epsilon",
    "event",
    "k",
    "log_ratio",
    "audit_epsilon_lower",
    "confidence",
)

Released = NDArray[np.float64]
"""Released counts of the two areas: runs x 2."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DirectRuns:
    """What every mechanism released for the two areas, on D and on D'.

    where
        exact               true counts of the two areas in D
        d, d_prime          released counts, mechanism -> runs x 2
        null                raked run on D a second time in place of D': what the paper's code
                            did, which cannot show any loss
    """

    exact: tuple[int, int]
    d: Mapping[MechanismName, Released]
    d_prime: Mapping[MechanismName, Released]
    null: Released


def move_one(population: Population, *, source: int, target: int) -> Population:
    """The neighbouring database: one person of area ``source`` lives in ``target`` instead."""
    if population.count is None or population.schema.size != 1:
        raise InputError(
            population.name, found="rows or cells of persons", expected="one count for each area"
        )
    count = population.count.copy()
    if count[source] < 1:
        raise InputError(
            population.name, place=f"area {source}", found="nobody", expected="a person to move"
        )
    count[source] -= 1
    count[target] += 1
    return replace(population, name=f"{population.name}, one person moved", count=count)


def direct_runs(
    *,
    seed: int,
    runs: int = 500,
    settings: Settings | None = None,
    progress: Progress = silent,
) -> DirectRuns:
    """Run every mechanism ``runs`` times on D and as often on D', and raked on D once more."""
    settings = settings or Settings()
    people, depth, mean = settings.people, settings.depth, settings.mean
    d = uniform(people=people, depth=depth, mean=mean, seed=seed)
    d_prime = move_one(d, source=settings.moved[0], target=settings.moved[1])

    def run(population: Population, name: MechanismName, numbers: range) -> Released:
        counts, digest = counted(population)
        made = outcomes(
            counts, digest, name, settings.direct_epsilon,
            settings=settings, variant=EXACT, seed=seed, runs=numbers,
        )  # fmt: skip
        two = [outcome.tables[counts.level][:, settings.moved, 0] for outcome in made]
        return np.concatenate(two).astype(np.float64)

    work = [(name, population) for name in MECHANISMS for population in (d, d_prime)]
    released = [
        run(population, name, range(runs))
        for name, population in progress(work, what="Direct estimate", total=len(work))
    ]
    exact = counted(d)[0].totals()[list(settings.moved)]
    return DirectRuns(
        exact=(int(exact[0]), int(exact[1])),
        d=dict(zip(MECHANISMS, released[::2], strict=True)),
        d_prime=dict(zip(MECHANISMS, released[1::2], strict=True)),
        # Numbered on from the first runs: other noise, same database.
        null=run(d, "raked", range(runs, 2 * runs)),
    )


def direct_tables(
    made: DirectRuns, *, seed: int, settings: Settings
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The log ratios of every event with what they rest on, and the audits.

    The ratios and the first audit rest on the first ``direct_runs`` runs, the longer audit on
    all. The first table's ``control`` column marks the null test.
    """
    short = settings.direct_runs
    pairs = [(name, made.d[name], made.d_prime[name], False) for name in MECHANISMS]
    pairs.append(("raked", made.d["raked"], made.null, True))
    ratios, audits = [], []
    for name, d, d_prime, control in pairs:
        bounds = [
            audit(d[:runs], d_prime[:runs], confidence=settings.confidence, seed=seed)
            for runs in dict.fromkeys((short, len(d)))
        ]
        audits += [_audit_row(name, control, bound, settings) for bound in bounds]
        for estimate in direct(
            d[:short, 0],
            d_prime[:short, 0],
            exact_d=made.exact[0],
            max_k=settings.max_k,
            max_k_tail=settings.max_k_tail,
        ):
            ratios.append(_ratios(name, control, estimate, bounds[0], settings))
    return pl.concat(ratios), pl.DataFrame(audits)


def promised(
    name: MechanismName, epsilon: Fraction, unit: UnitOfPrivacy, settings: Settings
) -> float:
    """The loss that the mechanism's own guarantee states for a unit of privacy."""
    domain = uniform(people=settings.people, depth=settings.depth, mean=settings.mean)
    guarantee = settings.mechanism(name, epsilon).guarantee(domain.schema, domain.geography)
    loss = guarantee.loss_for(unit)
    assert isinstance(loss, PureLoss)
    return float(loss.epsilon)


def _ratios(
    name: MechanismName,
    control: bool,
    estimate: DirectEstimate,
    bound: AuditBound,
    settings: Settings,
) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "k": estimate.k.astype(np.int64),
            "log_ratio": estimate.log_ratio,
            "standard_error": estimate.standard_error,
            "chance_d": estimate.chance_d,
            "chance_d_prime": estimate.chance_d_prime,
        }
    ).fill_nan(None)
    about = {
        "mechanism": name,
        "control": control,
        "epsilon": float(settings.direct_epsilon),
        "event": estimate.event,
        "audit_epsilon_lower": bound.epsilon_lower,
        "confidence": bound.confidence,
        "runs": estimate.runs_d,
    }
    fixed = [pl.lit(value).alias(key) for key, value in about.items()]
    return frame.with_columns(fixed)


def _audit_row(
    name: MechanismName, control: bool, bound: AuditBound, settings: Settings
) -> dict[str, Any]:
    unit = UnitOfPrivacy.CHANGE_ONE
    return {
        "mechanism": name,
        "control": control,
        "epsilon": float(settings.direct_epsilon),
        "unit": str(unit),
        "promised_loss": promised(name, settings.direct_epsilon, unit, settings),
        "audit_epsilon_lower": bound.epsilon_lower,
        "confidence": bound.confidence,
        "runs_each": bound.runs_d,
        "runs_to_choose": bound.choosing,
        "guesses": bound.guesses,
        "correct": bound.correct,
    }
