"""The methods compared: nothing, suppression, swapping with every dial, and TopDown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import polars as pl

from headcount.comparison.cases import Case
from headcount.domain import Domain
from headcount.fields import Pairs
from headcount.geography import Geography
from headcount.mechanisms import Identity, Mechanism
from headcount.mechanisms.suppression.mechanism import Suppression, SuppressionRule
from headcount.mechanisms.suppression.rules import TABLES
from headcount.mechanisms.swapping.keys import ADULTS, SIZE, PseudoUnits, SizeNoise
from headcount.mechanisms.swapping.mechanism import HouseholdSwapping
from headcount.mechanisms.swapping.risk import Risk
from headcount.schema import Schema
from headcount.tabulate.published import supported, tables
from headcount.topdown.choices import Grouped, Invariant, Marginal
from headcount.topdown.mechanism import TopDown
from headcount_papers.hawes_rodriguez_2021.settings import (
    DELTA,
    QUERY_SHARES,
    RATES,
    SIZE_NOISE,
    STATE,
    STATE_SHARES,
    TRACT_NOISE,
    Settings,
    rho_for,
)

NONE, SUPPRESSION, COMPLEMENTARY = "none", "suppression 1980", "suppression complementary"
SUPPRESSING = "suppression"
LO, HI = "swapping LO", "swapping HI"
LIKE_2010 = "swapping like 2010"
RATE_LIKE_2010 = Fraction(1, 25)
"""Fitted: then 96.3 % of the records of the swapped file are those of real people of the block, as
in the file of 2010. Its own rate is secret."""
MIDDLING = "swapping 25 %"
SWAPPING, TOPDOWN = "swapping", "topdown"
PURE, ZCDP = "pure", "zCDP"
COMPLEMENT: SuppressionRule = "complementary"
EFFORT = 0
"""Seconds for a state; at 1 it saves some cells and takes ten times as long."""
REPEATED = ("P8", "P9", "P10", "P11")
"""Tables of Summary File 1 that are P1 to P4 of the redistricting data again."""
MICRODATA = ", microdata"
"""Ends the name of a method whose records are attacked as they are, without tables."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """One method with its parameters.

    where
        kind         "none", "suppression", "swapping" or "topdown"
        rate         share of households swapped
        size_noise   share of households whose size in the key is off by one
        tract_noise  shares of households paired as if in another tract: of the county, the state
        epsilon      of TopDown; ``loss`` says whether pure, or as zCDP worth as much
    """

    name: str
    kind: str
    rate: Fraction = Fraction(0)
    size_noise: Fraction = Fraction(0)
    tract_noise: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))
    epsilon: Fraction | None = None
    loss: str = ""

    def case(self, schema: Schema, geography: Geography, *, runs: range) -> Case:
        """The method as a case of the study."""
        return Case(
            name=self.name,
            mechanism=self.mechanism(schema, geography),
            runs=runs,
            columns={"method": self.name, "kind": self.kind},
        )

    def mechanism(self, schema: Schema, geography: Geography) -> Mechanism:
        """The mechanism that ``protect`` runs."""
        if self.kind == NONE:
            return Identity()
        if self.kind == SUPPRESSING:
            return self._suppression(schema)
        return self._swapping() if self.kind == SWAPPING else self._topdown(schema, geography)

    def _suppression(self, schema: Schema) -> Suppression:
        """P1 to P4 by the rule, and beside them the other block tables of Summary File 1.

        The complementary step protects P1 to P4. Ages are published whole where they give no
        cell of these back; tables that only repeat P1 to P4 are left out.
        """
        made, _ = supported(tables("sf1").values(), schema)
        others = [one.table.name for one in made if one.table.lowest == "block"]
        others = [name for name in others if name not in TABLES]
        if self.name == SUPPRESSION:
            return Suppression(rule="1980", tables=(*TABLES, *others))
        ages = tuple(name for name in others if name not in REPEATED)
        return Suppression(rule=COMPLEMENT, effort=EFFORT, keep_totals=True, whole=ages, audit=0)

    def _swapping(self) -> HouseholdSwapping:
        """The slides' light swap with other dials; their heavy one is the preset "hi".

        That of 2010 kept the people and adults of every block and took unique households first;
        what they had to be unique by, and where, is ours.
        """
        if self.name == LIKE_2010:
            return replace(
                HouseholdSwapping.from_preset("lo"),
                rate=self.rate,
                key=(SIZE, ADULTS),
                risk=Risk(attributes=("race", "hispanic"), levels=("tract",), k=2),
            )
        county, state = self.tract_noise
        noise = SizeNoise(minus=self.size_noise / 2, plus=self.size_noise / 2)
        pseudo = PseudoUnits(level="tract", permute=(("county", county), ("state", state)))
        return replace(
            HouseholdSwapping.from_preset("lo"),
            rate=self.rate,
            size_noise=noise if self.size_noise else None,
            pseudo=pseudo if county + state else None,
        )

    def _topdown(self, schema: Schema, geography: Geography) -> TopDown:
        """With the total of the state exact, so that it needs no share there nor above."""
        assert self.epsilon is not None
        pure = self.loss == PURE
        ages = schema.attribute("age").levels
        grown = ages.index("18")
        voting = Grouped(of="age", groups=(("minor", ages[:grown]), ("adult", ages[grown:])))
        by = {QUERY_SHARES[0][0]: (), QUERY_SHARES[2][0]: ("sex", "age")}
        by[QUERY_SHARES[1][0]] = ("hispanic", "race", "voting_age")
        return TopDown(
            epsilon=self.epsilon if pure else None,
            rho=None if pure else rho_for(self.epsilon),
            queries=Pairs(
                (name, Marginal(by=by.get(name), share=part)) for name, part in QUERY_SHARES
            ),
            recodes=Pairs([("voting_age", voting)]),
            level_queries=Pairs((level, STATE_SHARES) for level in _upto_state(geography)),
            invariant=(Invariant(query="total", level=STATE),),
        )


def _upto_state(geography: Geography) -> tuple[str, ...]:
    return geography.levels[: geography.depth(STATE) + 1]


def methods(settings: Settings) -> list[Method]:
    """All of them, in the order of reports."""
    found = [Method(name=NONE, kind=NONE)]
    found += [Method(name=name, kind=SUPPRESSING) for name in (SUPPRESSION, COMPLEMENTARY)]
    found.append(Method(name=LIKE_2010, kind=SWAPPING, rate=RATE_LIKE_2010))
    for rate in RATES:
        found += [_swap(rate, size, TRACT_NOISE[0]) for size in SIZE_NOISE]
        found += [_swap(rate, SIZE_NOISE[0], tract) for tract in TRACT_NOISE[1:]]
        found.append(_swap(rate, Fraction(1, 2), TRACT_NOISE[-1]))
    for loss in (PURE, ZCDP):
        found += [
            Method(name=topdown_name(epsilon, loss), kind=TOPDOWN, epsilon=epsilon, loss=loss)
            for epsilon in sorted(settings.epsilons)
        ]
    return found


def compared_by_race(settings: Settings) -> list[Method]:
    """The methods whose errors of race alone are measured: the slides compare these."""
    swaps = (LIKE_2010, LO, MIDDLING, HI)
    return [one for one in methods(settings) if one.name in swaps or one.loss == ZCDP]


def topdown_name(epsilon: Fraction, loss: str) -> str:
    """What a run of TopDown is called."""
    return f"{TOPDOWN} {loss}, epsilon {float(epsilon):g}"


def swap_name(rate: Fraction, size: Fraction, tract: tuple[Fraction, Fraction]) -> str:
    """What a swapping experiment is called; the two settings of the slides by their names."""
    if (rate, size, tract) == (RATES[0], SIZE_NOISE[0], TRACT_NOISE[0]):
        return LO
    if (rate, size, tract) == (RATES[-1], Fraction(1, 2), TRACT_NOISE[-1]):
        return HI
    name = f"{SWAPPING} {_percent(rate)}"
    if size:
        name += f", size noise {_percent(size)}"
    if any(tract):
        name += f", tract noise {_percent(sum(tract))} ({_percent(tract[0])} in county)"
    return name


def _swap(rate: Fraction, size: Fraction, tract: tuple[Fraction, Fraction]) -> Method:
    return Method(
        name=swap_name(rate, size, tract),
        kind=SWAPPING,
        rate=rate,
        size_noise=size,
        tract_noise=tract,
    )


def _percent(share: Fraction | int) -> str:
    return f"{float(100 * share):g} %"


def methods_table(found: list[Method], schema: Schema, geography: Geography) -> pl.DataFrame:
    """Every method, its parameters in percent, and what it promises."""
    rows = []
    for method in found:
        moving = method.kind == SWAPPING
        stated = method.mechanism(schema, geography).on(Domain(schema, geography)).guarantee
        promise = "; ".join(str(loss) for loss in stated.losses) or "none"
        rows.append(
            {
                "method": method.name,
                "kind": method.kind,
                "swapped_percent": float(100 * method.rate) if moving else None,
                "size_perturbed_percent": float(100 * method.size_noise) if moving else None,
                "tract_perturbed_percent": float(100 * sum(method.tract_noise)) if moving else None,
                "of_it_in_county_percent": float(100 * method.tract_noise[0]) if moving else None,
                "loss": method.loss or None,
                "epsilon": float(method.epsilon) if method.epsilon else None,
                "rho": float(rho_for(method.epsilon))
                if method.loss == ZCDP and method.epsilon
                else None,
                "delta": float(DELTA) if method.loss == ZCDP else None,
                "guarantee": promise,
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)
