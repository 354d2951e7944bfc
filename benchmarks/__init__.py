"""Benchmarks: figures anyone can repeat, printed with the facts of the machine."""

from benchmarks.figures import Reading, Result
from benchmarks.harness import Benchmark, benchmarks, run_all, run_benchmark

__all__ = ["Benchmark", "Reading", "Result", "benchmarks", "run_all", "run_benchmark"]
