"""The whole study: from people in dwellings to tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from headcount.engines.protocol import Engine
from headcount.mechanisms.suppression.rules import Thresholds
from headcount.mechanisms.suppression.summary import suppression_summary
from headcount.population.households import Households
from headcount.progress import Progress, silent
from headcount.studies.hawes_rodriguez_2021.claims import claims_table
from headcount.studies.hawes_rodriguez_2021.crossing import crossing_table
from headcount.studies.hawes_rodriguez_2021.methods import methods, methods_table
from headcount.studies.hawes_rodriguez_2021.pieces import TABLES, kept_or_made, run_method
from headcount.studies.hawes_rodriguez_2021.published import published_table
from headcount.studies.hawes_rodriguez_2021.recovered import recovered_table
from headcount.studies.hawes_rodriguez_2021.scores import agreement_table, mae_table, reid_table
from headcount.studies.hawes_rodriguez_2021.settings import PLACE, Settings
from headcount.studies.hawes_rodriguez_2021.setup import Setup, prepare


@dataclass(frozen=True, kw_only=True, eq=False)
class HawesRodriguezStudy:
    """Everything the study found, as tables.

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

    settings: Settings
    public: bool
    suppression: pl.DataFrame
    recovered: pl.DataFrame
    reid: pl.DataFrame
    mae: pl.DataFrame
    agreement: pl.DataFrame
    crossing: pl.DataFrame
    methods: pl.DataFrame
    published: pl.DataFrame
    claims: pl.DataFrame
    about: pl.DataFrame

    def tables(self) -> dict[str, pl.DataFrame]:
        """By file name."""
        names = (
            *("suppression", "recovered", "reid", "mae", "agreement", "crossing"),
            *("methods", "published", "claims", "about"),
        )
        return {name: getattr(self, name) for name in names}


def run_study(
    *,
    households: Households,
    settings: Settings,
    cache: Path | None = None,
    progress: Progress = silent,
    engine: Engine | None = None,
) -> HawesRodriguezStudy:
    """Protect, reconstruct, re-identify and measure with every method; judge the claims."""
    setup = prepare(households, seed=settings.seed)
    digest = households_digest(households)
    every = methods(settings)
    found: dict[str, list[pl.DataFrame]] = {name: [] for name in TABLES}
    for method in progress(every, what="Methods", total=len(every)):
        made = kept_or_made(
            lambda method=method: run_method(method, setup, settings, engine=engine),  # type: ignore[misc]
            method=method, digest=digest, settings=settings, cache=cache,
        )  # fmt: skip
        for name, rows in made.items():
            found[name].append(rows)
    limits, complement = Thresholds(), pl.concat(found["withheld"])
    frames = {
        "suppression": pl.concat(
            [
                suppression_summary(setup.counts, thresholds=limits),
                complement.select("table", "rule", "level", "total", "withheld", "percent"),
            ]
        ),
        "recovered": recovered_table(setup.counts, limits),
        "reid": reid_table(pl.concat(found["matches"])),
        "mae": mae_table(pl.concat(found["errors"])),
        "agreement": agreement_table(pl.concat(found["agreement"])),
        "methods": methods_table(every, setup.counts.schema, setup.geography),
    }
    frames["crossing"] = crossing_table(frames["reid"], frames["methods"])
    frames["published"] = published_table(frames["suppression"], frames["reid"])
    frames["claims"] = claims_table(frames)
    frames["about"] = pl.DataFrame(
        [_about(setup) | {"cells_unprotected": _unprotected(complement)}]
    )
    return HawesRodriguezStudy(settings=settings, public=households.public, **frames)


def households_digest(households: Households) -> str:
    """A digest of who lives with whom, where, and in which place."""
    from hashlib import sha256

    found = sha256(np.ascontiguousarray(households.first).tobytes())
    found.update(np.ascontiguousarray(households.block).tobytes() + households.kind.tobytes())
    for attribute in households.person_attributes:
        found.update(repr(attribute).encode())
        found.update(households.persons[attribute.name].astype(np.int32).tobytes())
    for areas in households.areas:
        found.update(areas.name.encode() + np.ascontiguousarray(areas.of_leaf).tobytes())
    for units in households.geography.units:
        found.update("\n".join(units.tolist()).encode() + b"\0")
    return found.hexdigest()


def _unprotected(complement: pl.DataFrame) -> int:
    """Small cells that no witness shows to be protected, of all tables that hang together."""
    return int(complement["unprotected"].max())  # type: ignore[arg-type]


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
