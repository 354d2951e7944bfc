"""The benchmark of person swapping and the linkage attack, on a small workload S."""

from benchmarks import run_benchmark
from benchmarks.linkage import KINDS


def test_it_measures_every_kind_and_names_its_readings():
    readings = run_benchmark("linkage", households=3000).readings
    attacks = [reading for reading in readings if "linkage attack" in reading.what]
    assert len(attacks) == len(KINDS)
    assert all("person 0.0" in reading.note for reading in attacks)  # everyone was swapped
    assert sum("every block group: swap" in reading.what for reading in readings) == 2 * len(KINDS)
    assert all(reading.unit == "CPU s" for reading in readings)
