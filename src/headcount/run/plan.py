"""``headcount plan``: how far off a release will be, before anything is spent and without the data;
and the least loss at which it is near enough.

Reads the config, the list of units and the levels of attributes. Who is there is not looked at: a
plan that did could tell of it. Where a kind of population has no list of units apart, the places
alone are read from its file (``places_from`` of the population says which): a release shows them
without noise in any case. Of measurements that are published the plan is what they tell.

The least loss is looked for by what is known of errors (``how_far_off``). These are nearly in
proportion to 1 / epsilon, and to 1 / sqrt(rho): if a share p of counts is within k people at one
loss, and p* is wanted,

    epsilon <- epsilon z* / z,   rho <- rho (z* / z)^2,   z = Phi^-1((1 + p) / 2)

until it moves by less than half a per cent; where that leads beyond what is known to be too little
or enough, by halves. What was tried is then tried with fresh noise, and the
loss raised until that keeps the goals too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, inf, log, log10, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any, Self

from headcount.config.load import PublicFacts
from headcount.domain import Domain
from headcount.errors import ConfigError
from headcount.geography.spine import NamedArea
from headcount.mechanisms import Chain, ChainDesign, LinearError, Mechanism
from headcount.population import Population
from headcount.run.how_far_off import HELP, TRIALS, HowFarOff, Off, how_far_off
from headcount.run.intervals import published_start
from headcount.run.public_facts import Facts, of_older_people, people_made_of
from headcount.topdown.accuracy import ExpectedErrors
from headcount.topdown.from_measurements import PublishedStart
from headcount.topdown.place_estimates import groups_of, noise_of

MOST_STEPS, MOST_RAISED = 12, 8
NEAR = 0.005
"""The search ends where the loss moves by less than this part."""
FEWEST_ERRORS, MOST_TRIALS = 4000, 100
"""Errors that a share is found from, where so many trials give them."""
FURTHEST = 10_000
"""The largest loss that is looked at."""
SURE = 1e-9


@dataclass(frozen=True, eq=False)
class Plan:
    """What settings promise, on places and cells.

    where
        far         how far off all counts will be
        areas       and what noisy answers tell of each area that was asked for
        mechanism   what was planned: with goals the method at the least loss that keeps them
    """

    far: HowFarOff
    areas: tuple[LinearError, ...]
    mechanism: Chain

    @property
    def levels(self) -> tuple[Off, ...]:
        """Every level and query."""
        return self.far.rows

    @property
    def counted(self) -> str:
        """What the counts are of."""
        return self.far.counted


@dataclass(frozen=True, eq=False)
class _LinearPlan:
    """How exact published noisy answers are: of each level and query, and of areas."""

    levels: tuple[LinearError, ...]
    areas: tuple[LinearError, ...]
    counted: str


@dataclass(frozen=True)
class Goal:
    """This share of the counts of a query at a level is to be within so many people."""

    level: str
    query: str
    people: float
    share: float = 0.95

    @classmethod
    def of(cls, name: str, text: str) -> Self:
        """From ``LEVEL.QUERY`` and ``PEOPLE`` or ``PEOPLE@SHARE``."""
        level, dot, query = name.strip().rpartition(".")
        number, at, share = str(text).partition("@")
        try:
            made = cls(level, query, float(number), float(share) if at else 0.95)
        except ValueError:
            made = cls("", "", -1.0)
        if not (dot and level and query and made.people >= 0 and 0 < made.share < 1):
            expected = "LEVEL.QUERY=PEOPLE or LEVEL.QUERY=PEOPLE@SHARE, such as tract.total=10@0.95"
            found = repr(f"{name}={text}" if text else name)
            raise ConfigError("plan", place="within", found=found, expected=expected)
        return made

    def __str__(self) -> str:
        return f"{self.level}.{self.query}={self.people:g}@{self.share:g}"


def plan(
    mechanism: Mechanism,
    domain: Domain | Population,
    *,
    areas: Sequence[NamedArea] = (),
    public: Population | PublicFacts | None = None,
    within: Mapping[str, float | str] | None = None,
) -> Plan:
    """How far off a mechanism's counts will be for cells and places that are public.

    where
        domain   of a population, or the population itself, of which nobody is looked at
        areas    unions of units, each with a name: ``("north", "county", ("001", "003"))``
        public   the people of an older census, or files of public facts: methods are tried on them
        within   goals, as ``{"tract.total": 10}`` or ``{"tract.total": "10@0.9"}``: the plan is
                 then that of the least loss at which all of them are kept
    """
    places = domain.domain if isinstance(domain, Population) else domain
    design = Chain.of(mechanism).on(places)
    facts = (
        of_older_people(public, places)
        if isinstance(public, Population)
        else people_made_of(public, places)
        if public is not None
        else None
    )
    goals = [Goal.of(name, str(text)) for name, text in (within or {}).items()]
    return plan_of(design, areas=areas, facts=facts, goals=goals)


def plan_of(
    design: ChainDesign,
    *,
    areas: Sequence[NamedArea] = (),
    facts: Facts | None = None,
    goals: Sequence[Goal] = (),
) -> Plan:
    """The same of a mechanism on its domain."""
    runs = TRIALS
    if goals:
        design, runs = least_loss(design, goals, facts), _runs(design, goals, facts)
    told: tuple[LinearError, ...] = ()
    if areas:
        told = design.last.weighed.of_areas(areas, design.domain.geography)
    return Plan(how_far_off(design, facts, runs=runs), told, design.chain)


def currency_of(chain: Chain) -> str:
    """The unit of a chain's loss: "epsilon", "rho", or "" where it has none to choose."""
    given = (name for name in ("rho", "epsilon") if getattr(chain.last, name, None) is not None)
    return next(given, "")


