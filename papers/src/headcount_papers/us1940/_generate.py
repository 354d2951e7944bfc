"""A synthetic 1940: people by cell, and living quarters, in every enumeration district."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.domain import Domain
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.population.population import Population, Quarters
from headcount.schema import Schema, load_schema
from headcount_papers.us1940 import figures
from headcount_papers.us1940._groups import draw_groups
from headcount_papers.us1940._people import (
    CELLS,
    Facilities,
    draw_ages,
    draw_households,
    place_facilities,
)
from headcount_papers.us1940._places import NationPlaces, plan_nation
from headcount_papers.us1940._targets import Targets, nation_targets
from headcount_papers.us1940.figures import apportion, model, published

MOST_DRAWS, NEAR = 40, 0.005  # for a state whose number of non-empty cells is printed
LEVELS = ("nation", "state", "county", "enumeration_district")


def us1940(
    *,
    seed: int,
    scale: float = 1.0,
    states: Sequence[str] | None = None,
    nurse_nva_0: bool = False,
    presence: bool = False,
) -> tuple[Population, Quarters]:
    """A population with the published shape of the United States of 1940, and its quarters.

    where
        seed        one seed, one population; a state is the same whichever others are kept
        scale       share of the counties kept in each state, at least one: fewer places of the
                    same sizes
        states      postal abbreviations of the states to keep; all 51 if None
        nurse_nva_0 nobody under voting age in homes for the elderly or poor, as the schema
                    ``e2e-2018-nurse`` has it: adults of the district live there instead, and
                    every count by age, race and ethnicity stays as it is
        presence    an ASSUMPTION: a group expected in a county with a few people only is there as a
                    cluster of so many, or not at all (``model.toml``, [presence])

    At full scale the totals of persons, races, ethnicities, states, counties, districts and living
    quarters are those published; ``fit`` says how near everything else comes.
    """
    kept = _chosen_states(states)
    if not 0 < scale <= 1:
        raise InputError("us1940", place="scale", found=str(scale), expected="above 0, at most 1")
    schema = load_schema("e2e-2018-nurse" if nurse_nva_0 else "e2e-2018")
    plan = plan_nation(seed)
    targets = nation_targets(plan)
    counties = _chosen_counties(plan, kept, scale, seed)
    parts = [
        draw_state(
            plan,
            targets,
            number,
            counties[plan.state[counties] == number],
            seed,
            schema,
            presence=presence,
        )
        for number in kept
    ]
    geography = _geography(plan, counties)
    start = np.cumsum([0, *(len(part.occupied) for part in parts)])
    name = f"us1940(seed={seed}, scale={scale:g}, states={states and list(states)}"
    chosen = {"nurse_nva_0": nurse_nva_0, "presence": presence}
    population = Population(
        name="".join([name, *(f", {key}=True" for key, wished in chosen.items() if wished), ")"]),
        domain=Domain(
            schema, geography, one_person="one person is one of the people who were generated"
        ),
        unit=np.concatenate([part.unit + at for part, at in zip(parts, start, strict=False)]),
        cell=np.concatenate([part.cell for part in parts]),
        count=np.concatenate([part.count for part in parts]),
        public=True,
    )
    occupied = np.concatenate([part.occupied for part in parts])
    vacant = np.zeros(len(occupied), dtype=np.int64)  # the file has no vacant unit
    return population, Quarters(geography, "hhgq", occupied, vacant)


@dataclass(frozen=True, kw_only=True)
class StatePart:
    """One state's entries, with district positions that start from 0."""

    unit: Ints32
    cell: Ints32
    count: Ints
    occupied: Ints


