"""What was compiled beforehand is not compiled again."""

import logging
import subprocess
import sys

import pytest

from headcount.errors import InputError
from headcount.testing import warm

AGAIN = """
import gc
from headcount.compiled import Kernel
from headcount.testing.warm import warm
warm(["rounding"])
loops = [loop for loop in gc.get_objects() if isinstance(loop, Kernel)]
print(sum(sum(loop.dispatcher._cache_misses.values()) for loop in loops if loop.made))
"""


def test_after_it_nothing_is_left_to_compile(caplog):
    with caplog.at_level(logging.INFO):
        assert warm.main(["rounding"]) == 0
    assert caplog.messages[0].startswith("Compiling loops, once for this version of headcount")
    assert caplog.messages[1].startswith("Done after ")
    again = subprocess.run(
        [sys.executable, "-c", AGAIN], capture_output=True, text=True, check=True
    )
    assert again.stdout == "0\n"


def test_a_process_that_fails_is_told(monkeypatch, caplog):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with caplog.at_level(logging.INFO):
        assert warm.main([]) == 2
    assert caplog.messages[1].startswith("Failed after ")


def test_a_run_that_is_not_known_is_refused():
    with pytest.raises(InputError, match=r"warm: runs: found tea, expected topdown, rounding"):
        warm.main(["rounding", "tea"])
