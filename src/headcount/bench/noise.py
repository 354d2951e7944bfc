"""How many exact draws a second, beside OpenDP and numpy's floats?"""

from __future__ import annotations

from headcount.bench.figures import Reading
from headcount.noise.bench import bench_noise


def measure() -> list[Reading]:
    """Draws a second on one core, in bulk and in a release's access pattern."""
    readings = []
    for figure in bench_noise():
        times = figure["times_opendp"]
        readings.append(
            Reading(
                what=f"{figure['pattern']}: {figure['law']}, {figure['sampler']}",
                value=float(str(figure["draws_per_second"])) / 1e6,
                unit="million draws/s/core",
                note=f"{float(str(times)):,.0f} x OpenDP" if times is not None else "",
            )
        )
    return readings
