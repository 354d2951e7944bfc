"""Does the noise follow its law? Full-size samples, with controls that must be found out."""

from __future__ import annotations

from fractions import Fraction

from headcount.bench.figures import Reading
from headcount.noise import KeyedNoise, RunKey, Stream, geometric_variance
from headcount.noise.bench import bench_fit

DRAWS = 10_000_000
EPSILONS = ("0.25", "0.5", "0.75", "1", "2", "4", "6", "8")
SHARES = {"cells": "1/10", "hhgq": "9/40", "va_hisp_race": "27/40"}


def measure() -> list[Reading]:
    """P values of ours, OpenDP's and of every control; variances of the noise of the 2018 test."""
    readings = []
    for check in bench_fit(draws=DRAWS):
        verdict = "accepted" if check["passed"] else "rejected"
        surprise = "" if check["passed"] == check["expected"] else ", NOT as it should be"
        what = f"{check['law']}: {check['sample']}"
        value = float(str(check["p"]))
        readings.append(Reading(what=what, value=value, unit="p", note=verdict + surprise))
    return readings + variances()


def variances(*, draws: int = DRAWS) -> list[Reading]:
    """Sampled over exact variance for every query and epsilon of the 2018 test on 1940 data."""
    noise = KeyedNoise(RunKey.from_os(), "bench", b"data", b"config")
    readings = []
    for epsilon in EPSILONS:
        for query, share in SHARES.items():
            rate = Fraction(epsilon) * Fraction(share) / 4 / 2  # a quarter a level, sensitivity 2
            stream = Stream(f"epsilon {epsilon}", query, draws)
            sample = noise.geometric(stream, epsilon=rate, draws=range(1))
            exact = geometric_variance(rate)
            readings.append(
                Reading(
                    what=f"epsilon {epsilon}, {query}: sampled / exact variance",
                    value=float((sample.astype(float) ** 2).mean() / exact),
                    unit="ratio",
                    note=f"exact {exact:.4f}",
                )
            )
    return readings