def draw_state(
    plan: NationPlaces,
    targets: Targets,
    number: int,
    counties: Ints,
    seed: int,
    schema: Schema,
    *,
    presence: bool = False,
) -> StatePart:
    """Everybody in the chosen counties of one state, from the state's own random streams."""
    for_minors = schema.possible.reshape(-1, CELLS)[1:, 0]  # every group alike
    here = np.isin(plan.county, counties)
    persons = plan.persons[here]
    county = np.searchsorted(counties, plan.county[here])
    part = persons.sum() / targets.persons[number]
    cells, rng = _draw_cells(persons, county, targets, number, seed, presence=presence)
    facilities = tuple(
        Facilities(
            districts=max(1, round(targets.facility_districts[number, t] * part)),
            persons=max(1, round(targets.facility_persons[number, t] * part)),
            records=max(1, round(targets.facility_records[number, t] * part)),
            minors=row["minors"] if for_minors[t] else 0.0,
        )
        for t, row in enumerate(model()["facility"])
    )
    placed, occupied = place_facilities(rng, cells, facilities)
    occupied[:, 0] = draw_households(
        rng, placed[:, 0].sum(axis=1), total=round(targets.units[number] * part)
    )
    flat = placed.reshape(len(persons), -1)
    unit, cell = np.nonzero(flat)
    assert flat.shape[1] == len(occupied[0]) * CELLS
    return StatePart(
        unit=unit.astype(np.int32),
        cell=cell.astype(np.int32),
        count=flat[unit, cell],
        occupied=occupied,
    )


def _draw_cells(
    persons: Ints, county: Ints, targets: Targets, number: int, seed: int, *, presence: bool
) -> tuple[Ints, np.random.Generator]:
    """Districts x ages x groups, and the stream to go on with.

    A state whose number of non-empty cells is printed is drawn again until it comes near, which
    conditions the draw on that number; of the draws made, the nearest is kept.
    """
    state = figures.states()[number]
    part = persons.sum() / targets.persons[number]
    printed = published()["state"].get(state.name, {}) if part == 1 else {}
    wanted = printed.get("sc_cells")
    nearest: tuple[float, Ints, np.random.Generator] | None = None
    for draw in range(1 if wanted is None else MOST_DRAWS):
        rng = np.random.default_rng([seed, 1, int(state.fips), draw])
        groups = draw_groups(
            rng,
            persons=persons,
            county=county,
            targets=apportion(targets.groups[number].astype(np.float64), int(persons.sum())),
            presence=presence,
        )
        cells = draw_ages(
            rng,
            groups,
            adults=targets.adults[number],
            adults_only=round(targets.adults_only[number] * part),
            printed=printed,
        )
        off = 0.0 if wanted is None else abs(int((cells > 0).sum()) / wanted - 1)
        if nearest is None or off < nearest[0]:
            nearest = (off, cells, rng)
        if off <= NEAR:
            break
    assert nearest is not None
    return nearest[1], nearest[2]


def _chosen_states(names: Sequence[str] | None) -> list[int]:
    known = [s.name for s in figures.states()]
    if names is None:
        return list(range(len(known)))
    for name in names:
        if name not in known:
            raise InputError(
                "us1940", place="states", found=repr(name), expected=f"some of {' '.join(known)}"
            )
    if not names:
        raise InputError("us1940", place="states", found="none", expected="at least one state")
    return sorted({known.index(name) for name in names})


def _chosen_counties(plan: NationPlaces, kept: list[int], scale: float, seed: int) -> Ints:
    """Counties of the kept states: every one, or an even sample along their sizes."""
    size = np.bincount(plan.county, weights=plan.persons)
    chosen = []
    for number in kept:
        here = np.flatnonzero(plan.state == number)
        if scale < 1:
            rng = np.random.default_rng([seed, 2, number])
            take = max(1, round(scale * len(here)))
            place = ((np.arange(take) + rng.random()) * (len(here) / take)).astype(np.int64)
            here = np.sort(here[np.argsort(size[here], kind="stable")][place])
        chosen.append(here)
    return np.concatenate(chosen)


def _geography(plan: NationPlaces, counties: Ints) -> Geography:
    """Codes of 2, 6 and 10 digits, each beginning with that of the place around it."""
    of_state, state = np.unique(plan.state[counties], return_inverse=True)
    state_codes = np.array([figures.states()[number].fips for number in of_state])
    county_codes = np.char.add(
        state_codes[state], np.char.zfill(plan.code[counties].astype(str), 4)
    )
    number = np.bincount(plan.county, minlength=len(plan.state))[counties]
    county = np.repeat(np.arange(len(counties)), number)
    local = 1 + np.arange(len(county)) - np.repeat(np.cumsum(number) - number, number)
    district_codes = np.char.add(county_codes[county], np.char.zfill(local.astype(str), 4))
    parents = (np.zeros(0), np.zeros(len(of_state)), state, county)
    return Geography(
        LEVELS,
        (np.array(["0"]), state_codes, county_codes, district_codes),
        tuple(parent.astype(np.int32) for parent in parents),
    )
