"""How long does the synthetic nation of 1940 take, in how much memory, and how well does it fit?"""

from __future__ import annotations

import resource
from functools import partial

from headcount.bench.figures import Reading, timed
from headcount.population.us1940 import fit, us1940

SEEDS = range(1, 9)


def measure() -> list[Reading]:
    """Time, memory and published figures missed at full scale, for several seeds."""
    readings = []
    for seed in SEEDS:
        (population, quarters), wall, cpu = timed(partial(us1940, seed=seed))
        table = fit(population, quarters)
        missed = table.filter(~table["within"])
        rows = {(row["quantity"], row["level"]): row["achieved"] for row in table.to_dicts()}
        county = rows["SC median", "county"]
        readings += [
            Reading(
                what=f"seed {seed}: nation as counts", value=wall, unit="s", note=f"{cpu:.1f} CPU"
            ),
            Reading(
                what=f"seed {seed}: published figures missed",
                value=missed.height,
                unit=f"of {table.height}",
                note=", ".join(missed["quantity"]),
            ),
            Reading(what=f"seed {seed}: median county SC", value=county, unit="people (47)"),
        ]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux counts in KiB
    return [*readings, Reading(what="peak memory of the process", value=peak, unit="GiB")]
