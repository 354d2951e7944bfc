"""The chains: a swap at each rate, then one of fourteen ways to publish tables; and TopDown.

One swap of the records serves all ways to publish, as it does in an office: the differences between
them are then not those of two swaps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from headcount.comparison.cases import Case, seeded_noise
from headcount.mechanisms import Context, Identity, PostTabular
from headcount.mechanisms.cell_key.mechanism import CellKey
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.mechanisms.targeted_swapping import TargetedSwapping
from headcount.noise import Noise
from headcount.population import Population
from headcount.tabulate import Tabulated
from headcount.topdown.mechanism import TopDown
from headcount_papers.swapping_and_cell_keys.settings import (
    BASES,
    LADDER,
    OTHER_KEYS,
    RATES,
    Keys,
    Settings,
)

NONE, KEYS, ROUNDING, TOPDOWN = "none", "cell-key", "rounding", "topdown"
AS_COUNTED = "counts as they are"


@dataclass(frozen=True, kw_only=True)
class TableStep:
    """One way to publish tables.

    where
        kind       "none", "cell-key" or "rounding"
        strength   V of cell keys, the base of rounding; 0 for none
        ladder     whether it is one of the steps of the risk surface
    """

    name: str
    kind: str
    strength: float
    ladder: bool
    method: PostTabular


def ways(tables: Any) -> tuple[TableStep, ...]:
    """None, ten settings of cell keys and three bases of rounding.

    The attacker knows D and the perturbation table: he is told.
    """

    def keyed(keys: Keys) -> TableStep:
        method = CellKey(
            tables=tables,
            maximum=keys.largest,
            variance=keys.variance,
            blocked=keys.blocked,
            disclose=True,
        )
        strength = float(keys.variance)
        ladder = keys in LADDER
        return TableStep(name=keys.name, kind=KEYS, strength=strength, ladder=ladder, method=method)

    none = TableStep(name=AS_COUNTED, kind=NONE, strength=0.0, ladder=True, method=Identity())
    rounded = (
        TableStep(
            name=f"rounded to {base}",
            kind=ROUNDING,
            strength=float(base),
            ladder=False,
            method=Rounding(tables=tables, base=base),
        )
        for base in BASES
    )
    return (none, *map(keyed, (*LADDER, *OTHER_KEYS)), *rounded)


def swap_step(settings: Settings, rate: Fraction) -> TargetedSwapping:
    """Swap the rate of households, those first who stand out; nobody besides must be swapped."""
    return TargetedSwapping(
        rate=rate, risk_variables=settings.stands_out, k=0, within=settings.swapped_within
    )


def swapped(population: Population, step: TargetedSwapping, noise: Noise, *, run: int) -> Tabulated:
    """The people after one swap, counted: the first step of the chain of this step and any way."""
    return Tabulated.of(step.apply(population, noise, run=run, context=Context()))


def chains(settings: Settings) -> list[Case]:
    """Every chain, once for each replicate, the rate outermost: a swap is used and forgotten."""
    return [
        Case(
            name=f"{float(rate):.0%} {way.name} {run}",
            mechanism=way.method,
            runs=range(run, run + 1),
            columns={
                "rate": float(rate),
                "method": way.name,
                "kind": way.kind,
                "strength": way.strength,
            },
        )
        for rate in RATES
        for run in range(settings.replicates)
        for way in ways(settings.tables)
    ]


def topdown(settings: Settings) -> list[Case]:
    """TopDown at each epsilon, of the people as they are."""
    return [
        Case(
            name=f"topdown {epsilon}",
            mechanism=TopDown(epsilon=epsilon),
            runs=range(settings.replicates),
            columns={
                "rate": 0.0,
                "method": f"TopDown, epsilon {float(epsilon):g}",
                "kind": TOPDOWN,
                "strength": float(epsilon),
            },
        )
        for epsilon in settings.epsilons
    ]


@dataclass(frozen=True, eq=False, repr=False)
class PeopleOf:
    """The people whom a chain publishes tables of: after the swap of its rate and replicate.

    ``made`` has the last two swaps: chains of one swap follow each other.
    """

    settings: Settings
    data: Tabulated
    made: dict[tuple[float, int], Tabulated] = field(default_factory=dict)

    def __call__(self, case: Case) -> Tabulated:
        """The swapped people of a case."""
        key = case.columns["rate"], case.runs[0]
        if (found := self.made.get(key)) is None:
            found = self._after(*key)
            for old in list(self.made)[:-1]:
                self.made.pop(old, None)
            self.made[key] = found
        return found

    def _after(self, rate: float, run: int) -> Tabulated:
        exact = next(one for one in RATES if float(one) == rate)
        if not exact:
            return self.data
        step = swap_step(self.settings, exact)
        noise = seeded_noise(step, seed=self.settings.seed, digest=self.data.digest)
        return swapped(self.data.population, step, noise, run=run)
