"""The paper's direct estimate: one person moves, and both databases are really run, many times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.comparison.cases import Released, run_cases
from headcount.comparison.study import Work
from headcount.errors import InputError
from headcount.evaluation.epsilon_bounds import AuditBound, DirectEstimate, audit, direct
from headcount.population import Population
from headcount.privacy import PureLoss, UnitOfPrivacy
from headcount_papers.flaxman_2019.cases import case, counted
from headcount_papers.flaxman_2019.settings import EXACT, MechanismName, Settings

DIRECT_COLUMNS = (
    "mechanism",
    "epsilon",
    "event",
    "k",
    "log_ratio",
    "audit_epsilon_lower",
    "confidence",
)

Seen = NDArray[np.float64]
"""Released counts of the two areas and of the units they lie in: runs x levels x 2, leaf last."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DirectRuns:
    """What every mechanism released about the two areas, on D and on D'.

    where
        epsilon             the mechanisms' loss when one person is added or removed
        exact               true counts in D, levels below the whole x 2
        d, d_prime          what was released, by mechanism; raked publishes every level, the
                            others the leaf alone
        null                a mechanism run on D a second time in place of D', which cannot show
                            any loss: raked, as the paper's code did, or the first of those chosen
        null_of             which mechanism that is
    """

    epsilon: Fraction
    exact: NDArray[np.int64]
    d: Mapping[MechanismName, Seen]
    d_prime: Mapping[MechanismName, Seen]
    null: Seen
    null_of: MechanismName


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


def direct_runs(settings: Settings, work: Work, *, runs: int, epsilon: Fraction) -> DirectRuns:
    """Run every mechanism ``runs`` times on D and as often on D', and raked on D once more."""
    d, pair = settings.counted_people(), settings.pair
    d_prime = move_one(d, source=pair[0], target=pair[1])
    people = {"D": counted(d), "D'": counted(d_prime)}
    ancestors, below_whole = d.geography.ancestors, d.geography.levels[1:]
    where = {level: ancestors(level)[list(pair)] for level in below_whole}

    def seen(made: Iterator[Released]) -> Seen:
        tables = (one.release.as_counts().tables for one in made)
        shown = [[t[level][at, 0] for level, at in where.items() if level in t] for t in tables]
        return np.array(shown, dtype=np.float64)

    # The second half of the null test is numbered on: other noise, same database.
    first, second = range(runs), range(runs, 2 * runs)
    null_of: MechanismName = "raked" if "raked" in settings.chosen else settings.chosen[0]
    wanted = [(name, which, first) for name in settings.chosen for which in people]
    cases = [
        replace(
            case(settings, name, epsilon, variant=EXACT, runs=numbers), columns={"people": which}
        )
        for name, which, numbers in [*wanted, (null_of, "D", second)]
    ]
    *made, null = run_cases(
        cases,
        seen,
        data=lambda one: people[one.columns["people"]],
        seed=settings.seed,
        work=work,
        what=f"Two databases, epsilon {float(epsilon):g}",
    )
    truth = people["D"].counts
    return DirectRuns(
        epsilon=epsilon,
        exact=np.stack([truth.at(level).totals()[at] for level, at in where.items()]),
        d=dict(zip(settings.chosen, made[::2], strict=True)),
        d_prime=dict(zip(settings.chosen, made[1::2], strict=True)),
        null=null,
        null_of=null_of,
    )


def direct_table(made: DirectRuns, settings: Settings) -> pl.DataFrame:
    """The log ratios of every event at the first area, with what they rest on.

    ``control`` marks the null test. ``audit_epsilon_lower`` is the bound that the same runs give
    on the mechanism's whole loss, from both areas; it is the same for all its events.
    """
    ratios = []
    for name, d, d_prime, control in _pairs(made):
        bound = _audit(d[:, -1], d_prime[:, -1], settings)
        for estimate in direct(
            d[:, -1, 0],
            d_prime[:, -1, 0],
            exact_d=float(made.exact[-1, 0]),
            max_k=settings.max_k,
            max_k_tail=settings.max_k_tail,
        ):
            ratios.append(_ratios(name, control, made.epsilon, estimate, bound))
    return pl.concat(ratios)


def audit_table(made: DirectRuns, settings: Settings) -> pl.DataFrame:
    """Lower bounds on the loss when one person moves.

    From the counts of the two areas for every mechanism; for raked, which publishes more, also
    from the counts at every level, summed up as votes.
    """
    rows = []
    for name, d, d_prime, control in _pairs(made):
        looks = {"both areas": (d[:, -1], d_prime[:, -1])}
        if d.shape[1] > 1:
            looks["both areas, every level"] = (votes(d, made.exact), votes(d_prime, made.exact))
        for look, samples in looks.items():
            bound = _audit(*samples, settings)
            rows.append(_audit_row(name, control, look, made.epsilon, bound, settings))
    return pl.DataFrame(rows)


def votes(released: Seen, exact: NDArray[np.int64]) -> NDArray[np.float64]:
    """How many of the counts look more like D than like D'.

    Nobody has left the first area in D, and nobody has come to the second. A count votes for D
    when it is on D's side of the middle between its true values in D and in D'. Units that hold
    both areas have the same count in both databases; their votes are noise and cost only power.
    """
    errors = released - exact
    for_d = np.concatenate((errors[:, :, 0] >= -0.5, errors[:, :, 1] < 0.5), axis=1)
    return np.asarray(for_d.sum(axis=1), dtype=np.float64)


def _pairs(made: DirectRuns) -> list[tuple[MechanismName, Seen, Seen, bool]]:
    pairs = [(name, made.d[name], made.d_prime[name], False) for name in made.d]
    return [*pairs, (made.null_of, made.d[made.null_of], made.null, True)]


def _audit(d: Any, d_prime: Any, settings: Settings) -> AuditBound:
    return audit(d, d_prime, confidence=settings.confidence, seed=settings.seed)


def promised(
    name: MechanismName, epsilon: Fraction, unit: UnitOfPrivacy, settings: Settings
) -> float:
    """The loss that the mechanism's own guarantee states for a unit of privacy."""
    domain = settings.counted_people().domain
    guarantee = settings.mechanism(name, epsilon).on(domain).guarantee
    loss = guarantee.loss_for(unit)
    assert isinstance(loss, PureLoss)
    return float(loss.epsilon)


def _ratios(
    name: MechanismName,
    control: bool,
    epsilon: Fraction,
    estimate: DirectEstimate,
    bound: AuditBound,
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
        "epsilon": float(epsilon),
        "event": estimate.event,
        "audit_epsilon_lower": bound.epsilon_lower,
        "confidence": bound.confidence,
        "runs": estimate.runs_d,
    }
    fixed = [pl.lit(value).alias(key) for key, value in about.items()]
    return frame.with_columns(fixed)


def _audit_row(
    name: MechanismName,
    control: bool,
    look: str,
    epsilon: Fraction,
    bound: AuditBound,
    settings: Settings,
) -> dict[str, Any]:
    unit = UnitOfPrivacy.CHANGE_ONE
    return {
        "mechanism": name,
        "control": control,
        "looks_at": look,
        "epsilon": float(epsilon),
        "unit": str(unit),
        "promised_loss": promised(name, epsilon, unit, settings),
        "audit_epsilon_lower": bound.epsilon_lower,
        "confidence": bound.confidence,
        "runs_each": bound.runs_d,
        "runs_to_choose": bound.choosing,
        "guesses": bound.guesses,
        "correct": bound.correct,
    }
