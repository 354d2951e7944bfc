"""The whole study: from people in dwellings to tables."""

from __future__ import annotations

import polars as pl

from headcount.mechanisms.suppression.rules import Thresholds
from headcount.mechanisms.suppression.summary import occupied_homes, suppression_summary
from headcount.studies.frame.cases import score_cases
from headcount.studies.frame.claims import verdicts
from headcount.studies.frame.study import Findings, Work
from headcount.studies.hawes_rodriguez_2021 import claims
from headcount.studies.hawes_rodriguez_2021.crossing import crossing_table
from headcount.studies.hawes_rodriguez_2021.measures import measures
from headcount.studies.hawes_rodriguez_2021.methods import methods, methods_table
from headcount.studies.hawes_rodriguez_2021.recovered import recovered_table
from headcount.studies.hawes_rodriguez_2021.scores import agreement_table, mae_table, reid_table
from headcount.studies.hawes_rodriguez_2021.settings import PLACE, Settings, households_digest
from headcount.studies.hawes_rodriguez_2021.setup import Setup, prepare


def run(settings: Settings, work: Work) -> Findings:
    """Protect, reconstruct, re-identify and measure with every method; judge the claims.

    where
        suppression   what the rules of 1980, and the complementary step, withhold, by table, rule
                      and level
        recovered     what of it other tables give back
        reid          re-identification by method, attacker and universe, guesses beside it
        mae           mean absolute error by method, area and size
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
    limits, withheld = Thresholds(), found["withheld"]
    tables = {
        "suppression": pl.concat(
            [
                suppression_summary(
                    setup.counts,
                    thresholds=limits,
                    occupied=occupied_homes(setup.data.population),
                ),
                withheld.select("table", "rule", "level", "total", "withheld", "percent"),
            ]
        ),
        "recovered": recovered_table(setup.counts, limits),
        "reid": reid_table(matches),
        "mae": mae_table(found["errors"]),
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
        "tables_left_out": "; ".join(setup.missing.values()),
    }
