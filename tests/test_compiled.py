"""Compiled code is kept for exactly the sources it was made from."""

import shutil
from pathlib import Path

import headcount
from headcount import compiled

PACKAGE = Path(headcount.__file__).parent


def test_the_cache_changes_with_any_source(tmp_path, monkeypatch):
    copy = tmp_path / "headcount"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = compiled.cache_folder(copy)
    assert before.parent == tmp_path / "cache" / "headcount"
    assert compiled.cache_folder(copy) == before
    kernel = copy / "solve" / "_paths.py"
    kernel.write_text(kernel.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    assert compiled.cache_folder(copy) != before


def test_every_kernel_goes_through_the_one_cache():
    direct = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "from numba import" in path.read_text(encoding="utf-8") and path.name != "compiled.py"
    ]
    assert direct == []


def test_no_compiled_loop_may_be_rounded_by_the_machine_that_runs_it():
    """No fast mathematics, no threads that add up in any order, no library chosen by processor."""
    kernels = {
        path.name: path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
        if "import njit" in path.read_text(encoding="utf-8")
    }
    assert len(kernels) > 10
    for freedom in ("fastmath=", "parallel=", "np.dot(", "np.linalg"):
        assert [name for name, text in kernels.items() if freedom in text] == []


def test_a_product_and_a_sum_are_rounded_one_after_the_other():
    """Joined into one, as some processors can, they would leave a rest here."""

    @compiled.njit(nogil=True)
    def left(a: float, b: float, c: float) -> float:
        return a * b - c

    a = 1 + 2.0**-30
    assert left(a, a, a * a) == 0