def with_amount(chain: Chain, amount: Fraction) -> Chain:
    """The same with another loss."""
    last: Any = chain.last
    return Chain(chain.steps, replace(last, **{currency_of(chain): amount}))


def _rounded_up(amount: float) -> Fraction:
    """Three digits, upwards: what was asked for is kept."""
    digits = 2 - int(log10(amount) // 1)
    return Fraction(ceil(round(amount * 10**digits, 6))) / Fraction(10) ** digits


def least_loss(design: ChainDesign, goals: Sequence[Goal], facts: Facts | None) -> ChainDesign:
    """The design at the least loss that keeps all goals; refused where none does."""
    chain, domain = design.chain, design.domain
    if not (currency := currency_of(chain)):
        raise ConfigError(
            "plan", place="within", found=f"{chain.name!r}", expected="a method with epsilon or rho"
        )
    power = 2 if currency == "rho" else 1
    runs = _runs(design, goals, facts)

    def factor(amount: float, seed: int) -> float:
        at = with_amount(chain, _rounded_up(amount)).on(domain)
        far = how_far_off(at, facts, runs=runs, seed=seed)
        return max(_times(far, one) for one in goals) ** power

    given = getattr(chain.last, currency)
    amount, short, enough = float(given) if given != "inf" else 1.0, 0.0, inf
    for _ in range(MOST_STEPS):
        wanted = factor(amount, 0)
        short, enough = (amount, enough) if wanted > 1 else (short, amount)
        if abs(log(wanted)) < NEAR:
            break
        amount *= min(max(wanted, 1 / 3), 3.0)
        if not short < amount < enough:  # small noise falls off faster than a normal law
            amount = sqrt(short * enough)
        amount = min(max(amount, 1 / FURTHEST), FURTHEST)
    for seed in range(1, MOST_RAISED):
        if (wanted := factor(amount, 100 * seed if facts else 0)) <= 1:
            return with_amount(chain, _rounded_up(amount)).on(domain)
        amount = min(amount * max(wanted, 1 + NEAR), FURTHEST)
    last = how_far_off(with_amount(chain, _rounded_up(amount)).on(domain), facts, runs=runs)
    reached = [
        f"{one.level}.{one.query}={last[one.level, one.query].within:g}@0.95" for one in goals
    ]
    raise ConfigError(
        "plan",
        place="within",
        found=", ".join(map(str, goals)),
        expected=f"goals that can be reached: {currency} {amount:.3g} gives {', '.join(reached)}",
    )


def _times(far: HowFarOff, goal: Goal) -> float:
    """By what the loss must grow (as epsilon) for a goal."""
    one = far[goal.level, goal.query]
    if one.share is None:
        raise ConfigError(
            "plan",
            place="within",
            found=f"{goal}, of which it cannot be said how far off counts will be",
            expected=f"other goals; or {HELP}",
        )
    normal = NormalDist()
    found = min(max(one.share(goal.people), SURE), 1 - SURE)
    return normal.inv_cdf((1 + goal.share) / 2) / normal.inv_cdf((1 + found) / 2)


def _runs(design: ChainDesign, goals: Sequence[Goal], facts: Facts | None) -> int:
    """Trials that give enough errors of every goal."""
    if facts is None:
        return TRIALS
    geography, schema = facts.people[0].geography, design.domain.schema
    queries = {one.name: one for one in design.last.asked}
    errors = [
        geography.size(one.level) * queries[one.query].size(schema)
        for one in goals
        if one.query in queries and one.level in geography.levels
    ]
    return min(max(TRIALS, -(-FEWEST_ERRORS // min(errors, default=FEWEST_ERRORS))), MOST_TRIALS)


def plan_of_measurements(
    source: PublishedStart | Path | str, *, areas: Sequence[NamedArea] = ()
) -> _LinearPlan:
    """How exact published measurements are, and what is made from them: no truth is needed.

    where
        source   a run, the folder of a release or of measurements, the config of an estimate, or
                 what ``start_from`` read
    """
    start = source if isinstance(source, PublishedStart) else published_start(Path(source))[0]
    errors = ExpectedErrors.from_noise(
        start.mechanism,
        start.measurements.schema,
        start.measurements.tree,
        noise_of(start),
        groups_of(start),
    )
    named = errors.of_areas(areas, start.measurements.geography)
    return _LinearPlan(errors.by_level(), named, str(start.mechanism.unit.counted))
