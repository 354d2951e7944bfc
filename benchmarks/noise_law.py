"""Does the noise follow its law at full size, and are the controls rejected that must be?"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from benchmarks.figures import Reading
from benchmarks.noise import LAWS, sample
from headcount.arrays import Ints
from headcount.noise import KeyedNoise, RunKey, Stream, TwoSidedGeometric
from headcount.noise.opendp_backend import opendp_sampler
from tests.support.noise_fit import cut_tail, double_zero, fit, fudged, two_sample

DRAWS = 10_000_000
REJECT = 1e-6
EPSILONS = ("0.25", "0.5", "0.75", "1", "2", "4", "6", "8")
SHARES = {"cells": "1/10", "hhgq": "9/40", "va_hisp_race": "27/40"}


def measure() -> list[Reading]:
    """P values of ours, OpenDP's and of every control; variances of the noise of the 2018 test."""
    return fit_readings() + variances()


def fit_readings(*, draws: int = DRAWS, opendp: int = 1_000_000) -> list[Reading]:
    """Test samples at full size against their law and OpenDP, with controls; p under 1e-6 fails.

    The controls are a scale 0.3 % too large or too small, a doubled zero and a missing tail.
    """
    readings = []
    for name, law in LAWS.items():
        ours = sample(law, draws).ravel()
        theirs = np.array(opendp_sampler(law)(opendp), dtype=np.int64)
        tested: list[tuple[str, Ints, bool]] = [
            ("table", ours, True),
            ("doubled zero", double_zero(law, ours), False),
            ("missing tail", cut_tail(law, ours), False),
            ("OpenDP", theirs, True),
        ]
        for factor in (Fraction(1003, 1000), Fraction(997, 1000)):
            wrong = sample(fudged(law, factor), draws).ravel()
            tested.append((f"scale x {float(factor)}", wrong, False))
        for label, values, right in tested:
            readings.append(_judged(f"{name}: {label}", fit(law, values).p, right=right))
        both = f"{name}: table and OpenDP, two samples"
        readings.append(_judged(both, two_sample(ours, theirs), right=True))
    return readings


def _judged(what: str, p: float, *, right: bool) -> Reading:
    verdict = "accepted" if p > REJECT else "rejected"
    surprise = "" if (p > REJECT) == right else ", NOT as it should be"
    return Reading(what, p, "p", verdict + surprise)


def variances(*, draws: int = DRAWS) -> list[Reading]:
    """Sampled over exact variance for every query and epsilon of the 2018 test on 1940 data."""
    noise = KeyedNoise(RunKey.from_os(), "bench", b"data", b"config")
    readings = []
    for epsilon in EPSILONS:
        for query, share in SHARES.items():
            rate = Fraction(epsilon) * Fraction(share) / 4 / 2  # a quarter a level, sensitivity 2
            stream = Stream(f"epsilon {epsilon}", query, draws)
            law = TwoSidedGeometric(rate)
            sample = noise.draw(stream, law, draws=range(1))
            exact = law.variance
            readings.append(
                Reading(
                    f"epsilon {epsilon}, {query}: sampled / exact variance",
                    float((sample.astype(float) ** 2).mean() / exact),
                    "ratio",
                    f"exact {exact:.4f}",
                )
            )
    return readings
