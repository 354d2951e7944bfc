"""The benchmark of re-identification, on a small workload S."""

from benchmarks import run_benchmark


def test_swapping_hides_some_and_every_rate_has_its_guesses():
    readings = {
        reading.what: reading
        for reading in run_benchmark("reidentification", households=4000, replicates=2).readings
    }
    agree = [readings[f"{method}: binned agreement"].value for method in ("none", "lo", "hi")]
    assert agree[0] == 100 > agree[1] > agree[2]
    precision = [
        readings[f"{method}, perfect, all: precision"].value for method in ("none", "lo", "hi")
    ]
    assert precision[0] > precision[1] > precision[2]
    assert readings["none, perfect, nonmodal unique: precision"].value == 100
    beside = [reading.note for what, reading in readings.items() if what.endswith("precision")]
    assert all("modal guess" in note and "proportional guess" in note for note in beside)
