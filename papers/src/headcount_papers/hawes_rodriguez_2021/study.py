"""The whole study: from people in dwellings to tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from headcount.comparison.cases import score_cases
from headcount.comparison.study import Findings, Work
from headcount.mechanisms.suppression.rules import Thresholds
from headcount.tabulate import Tabulated
from headcount_papers.frame.claims import verdicts
from headcount_papers.hawes_rodriguez_2021.accuracy import EVERY, race_alone
from headcount_papers.hawes_rodriguez_2021.counted import (
    added_up,
    suppression_states,
    withheld_in,
)
from headcount_papers.hawes_rodriguez_2021.crossing import crossing_table
from headcount_papers.hawes_rodriguez_2021.measures import (
    measures,
    measures_by_race,
    measures_of_product,
)
from headcount_papers.hawes_rodriguez_2021.methods import (
    compared_by_race,
    methods,
    methods_table,
)
from headcount_papers.hawes_rodriguez_2021.product_2020 import PRESETS, people_2020, product_case
from headcount_papers.hawes_rodriguez_2021.recovered import recovered_table
from headcount_papers.hawes_rodriguez_2021.scores import agreement_table, mae_table, reid_table
from headcount_papers.hawes_rodriguez_2021.settings import PLACE, Settings, households_digest
from headcount_papers.hawes_rodriguez_2021.setup import Setup, prepare

REDISTRICTING = {
    **dict.fromkeys(("method", "area", "size_category", "statistic"), pl.String),
    **dict.fromkeys(("mae", "mae_low", "mae_high"), pl.Float64),
    "units": pl.Int64,
}
ERRORS = {
    **dict.fromkeys(("method", "area", "size_category", "statistic"), pl.String),
    "units": pl.Int64,
    "mae": pl.Float64,
}


def run(settings: Settings, work: Work) -> Findings:
    """Protect, reconstruct, re-identify and measure with every method; judge the claims.

    where
        suppression   what the rules of 1980 withhold in states of a million people, by table, rule
                      and level
        complement    cells withheld by the rules, and by the complementary step, in the first state
                      that is attacked
        recovered     what of it other tables give back
        reid          re-identification by method, attacker and universe, guesses beside it
        mae           mean absolute error by method, area and size
        redistricting   the same of totals, voting age and races alone, with the Bureau's products
        agreement     records that are those of real people
        crossing      from which epsilon TopDown's records tell more than a guess
        methods       parameters and promises of every method
        published     numbers of the slides beside these
        claims        the slides' conclusions one by one
        about         who lives there: one row
        reid_draws, product_draws, withheld_draws
                      the same state by state, by which claims are judged
    """
    attacked = list(_attacked(settings, work))
    setup, every = attacked[0].setup, methods(settings)
    schema, tree = setup.counts.schema, setup.geography
    states = suppression_states(settings, setup.data, work)
    cells = withheld_in(setup.data).filter(rule="cell")
    withheld = attacked[0].found["withheld"]

    def every_state(name: str) -> pl.DataFrame:
        draws = (one.found[name].with_columns(pl.lit(one.draw).alias("draw")) for one in attacked)
        return pl.concat(draws)

    product = every_state("product")
    tables = {
        "suppression": added_up(states),
        "complement": pl.concat([cells, withheld.select(cells.columns)]),
        "recovered": attacked[0].found["recovered"],
        "reid": reid_table(every_state("matches")),
        "mae": mae_table(every_state("errors")),
        "redistricting": _redistricting(product),
        "agreement": agreement_table(every_state("agreement")),
        "methods": methods_table(every, schema, tree),
        "reid_draws": every_state("reid"),
        "product_draws": product.filter(size_category=EVERY).select(
            "method", "area", "statistic", "draw", "mae"
        ),
        "withheld_draws": pl.concat(
            one.with_columns(pl.lit(number).alias("draw"), pl.col("percent").fill_nan(None))
            for number, one in enumerate(states)
        ),
    }
    tables["crossing"] = crossing_table(tables["reid"], tables["methods"])
    tables |= verdicts(
        __package__,
        {**tables, "recovered_draws": every_state("recovered")},
        judged=settings.population is None,
        examined=settings.usual,
    )
    unprotected = {"cells_unprotected": withheld["unprotected"].max()}
    tables["about"] = pl.DataFrame([_about(setup) | unprotected])
    confidential = not setup.households.public
    return Findings(settings=settings, tables=tables, confidential=confidential)


@dataclass(frozen=True, kw_only=True, eq=False)
class Attacked:
    """One state, protected by every method, and what was found in it."""

    draw: int
    setup: Setup
    found: dict[str, pl.DataFrame]


def _attacked(settings: Settings, work: Work) -> Iterator[Attacked]:
    """Every state in turn: each method drawn on it, attacked and measured."""
    for draw, (households, runs) in enumerate(settings.drawn()):
        setup = prepare(households, seed=settings.seed + draw)
        schema, tree = setup.counts.schema, setup.geography
        found = score_cases(
            [one.case(schema, tree, runs=runs) for one in methods(settings)],
            measures(setup, seed=settings.seed),
            data=setup.data,
            seed=settings.seed,
            work=work,
            what=f"Methods, people {draw + 1}",
            inputs=f"{households_digest(households)} {draw}",
            made_by=measures.__module__,
        )
        named = pl.concat_str("method", "source").alias("method")
        for name in ("matches", "agreement"):
            found[name] = found[name].with_columns(named).drop("source")
        by_race = _by_race(settings, setup, runs, work)
        found["errors"] = pl.concat([found["errors"], *(one["errors"] for one in by_race)])
        product = [*(one["product"] for one in by_race), *_products(settings, setup, runs, work)]
        found["product"] = pl.concat(product) if product else pl.DataFrame(schema=ERRORS)
        found["reid"] = reid_table(found["matches"])
        found["recovered"] = recovered_table(setup.counts, Thresholds())
        yield Attacked(draw=draw, setup=setup, found=found)


def _by_race(
    settings: Settings, setup: Setup, runs: range, work: Work
) -> list[dict[str, pl.DataFrame]]:
    """Errors of race alone: the same people counted by it and protected again, if it is known."""
    people = race_alone(setup.data.population)
    if people is None:
        return []
    alone, some = Tabulated.of(people), compared_by_race(settings)
    schema, tree = alone.counts.schema, alone.counts.geography
    found = score_cases(
        [one.case(schema, tree, runs=runs) for one in some],
        measures_by_race(alone, setup.households.areas),
        data=alone,
        seed=settings.seed,
        work=work,
        what="Race alone",
        inputs=f"race alone {households_digest(setup.households)}",
        made_by=measures_by_race.__module__,
    )
    return [found]


def _products(settings: Settings, setup: Setup, runs: range, work: Work) -> Iterator[pl.DataFrame]:
    """Errors of the Bureau's products: of 2020, and the demonstration data of April 2021."""
    people = people_2020(setup.households)
    if people is None or race_alone(setup.data.population) is None:
        return
    data = Tabulated.of(people)
    found = score_cases(
        [product_case(preset, runs=runs) for preset in PRESETS],
        measures_of_product(data, setup.households.areas),
        data=data,
        seed=settings.seed,
        work=work,
        what="The Bureau's products",
        inputs=f"redistricting {households_digest(setup.households)}",
        made_by=measures_of_product.__module__,
    )
    yield found["product"]


def _redistricting(product: pl.DataFrame) -> pl.DataFrame:
    if product.is_empty():
        return pl.DataFrame(schema=REDISTRICTING)
    return mae_table(product).select(*REDISTRICTING)


def _about(setup: Setup) -> dict[str, object]:
    """What there is, and how well the exact tables can be inverted."""
    people = setup.counts.totals()
    lived, certain = people > 0, setup.certain
    places = [areas.size for areas in setup.households.areas if areas.name == PLACE]
    tree = setup.geography
    return {
        "people": int(people.sum()),
        "households": int(setup.households.is_household.sum()),
        "blocks": int(lived.sum()),
        "block_groups": tree.size(tree.levels[-2]),
        "tracts": tree.size("tract"),
        "counties": tree.size("county"),
        "places": places[0] if places else 0,
        "zero_variability_blocks_percent": 100 * float(certain[lived].mean()),
        "zero_variability_people_percent": 100 * float(people[certain].sum() / people.sum()),
        "not_proven_blocks": int((lived & ~setup.solved.proven).sum()),
        "tables": ", ".join(one.name for one in setup.tables),
        "tables_left_out": ", ".join(setup.missing),
    }
