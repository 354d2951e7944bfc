"""Benchmarks: figures anyone can repeat, printed with the facts of the machine."""

from headcount.bench.figures import BENCHMARKS, Benchmark, Reading, run_benchmark

__all__ = ["BENCHMARKS", "Benchmark", "Reading", "run_benchmark"]
