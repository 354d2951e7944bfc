"""The benchmark of the noise runs, small, and names every figure asked of it."""

from benchmarks.noise import measure, release_draws


def test_speeds_are_complete():
    readings = measure(bulk=20_000, units=100, opendp=500, repeats=1)
    samplers = [one.what.rsplit(", ", 1)[1] for one in readings if one.what.startswith("bulk")]
    assert samplers.count("table") == samplers.count("OpenDP") == 4
    assert samplers.count("numpy float") == 2
    assert [one.what.split(":")[0] for one in readings[-2:]] == [
        "release, 45 units a call",
        "release, 1 unit a call",
    ]
    for reading in readings:
        assert reading.value > 0
        assert reading.note.endswith("x OpenDP") == reading.what.endswith("table")


def test_a_release_draws_all_marginals_and_the_live_cells():
    _, draws = release_draws(100, 100, per_call=45)
    # 32 marginal scalars a unit, and a fifth of 192 cells give or take six standard errors
    assert abs(draws - 100 * 32 - 3840) < 6 * (19200 * 0.2 * 0.8) ** 0.5
