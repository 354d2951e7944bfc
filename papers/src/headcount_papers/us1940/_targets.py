"""What each state as a whole should have: printed numbers, and shares of the nation's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.arrays import Floats, Ints
from headcount_papers.us1940._groups import group_targets
from headcount_papers.us1940._places import NationPlaces
from headcount_papers.us1940.figures import apportion, fill, model, published, states


@dataclass(frozen=True, kw_only=True)
class Targets:
    """What each state as a whole should have."""

    persons: Ints
    groups: Ints
    adults: Floats
    adults_only: Ints
    facility_persons: Ints
    facility_records: Ints
    facility_districts: Ints
    units: Ints


def nation_targets(plan: NationPlaces) -> Targets:
    """Every state's totals: the printed ones, and shares of the nation's for the rest."""
    of_district = plan.state[plan.county]
    persons = np.bincount(of_district, weights=plan.persons).astype(np.int64)
    districts = np.bincount(of_district)
    held = _facility_persons(persons)
    facilities = model()["facility"]
    records = np.zeros_like(held)
    for institution, key in ((True, "institutions"), (False, "other_quarters")):
        of_kind = np.array([row["institution"] == institution for row in facilities])
        rate = np.array([row["per_record"] for row in facilities])[of_kind]
        shares = held[:, of_kind] / rate
        split = apportion(shares.reshape(-1), published()["quarters"][key])
        records[:, of_kind] = split.reshape(shares.shape)
    share = districts / districts.sum()
    return Targets(
        persons=persons,
        groups=group_targets(persons),
        adults=_adult_shares(persons),
        adults_only=apportion(share, model()["age"]["adults_only"]),
        facility_persons=held,
        facility_records=records,
        facility_districts=np.rint(
            np.outer(share, [row["districts"] for row in facilities])
        ).astype(np.int64),
        units=_units(persons - held.sum(axis=1), records.sum(axis=1)),
    )


def _facility_persons(persons: Ints) -> Ints:
    """People in group quarters by state and type: printed sums for three states, else a share."""
    facilities = model()["facility"]
    held = np.zeros((len(persons), len(facilities)), dtype=np.int64)
    for institution, key in ((True, "institutions"), (False, "other_quarters")):
        of_kind = [t for t, row in enumerate(facilities) if row["institution"] == institution]
        national = np.array([facilities[t]["persons"] for t in of_kind], dtype=np.float64)
        known = [published()["state"].get(s.name, {}).get(key, np.nan) for s in states()]
        of_state = fill(persons.astype(np.float64), np.array(known), total=int(national.sum()))
        for number, people in enumerate(of_state):
            held[number, of_kind] = apportion(national, int(people))
    return held


def _units(in_households: Ints, records: Ints) -> Ints:
    """Occupied housing units by state: printed records less facilities, else by people."""
    quarters = published()["quarters"]
    total = sum(quarters[key] for key in ("households", "more_households", "fragments"))
    known = published()["state"]
    printed = [known.get(s.name, {}).get("units", np.nan) for s in states()]
    return fill(in_households.astype(np.float64), np.array(printed) - records, total=total)


def _adult_shares(persons: Ints) -> Floats:
    """Share aged 18 and over by state, printed for Massachusetts."""
    known = published()["state"]
    share = np.array([s.adults for s in states()])
    fixed = np.array(["adults" in known.get(s.name, {}) for s in states()])
    adults = persons * share
    adults[fixed] = [known[s.name]["adults"] for s in states() if "adults" in known.get(s.name, {})]
    free = ~fixed
    wanted = model()["age"]["adults"] * persons.sum() - adults[fixed].sum()
    adults[free] *= wanted / adults[free].sum()
    result: Floats = adults / persons
    return result
