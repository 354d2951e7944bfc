"""What loads when nothing is asked for: no heavy library."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("polars", "pyarrow", "numba", "scipy", "altair", "opendp", "pandas", "dp_accounting")
HELP = """
import sys
sys.argv = ["headcount", "--help"]
from headcount.cli.app import main
try:
    main()
except SystemExit as ended:
    assert ended.code == 0
"""


@pytest.mark.parametrize("script", ["import headcount", HELP], ids=["import", "help"])
def test_nothing_heavy_is_loaded(script: str):
    check = f"\nimport sys; sys.stderr.write(','.join(m for m in {HEAVY} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script + check], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


def test_the_check_can_fail():
    script = (
        f"import polars, sys; sys.stderr.write(','.join(m for m in {HEAVY} if m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "polars" in done.stderr.split(",")


def test_every_public_name_loads_on_first_use():
    import headcount

    for name in headcount.__all__:
        assert getattr(headcount, name) is not None
    assert set(headcount.__all__) <= set(dir(headcount))
    with pytest.raises(AttributeError, match="module 'headcount' has no attribute 'nothing'"):
        getattr(headcount, "nothing")  # noqa: B009


def test_every_mechanism_has_its_class_at_the_top():
    import headcount
    from headcount.registry import MECHANISMS

    for name in MECHANISMS.ours:
        kind = MECHANISMS.get(name)
        assert getattr(headcount, kind.__name__) is kind
