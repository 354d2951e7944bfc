"""Benchmarks: figures anyone can repeat, printed with the facts of the machine."""

from headcount.bench.figures import Benchmark, Reading, benchmarks, run_benchmark

__all__ = ["Benchmark", "Reading", "benchmarks", "run_benchmark"]
