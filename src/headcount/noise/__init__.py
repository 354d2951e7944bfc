"""Exact integer noise: run keys, keyed streams and samplers, with proofs in ``proofs/``."""

from headcount.noise.keyed import SAMPLER_VERSION, KeyedNoise
from headcount.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric
from headcount.noise.source import (
    KeyKind,
    Noise,
    RunKey,
    Stream,
    destroy_run_key,
    load_run_key,
    save_run_key,
)

__all__ = [
    "SAMPLER_VERSION",
    "DiscreteGaussian",
    "KeyKind",
    "KeyedNoise",
    "Law",
    "Noise",
    "RunKey",
    "Stream",
    "TwoSidedGeometric",
    "destroy_run_key",
    "load_run_key",
    "save_run_key",
]
