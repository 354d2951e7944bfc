"""The benchmark of the studio starts a real one, and asks it for pages."""

from __future__ import annotations

from benchmarks import studio
from headcount.init import Told, draft


def test_pages_of_a_small_folder_are_timed_against_their_limits():
    readings = studio.measure(share=0.0005, replicates=1)
    assert [one.at_most for one in readings] == [2.0, None, 0.5, 0.5]
    assert all(one.value > 0 for one in readings)


def test_the_made_up_table_is_read_as_counts_of_places(tmp_path):
    path = tmp_path / studio.FILE
    studio.precincts(0.001).write_parquet(path)
    made = draft(path, told=Told(kind="wide"))
    assert made.kind == "wide"
    assert list(made.places.columns) == ["state", "county", "unit"]
