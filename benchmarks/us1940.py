"""How long does the synthetic nation of 1940 take, in how much memory, and how well does it fit?"""

from __future__ import annotations

from functools import partial

from benchmarks.figures import Reading, peak_gib, timed
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
            Reading(f"seed {seed}: nation as counts", wall, "s", f"{cpu:.1f} CPU"),
            Reading(
                f"seed {seed}: published figures missed",
                missed.height,
                f"of {table.height}",
                ", ".join(missed["quantity"]),
            ),
            Reading(f"seed {seed}: median county SC", county, "people (47)"),
        ]
    return [*readings, Reading("peak memory of the process", peak_gib(), "GiB")]
