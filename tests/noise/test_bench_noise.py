"""The benchmarks run, small, and name every figure asked of them."""

from headcount.noise.bench import bench_fit, bench_noise


def test_figures_are_complete():
    figures = bench_noise(bulk=20_000, units=100, opendp=500, repeats=1)
    bulk = [f for f in figures if f["pattern"] == "bulk"]
    samplers = [f["sampler"] for f in bulk]
    assert samplers.count("table") == samplers.count("OpenDP") == 4
    assert samplers.count("numpy float") == 2
    patterns = [f["pattern"] for f in figures[-2:]]
    assert patterns == ["release, 45 units a call", "release, 1 unit a call"]
    for figure in figures:
        assert figure["draws_per_second"] > 0  # type: ignore[operator]
        assert (figure["times_opendp"] is None) == (figure["sampler"] != "table")
    # 32 marginal scalars a unit, and a fifth of 192 cells give or take six standard errors
    live = figures[-2]["draws"] - 100 * 32  # type: ignore[operator]
    assert abs(live - 3840) < 6 * (19200 * 0.2 * 0.8) ** 0.5


def test_checks_are_complete():
    checks = bench_fit(draws=20_000, opendp=500)
    assert len(checks) == 4 * 7
    right = [check for check in checks if check["expected"]]
    assert {check["sample"] for check in right} == {
        "table",
        "OpenDP",
        "table and OpenDP, two samples",
    }
    assert all(check["passed"] for check in right)  # controls need the full size to be seen
