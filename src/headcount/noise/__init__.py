"""Exact integer noise: run keys, keyed streams and samplers, with proofs in ``proofs/``."""

from headcount.noise.keyed import SAMPLER_VERSION, KeyedNoise
from headcount.noise.keys import RunKey, destroy_run_key, load_run_key, save_run_key
from headcount.noise.opendp_backend import OpenDPNoise
from headcount.noise.source import KeyKind, Noise, Stream
from headcount.noise.variance import (
    discrete_gaussian_variance,
    geometric_ratio_variance,
    geometric_variance,
)

__all__ = [
    "SAMPLER_VERSION",
    "KeyKind",
    "KeyedNoise",
    "Noise",
    "OpenDPNoise",
    "RunKey",
    "Stream",
    "destroy_run_key",
    "discrete_gaussian_variance",
    "geometric_ratio_variance",
    "geometric_variance",
    "load_run_key",
    "save_run_key",
]
