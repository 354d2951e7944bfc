"""Exact integer noise: run keys, keyed streams and samplers, with proofs in ``proofs/``."""

from headcount.noise._keys import RunKey, destroy_run_key, load_run_key, save_run_key
from headcount.noise.keyed import SAMPLER_VERSION, KeyedNoise
from headcount.noise.law import Law
from headcount.noise.laws import DiscreteGaussian, TwoSidedGeometric
from headcount.noise.source import KeyKind, Noise, Stream

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
