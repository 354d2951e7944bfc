"""The same people in the redistricting product of 2020, beside the methods of the study.

The product has voting age, Hispanic origin, 63 races and living quarters, but neither sex nor years
of age, which the attackers rebuild and match. So nobody is attacked here: errors are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Floats
from headcount.comparison.cases import Case
from headcount.geography import Areas, Geography
from headcount.geography.spine import COLUMNS, LEVELS, NO_AREA, optimised_spine
from headcount.population import Population
from headcount.population.from_households import KIND, to_population
from headcount.population.population import Households, Quarters
from headcount.release import Release
from headcount.schema import Recode, Schema, load_schema
from headcount.tabulate import Counts
from headcount.tabulate.counts import adder
from headcount.topdown.mechanism import TopDown
from headcount_papers.hawes_rodriguez_2021.accuracy import (
    ALONE,
    CODES,
    RACE_ALONE,
    TOTAL,
    by_size,
)
from headcount_papers.hawes_rodriguez_2021.settings import PLACE

PRESETS = ("redistricting-2020-us", "ppmf-2021-04-12", "ppmf-2021-04-4")
PRODUCT, APRIL, APRIL_4 = (f"topdown, preset {preset}" for preset in PRESETS)
"""The names of their cases."""
KIND_OF_CASE = "topdown 2020"
VOTING_AGE, RACES_ALONE = "voting age", "race alone"
AREAS = ("county", "tract", "block_group", "block")
NO_PLACE = "99999"
ADULT = 18
AGES = tuple(str(age) for age in range(ADULT))


def people_2020(households: Households) -> Population | None:
    """The people in the cells of the product, with the spine; None where these are not known."""
    schema = load_schema("redistricting-2020")
    kinds, known = schema.attribute(KIND).levels, {a.name for a in households.person_attributes}
    if not {"age", "race", "hispanic"} <= known or households.kinds != (
        kinds[0],
        "vacant",
        *kinds[1:],
    ):
        return None
    age, race = households.attribute("age"), households.attribute("race")
    same_origin = households.attribute("hispanic") == schema.attribute("hispanic")
    if race.levels != CODES or age.levels[:ADULT] != AGES or not same_origin:
        return None
    places = _places(households.geography)
    if places is None:
        return None
    minor, adult = schema.attribute("votingage").levels
    names = schema.attribute("cenrace").levels
    groups = {minor: age.levels[:ADULT], adult: age.levels[ADULT:]}
    made = to_population(
        households,
        [
            KIND,
            Recode.of(age, "votingage", groups),
            "hispanic",
            Recode.of(race, "cenrace", {n: (code,) for n, code in zip(names, CODES, strict=True)}),
        ],
    )
    assert made.quarters is not None
    occupied, vacant = made.quarters.occupied, made.quarters.vacant
    spine = optimised_spine(_blocks(places, occupied, households.areas))
    tree = replace(places, spine=spine)
    return replace(
        made,
        domain=replace(made.domain, schema=schema, geography=tree),
        quarters=Quarters(tree, KIND, occupied, vacant),
        households=None,
    )


def _places(geography: Geography) -> Geography | None:
    """The same with the nation above the state, which the preset has a share for."""
    if geography.levels == LEVELS:
        return geography
    if geography.levels != LEVELS[1:]:
        return None
    none = np.empty(0, dtype=np.int32)
    return Geography(
        LEVELS,
        (np.array([LEVELS[0]]), *geography.units),
        (none, np.zeros(1, dtype=np.int32), *geography.parents[1:]),
    )


def _blocks(places: Geography, occupied: Any, areas: Sequence[Areas]) -> pl.DataFrame:
    """What the spine is made from: no block is in an area of the list, and places make the keys."""
    codes = {
        level: places.units[places.depth(level)][places.ancestors(level)]
        for level in ("block", "state", "county", "tract")
    }
    place = np.full(len(codes["block"]), NO_PLACE, dtype=object)
    for one in areas:
        if one.name == PLACE:
            inside = one.of_leaf >= 0
            place[inside] = one.codes[one.of_leaf[inside]]
    patterns = ["".join("1" if n else "0" for n in row) for row in occupied[:, 1:].tolist()]
    table = {**codes, "area": NO_AREA, "place": place.astype(str), "subdivision": NO_PLACE}
    return pl.DataFrame(table).with_columns(quarters=pl.Series(patterns)).select(COLUMNS)


def product_case(preset: str, *, runs: range) -> Case:
    """A product as a case of the study, with its loss and its settings."""
    name = f"topdown, preset {preset}"
    return Case(
        name=name,
        mechanism=TopDown.from_preset(preset),
        runs=runs,
        columns={"method": name, "kind": KIND_OF_CASE},
    )


def product_errors(counts: Counts, release: Release, *, areas: Sequence[Areas]) -> pl.DataFrame:
    """Mean absolute errors of totals, of voting age and of races alone, by level, and of places.

    Of counties and places also by size.
    """
    tree, leaf = counts.geography, counts.geography.leaf
    true = _values(counts.schema, counts.matrix)
    off = np.asarray(_values(release.schema, release.table(leaf)) - true)
    sums = {}
    for level in AREAS:
        if level in tree.levels:
            up = adder(tree, level, of=leaf)
            sums[level] = (up @ true[:, 0], up @ off)
    for one in areas:
        if one.name == PLACE:
            people, *errors = (one.add_up(column) for column in (true[:, 0], *off.T))
            sums[PLACE] = (people, np.column_stack(errors))
    rows = []
    for area, (people, errors) in sums.items():
        size = people.astype(np.int64)
        for statistic, columns in (
            (TOTAL, slice(0, 1)),
            (VOTING_AGE, slice(1, 2)),
            (RACES_ALONE, slice(2, None)),
        ):
            mean = np.abs(errors[:, columns]).mean(axis=1)
            rows += by_size(area, statistic, size, mean)
        for number, race in enumerate(ALONE):
            rows += by_size(area, RACE_ALONE + race, size, np.abs(errors[:, 2 + number]))
    return pl.DataFrame(rows)


def _values(schema: Schema, table: Any) -> Floats:
    """Of each unit: everybody, adults, and people of each of the six races alone."""
    codes = dict(
        zip(schema.names, np.unravel_index(np.arange(schema.size), schema.shape), strict=True)
    )
    if "votingage" in codes:
        adult, race = codes["votingage"] == 1, codes["cenrace"]
    else:
        adult = codes["age"] >= schema.attribute("age").levels.index(str(ADULT))
        race = codes["race"]
    wanted = [np.ones(schema.size, dtype=bool), adult, *(race == k for k in range(len(ALONE)))]
    return np.asarray(table @ np.column_stack(wanted).astype(np.float64))
