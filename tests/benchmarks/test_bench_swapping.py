"""The swapping benchmark, on a small workload."""

from benchmarks import run_benchmark


def test_rates_bytes_and_invariants_are_read_off():
    readings = {
        reading.what: reading for reading in run_benchmark("swapping", households=3_000).readings
    }
    for label in ("LO", "HI", "k = 3", "k = 3, floor", "targeted, k = 3"):
        assert readings[f"{label}: same seed, same bytes"].value == 1
        assert readings[f"{label}: swap and count again"].value > 0
        assert readings[f"{label}: blocks with other households"].value == 0
        assert readings[f"{label}: partners within the same state"].value == 100
    for label in ("LO", "HI", "k = 3"):
        assert readings[f"{label}: off the rate by"].value <= 1
    for label in ("LO", "k = 3", "k = 3, floor"):
        assert readings[f"{label}: blocks with other people"].value == 0
    assert readings["HI: blocks with other people"].value > 0
    assert readings["HI: households swapped"].value == 50
    assert readings["k = 3, floor: at risk and swapped"].value > 99
    assert "134.6" in readings["k = 3: swap and count again"].note
    assert readings["peak memory of the process"].value > 0
