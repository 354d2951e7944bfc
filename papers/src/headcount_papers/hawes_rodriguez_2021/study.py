"""The whole study: from people in dwellings to tables."""

from __future__ import annotations

import polars as pl

from headcount.comparison.cases import score_cases
from headcount.comparison.study import Findings, Work
from headcount.mechanisms.suppression.rules import Thresholds
from headcount.tabulate import Tabulated
from headcount_papers.frame.claims import verdicts
from headcount_papers.hawes_rodriguez_2021 import claims
from headcount_papers.hawes_rodriguez_2021.accuracy import race_alone
from headcount_papers.hawes_rodriguez_2021.counted import suppression_table, withheld_in
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
from headcount_papers.hawes_rodriguez_2021.product_2020 import people_2020, product_case
from headcount_papers.hawes_rodriguez_2021.recovered import recovered_table
from headcount_papers.hawes_rodriguez_2021.scores import agreement_table, mae_table, reid_table
from headcount_papers.hawes_rodriguez_2021.settings import PLACE, Settings, households_digest
from headcount_papers.hawes_rodriguez_2021.setup import Setup, prepare

REDISTRICTING = {
    **dict.fromkeys(("method", "area", "statistic"), pl.String),
    **dict.fromkeys(("mae", "mae_low", "mae_high"), pl.Float64),
    "units": pl.Int64,
}


def run(settings: Settings, work: Work) -> Findings:
    """Protect, reconstruct, re-identify and measure with every method; judge the claims.

    where
        suppression   what the rules of 1980 withhold in states of a million people, by table, rule
                      and level
        complement    cells withheld by the rules, and by the complementary step, in the state that
                      is attacked
        recovered     what of it other tables give back
        reid          re-identification by method, attacker and universe, guesses beside it
        mae           mean absolute error by method, area and size
        redistricting   the same of totals, voting age and races alone, with the product of 2020
        agreement     records that are those of real people
        crossing      from which epsilon TopDown's records tell more than a guess
        methods       parameters and promises of every method
        published     numbers of the slides beside these
        claims        the slides' conclusions one by one
        about         who lives there: one row
    """
    households = settings.households
    setup = prepare(households, seed=settings.seed)
    schema, tree, every = setup.counts.schema, setup.geography, methods(settings)
    found = score_cases(
        [one.case(schema, tree, replicates=settings.replicates) for one in every],
        measures(setup, seed=settings.seed),
        data=setup.data,
        seed=settings.seed,
        work=work,
        what="Methods",
        inputs=households_digest(households),
        made_by=measures.__module__,
    )
    named = pl.concat_str("method", "source").alias("method")
    matches, agreed = (
        found[name].with_columns(named).drop("source") for name in ("matches", "agreement")
    )
    withheld, by_race = found["withheld"], _by_race(settings, setup, work)
    cells = withheld_in(setup.data).filter(rule="cell")
    tables = {
        "suppression": suppression_table(settings, setup.data, work),
        "complement": pl.concat([cells, withheld.select(cells.columns)]),
        "recovered": recovered_table(setup.counts, Thresholds()),
        "reid": reid_table(matches),
        "mae": mae_table(pl.concat([found["errors"], *(one["errors"] for one in by_race)])),
        "redistricting": _redistricting(settings, setup, by_race, work),
        "agreement": agreement_table(agreed),
        "methods": methods_table(every, schema, tree),
    }
    tables["crossing"] = crossing_table(tables["reid"], tables["methods"])
    tables |= verdicts(
        __package__,
        tables,
        measures=vars(claims),
        judged=settings.population is None,
        examined=settings.usual,
    )
    unprotected = {"cells_unprotected": withheld["unprotected"].max()}
    tables["about"] = pl.DataFrame([_about(setup) | unprotected])
    return Findings(settings=settings, tables=tables, confidential=not households.public)


def _by_race(settings: Settings, setup: Setup, work: Work) -> list[dict[str, pl.DataFrame]]:
    """Errors of race alone: the same people counted by it and protected again, if it is known."""
    people = race_alone(setup.data.population)
    if people is None:
        return []
    alone, some = Tabulated.of(people), compared_by_race(settings)
    schema, tree = alone.counts.schema, alone.counts.geography
    found = score_cases(
        [one.case(schema, tree, replicates=settings.replicates) for one in some],
        measures_by_race(alone, setup.households.areas),
        data=alone,
        seed=settings.seed,
        work=work,
        what="Race alone",
        inputs=f"race alone {households_digest(setup.households)}",
        made_by=measures_by_race.__module__,
    )
    return [found]


def _redistricting(
    settings: Settings, setup: Setup, by_race: list[dict[str, pl.DataFrame]], work: Work
) -> pl.DataFrame:
    """Errors of the redistricting product of 2020, and of the others in what it counts."""
    people = people_2020(setup.households)
    if people is None or not by_race:
        return pl.DataFrame(schema=REDISTRICTING)
    data = Tabulated.of(people)
    found = score_cases(
        [product_case(replicates=settings.replicates)],
        measures_of_product(data, setup.households.areas),
        data=data,
        seed=settings.seed,
        work=work,
        what="The product of 2020",
        inputs=f"redistricting {households_digest(setup.households)}",
        made_by=measures_of_product.__module__,
    )
    every = mae_table(pl.concat([*(one["product"] for one in by_race), found["product"]]))
    return every.select(*REDISTRICTING)


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
