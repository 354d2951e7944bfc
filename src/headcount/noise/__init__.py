"""Exact integer noise: run keys, keyed streams and samplers, with proofs in ``proofs/``."""

from headcount.noise.keyed import SAMPLER_VERSION, KeyedNoise
from headcount.noise.keys import RunKey, destroy_run_key, load_run_key, save_run_key
from headcount.noise.source import KeyKind, Noise, Stream

__all__ = [
    "SAMPLER_VERSION",
    "KeyKind",
    "KeyedNoise",
    "Noise",
    "RunKey",
    "Stream",
    "destroy_run_key",
    "load_run_key",
    "save_run_key",
]
