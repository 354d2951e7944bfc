"""The benchmark runs, small, and names every figure asked of it."""

from headcount.noise.bench import bench_noise


def test_figures_are_complete():
    figures = bench_noise(bulk=20_000, units=100, opendp=500)
    bulk = [f for f in figures if f["pattern"] == "bulk"]
    samplers = [f["sampler"] for f in bulk]
    assert samplers.count("table") == samplers.count("OpenDP") == 4
    assert samplers.count("numpy float") == 2
    assert [f["pattern"] for f in figures[-2:]] == [
        "release, 45 units a call",
        "release, 1 units a call",
    ]
    for figure in figures:
        assert figure["draws_per_second"] > 0  # type: ignore[operator]
        assert (figure["times_opendp"] is None) == (figure["sampler"] != "table")
    # 32 marginal scalars a unit, and a fifth of 192 cells give or take six standard errors
    live = figures[-1]["draws"] - 100 * 32  # type: ignore[operator]
    assert abs(live - 3840) < 6 * (19200 * 0.2 * 0.8) ** 0.5
