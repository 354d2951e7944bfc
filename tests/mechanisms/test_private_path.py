"""No float between the true counts and the noisy integers, wherever the arrays pass."""

import sys
from fractions import Fraction
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import pytest

from headcount.mechanisms import Geometric, _base, _noisy, geometric
from headcount.noise import KeyedNoise, RunKey
from headcount.population import uniform
from headcount.tabulate import counts as counts_room
from headcount.tabulate import tabulate
from headcount_papers import averaged, raked
from headcount_papers.averaged import Averaged
from headcount_papers.raked import Raked

AFTER_THE_NOISE = {"rake", "run"}
"""Functions that take noisy integers and go on in floats: post-processing."""

ON_THE_WAY = [_base, _noisy, averaged, geometric, raked, counts_room]


def floats_on_the_way(work: Any, modules: list[ModuleType]) -> list[str]:
    """Run ``work`` and name every float (array or scalar) a function of these modules held."""
    files = {module.__file__ for module in modules}
    found: list[str] = []

    def look(frame: FrameType, event: str, result: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in files or code.co_name in AFTER_THE_NOISE:
            return None
        if event == "return":
            for name, value in [*frame.f_locals.items(), ("result", result)]:
                value = getattr(value, "data", value) if hasattr(value, "indptr") else value
                floating = isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fc"
                if floating or isinstance(value, float | complex):
                    found.append(f"{code.co_name}: {name}")
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        work()
    finally:
        sys.settrace(before)
    return found


def the_whole_way(mechanism: Any) -> Any:
    def work() -> None:
        truth = tabulate(uniform(people=2_000, depth=2, mean=50, seed=1))
        noise = KeyedNoise(RunKey.from_seed(1), mechanism.name, b"", b"")
        mechanism.on(truth.domain).run(truth, noise, runs=range(2))

    return work


@pytest.mark.parametrize("kind", [Geometric, Raked, Averaged])
def test_from_counts_to_noisy_counts_everything_is_integer(kind):
    mechanism = kind(epsilon=Fraction(1, 3))
    assert floats_on_the_way(the_whole_way(mechanism), ON_THE_WAY) == []


@pytest.mark.parametrize("kind", [Geometric, Raked, Averaged])
@pytest.mark.parametrize(
    ("line", "with_float"),
    [
        ("answers += self.times * truth\n", "answers = answers + truth * 1.0\n"),
        ("truth = self.counts.dense()\n", "truth = self.counts.dense() * 1.0\n"),
    ],
)
def test_one_float_in_a_copy_is_found(monkeypatch, kind, line, with_float):
    source = Path(_noisy.__file__).read_text(encoding="utf-8")
    assert line in source
    changed = ModuleType(_noisy.__name__)
    monkeypatch.setitem(sys.modules, _noisy.__name__, changed)
    body = source.replace(line, with_float)
    body = body.replace("answers += self.times * truth", "answers = answers + self.times * truth")
    exec(compile(body, _noisy.__file__, "exec"), vars(changed))
    for module in (averaged, geometric, raked):
        monkeypatch.setattr(module, "noisy_cells", vars(changed)["noisy_cells"])
    mechanism = kind(epsilon=Fraction(1, 3))
    assert floats_on_the_way(the_whole_way(mechanism), ON_THE_WAY)
