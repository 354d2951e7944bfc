"""Compiled code is kept for exactly what it was made from, made once, and not made for little."""

import json
import logging
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from numba.core import event
from numba.core.registry import CPUDispatcher

import headcount
from headcount import compiled, loops, processes
from headcount.compiled import Kernel, digest, forced, kernel, njit
from headcount.processes import Terminated

PACKAGE = Path(headcount.__file__).parent
FILES = {
    "__init__": "",
    "plain": "FACTOR = 3\n\ndef unused():\n    return 1\n",
    "pairs": "from typing import NamedTuple\n\nclass Pair(NamedTuple):\n    a: int\n    b: int\n",
    "below": """
from headcount.compiled import njit
from tiny.plain import FACTOR

@njit
def times(x):
    '''What it does.'''
    return FACTOR * x
""",
    "above": """
from __future__ import annotations
from headcount.compiled import kernel
from tiny.below import times
from tiny.pairs import Pair

@kernel
def total(values, pair: Pair):
    out = pair.a - pair.b
    for v in values:
        out += times(v)
    return out
""",
    "beside": """
from headcount.compiled import kernel

@kernel
def first(values):
    return values[0]
""",
}
RUN = """
import json, logging, sys
sys.path.insert(0, sys.argv[1])
logging.basicConfig(level=logging.WARNING, format="%(message)s")
import numpy as np
from headcount.compiled import forced
from tiny import above, below, beside, pairs
values = np.arange(5)
with forced("compiled"):
    found = [above.total(values, pairs.Pair(7, 2)), beside.first(values)]
loops = above.total, below.times, beside.first
made = {loop.__name__: sum(loop.dispatcher._cache_misses.values()) for loop in loops}
print(json.dumps([[int(value) for value in found], made]))
"""

# Loads numba once, and forks. A line of JSON starts a process, or waits for the one of a number.
SERVE = """
import json, os, sys, traceback
import headcount.loops
for line in sys.stdin:
    job = json.loads(line)
    if isinstance(job, int):
        print(os.waitstatus_to_exitcode(os.waitpid(job, 0)[1]), flush=True)
    elif (process := os.fork()):
        print(process, flush=True)
    else:
        for number, name in ((1, "out"), (2, "said")):
            os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.environ["XDG_CACHE_HOME"] = job["cache"]
        sys.argv[1:], sys.dont_write_bytecode, code = [job["folder"]], True, 1
        try:
            exec(job["script"], {"__name__": "__main__"})
            code = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)
"""


class Server:
    """Processes in which numba is loaded, and no loop."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVE], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, job: Any) -> int:
        """Start a process, and get its number; or wait for it, and get its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def tiny(tmp_path, server):
    """A package of three loops of which nothing is compiled."""
    return Tiny(tmp_path, server)


@pytest.fixture(scope="module")
def once(tmp_path_factory, server):
    """A package that is compiled."""
    made = Tiny(tmp_path_factory.mktemp("once"), server)
    assert made.made() == {"total", "times", "first"}
    return made


@pytest.fixture
def ready(tiny, once):
    """A package of three loops, all of them compiled, but at another place."""
    shutil.copytree(once.cache, tiny.cache)
    return tiny


class Tiny:
    """A package, and what a process of its own compiles of it."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder = folder
        self.server = server
        self.cache = folder / "cache"
        self.write("here")

    def write(self, where: str, **changed: str) -> None:
        package = self.folder / where / "tiny"
        package.mkdir(parents=True, exist_ok=True)
        for name, text in (FILES | changed).items():
            (package / f"{name}.py").write_text(text, encoding="utf-8")

    def start(self, where: str = "here", *, name: str = "one") -> int:
        place = {"folder": str(self.folder / where), "cache": str(self.cache)}
        files = {kind: str(self.folder / f"{name}.{kind}") for kind in ("out", "said")}
        return self.server.ask({"script": RUN, **place, **files})

    def ended(self, process: int, found: tuple[int, int], *, name: str = "one") -> dict[str, int]:
        """What was compiled, and how often; the answers are looked at as well."""
        code = self.server.ask(process)
        self.said = (self.folder / f"{name}.said").read_text()
        assert code == 0, self.said
        answers, made = json.loads((self.folder / f"{name}.out").read_text())
        assert answers == list(found)
        return dict(made)

    def run(self, script: str) -> str:
        """What another program says that uses the package."""
        command = [sys.executable, "-B", "-c", script, str(self.folder / "here")]
        environment = os.environ | {"XDG_CACHE_HOME": str(self.cache)}
        return subprocess.run(
            command, env=environment, text=True, stdout=subprocess.PIPE, check=True
        ).stdout

    def made(self, where: str = "here", *, found: tuple[int, int] = (35, 0)) -> set[str]:
        """What was compiled."""
        compiled_now = self.ended(self.start(where), found)
        return {name for name, times in compiled_now.items() if times}

    def kept(self, kind: str) -> list[Path]:
        return sorted(self.cache.rglob(f"*.{kind}"))


def test_a_second_copy_and_a_comment_compile_nothing(once):
    assert once.made() == set()
    once.write("there")
    assert once.made("there") == set()
    comment = FILES["below"].replace("return", "# why\n    return").replace("does", "does now")
    once.write("there", below=comment)
    assert once.made("there") == set()
    assert all(path.parent.stat().st_mode & 0o777 == 0o700 for path in once.kept("nbi"))


@pytest.mark.parametrize(
    ("changed", "found", "made"),
    [
        ({"below": FILES["below"].replace("* x", "+ x")}, (30, 0), {"total", "times"}),
        ({"plain": "FACTOR = 4\n"}, (45, 0), {"total", "times"}),
        ({"above": FILES["above"].replace("- pair", "+ pair")}, (39, 0), {"total"}),
        ({"pairs": FILES["pairs"].replace("a: int\n    b", "b: int\n    a")}, (25, 0), {"total"}),
        ({"beside": FILES["beside"].replace("[0]", "[1]")}, (35, 1), {"first"}),
    ],
    ids=["callee", "constant", "caller", "fields", "elsewhere"],
)
def test_an_edit_compiles_what_it_changes_and_no_more(ready, changed, found, made):
    ready.write("here", **changed)
    assert ready.made(found=found) == made


def test_two_processes_on_one_empty_cache_compile_once(tiny):
    both = {name: tiny.start(name=name) for name in ("one", "other")}
    made = [tiny.ended(process, (35, 0), name=name) for name, process in both.items()]
    assert {name: made[0][name] + made[1][name] for name in made[0]} == {
        "total": 1,
        "times": 1,
        "first": 1,
    }


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"no pickle"])
def test_what_cannot_be_read_is_made_anew(ready, kind, content):
    (damaged,) = (path for path in ready.kept(kind) if "first" in path.name)
    damaged.write_bytes(content)
    assert ready.made() == {"first"}
    assert "cannot be read, so it is made anew" in ready.said
    assert ready.made() == set()


def test_where_nothing_can_be_kept_loops_run_all_the_same(tiny):
    tiny.cache.write_text("no folder")
    assert tiny.made() == {"total", "times", "first"}
    assert tiny.said.count("compiled loops cannot be kept, so each run compiles them anew") == 1


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A cache of which nothing is known, and loops for which 50 steps each are worth compiling."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiled, "COMPILING", 50)
    monkeypatch.setattr(double, "kept", None)
    return tmp_path


def test_little_work_is_interpreted_until_it_is_worth_compiling(empty):
    values = np.arange(20)
    outer: Any = kernel(work=lambda values: 2 * len(values))(doubled)  # 40 of 100
    assert [int(outer(values)) for _ in range(2)] == [380, 380]
    assert (outer.spent, outer.limit, len(outer.overloads)) == (80, 100, 0)
    assert not list(empty.rglob("*.nbi"))
    assert outer(values) == 380
    assert (outer.spent, len(outer.overloads)) == (80, 1)
    again: Any = kernel(work=lambda values: 2 * len(values))(doubled)
    assert again(values[:1]) == 0, "with numba, what is kept is loaded, however little there is"
    assert (again.spent, len(again.overloads)) == (0, 1)
    assert sum(again.dispatcher._cache_hits.values()) == 1


LITTLE = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from headcount import compiled
from tiny import above, beside, pairs
few, many = np.arange(5), np.arange(compiled.LOADING - 10)
there = lambda: "numba" in sys.modules
assert above.total(few, pairs.Pair(7, 2)) == 35 and not there()
assert beside.first(many) == 0 and not there()
assert above.total(few, pairs.Pair(7, 2)) == 35 and not there()  # all of them together
assert above.total(few, pairs.Pair(7, 2)) == 35 and there()
print(len(above.total.overloads), sum(above.total.dispatcher._cache_hits.values()))
"""


def test_a_process_with_little_work_loads_no_numba(once):
    """And one with more loads what is kept."""
    assert once.run(LITTLE) == "1 1\n"


def test_work_is_counted_over_processes(empty):
    for spent in (40, 80):
        outer: Any = kernel(work=2)(doubled)
        assert outer(np.arange(20)) == 380
        assert (outer.spent, len(outer.overloads)) == (spent, 0)
    outer = kernel(work=2)(doubled)
    assert outer(np.arange(20)) == 380
    assert len(outer.overloads) == 1
    (note,) = empty.rglob("*.spent")
    note.write_text("nonsense")
    assert outer._cache.spent() == 0


@njit
def double(x):
    return x + x


def doubled(values):
    total = 0
    for v in values:
        total += double(v)
    return total


def test_a_loop_that_only_loops_call_is_interpreted_from_python():
    alone: Any = njit(doubled)
    with forced("compiled"):
        assert alone(np.arange(3)) == 6
    assert not alone.overloads


def test_where_numba_is_told_not_to_compile_loops_are_interpreted(empty, monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    outer: Any = kernel(doubled)
    with forced("compiled"):
        assert outer(np.arange(3)) == 6
    assert not outer.overloads


def test_a_loop_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(double)) is double


def test_work_is_the_size_of_all_arguments():
    assert compiled._elements((np.zeros((2, 3)), 5, (np.zeros(4), (np.zeros(1), 7)))) == 11


WRAPPED = 6364136223846793005


@kernel
def wrap(words):
    state = np.int64(1442695040888963407)
    for w in words:
        state = state * WRAPPED + w
        state ^= state >> 29
    return state


@kernel
def divide(a, b):
    return a[0] / b[0]


def test_whole_numbers_wrap_both_ways():
    words = np.arange(50)
    with forced("interpreted"), np.errstate(all="raise"):
        slow = wrap(words)
    with forced("compiled"):
        assert int(slow) == wrap(words)


def test_a_division_by_zero_ends_both_ways():
    one, nothing = np.ones(1), np.zeros(1)
    with forced("interpreted"), pytest.raises(FloatingPointError):
        divide(one, nothing)
    with forced("compiled"), pytest.raises(ZeroDivisionError):
        divide(one, nothing)


def test_a_loop_that_names_what_has_no_digest_is_refused():
    with pytest.raises(TypeError, match=r"names_a_path: found PACKAGE, which is PosixPath; exp"):
        digest(names_a_path)


def names_a_path():
    return PACKAGE


def test_every_loop_says_once_how_it_is_compiled():
    """No fast mathematics, no threads that add up in any order, no library chosen by processor."""
    kernels = {
        str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
        if path.name not in ("compiled.py", "loops.py")
    }
    loops = {name for name, text in kernels.items() if "headcount.compiled import" in text}
    assert len(loops) > 10
    for freedom in ("fastmath=", "parallel=", "np.dot(", "np.linalg"):
        assert [name for name in loops if freedom in kernels[name]] == []
    assert [name for name, text in kernels.items() if "from numba import" in text] == []
    always = [
        name for text in kernels.values() for name in re.findall(r"work=None\)\ndef (\w+)", text)
    ]
    assert always == [], "a loop that is never interpreted says why"


def test_a_product_and_a_sum_are_rounded_one_after_the_other():
    """Joined into one, as some processors can, they would leave a rest here."""
    a = 1 + 2.0**-30
    with forced("compiled"):
        assert left_over(a, a, a * a) == 0


@kernel
def left_over(a, b, c):
    return a * b - c


def test_nobody_waits_for_a_process_that_is_stopped(empty, monkeypatch, caplog):
    monkeypatch.setattr(loops, "WAIT", 0.1)
    outer: Any = kernel(doubled)
    path = outer._cache._index.with_suffix(".lock")
    path.parent.mkdir(parents=True)
    with FileLock(path), caplog.at_level(logging.INFO), forced("compiled"):
        assert outer(np.arange(3)) == 6
    assert "doubled" in caplog.text
    assert "compiled without waiting for others" in caplog.text


def test_compiling_is_said_once(empty, caplog):
    loops._say_once.cache_clear()
    with caplog.at_level(logging.INFO), forced("compiled"):
        for loop in (kernel(doubled), kernel(doubled)):
            assert isinstance(loop, Kernel)
            assert loop(np.arange(3)) == 6
    assert caplog.messages == [
        "compiling loops, once for this version of headcount: some seconds each"
    ]


class Stops(event.Listener):
    """Somebody stops the command at the third step of compiling."""

    steps = 0

    def on_start(self, event):
        self.steps += 1
        if self.steps == 3:
            processes._STOPPED.append(signal.SIGTERM)

    def on_end(self, event):
        """Nothing to do."""


@pytest.fixture
def running(monkeypatch):
    monkeypatch.setattr(processes, "_STOPPED", [])


def test_compiling_ends_soon_after_somebody_stops_the_command(empty, running):
    """Not when it is done, which a thread of the command would wait for."""
    outer: Any = kernel(doubled)
    with (
        event.install_listener("numba:run_pass", Stops()) as stops,
        forced("compiled"),
        ThreadPoolExecutor(1) as pool,
        pytest.raises(Terminated, match="SIGTERM"),
    ):
        pool.submit(outer, np.arange(3)).result()
    assert stops.steps == 3
    assert not list(empty.rglob("*.nbi"))
    with pytest.raises(Terminated):  # nor does any other loop begin, compiled or interpreted
        outer(np.arange(3))


def test_a_signal_that_the_compiler_loses_is_no_fault_of_a_loop(empty, running, monkeypatch):
    def lose(loop, sig):
        raise RuntimeError("no compiled object yet")

    monkeypatch.setattr(CPUDispatcher, "compile", lose)
    outer: Any = kernel(doubled)
    with forced("compiled"), pytest.raises(RuntimeError, match="no compiled object yet"):
        outer(np.arange(3))

    def lose_signal(loop, sig):
        processes._STOPPED.append(signal.SIGINT)
        lose(loop, sig)

    monkeypatch.setattr(CPUDispatcher, "compile", lose_signal)
    with forced("compiled"), pytest.raises(Terminated, match="SIGINT"):
        outer(np.arange(3))


def test_a_stopped_command_does_not_wait_for_what_another_process_compiles(
    empty, running, monkeypatch
):
    class Held(FileLock):
        def acquire(self, *_: Any, **more: Any) -> Any:
            processes._STOPPED.append(signal.SIGTERM)
            assert more["cancel_check"]()
            raise TimeoutError

    monkeypatch.setattr(loops, "FileLock", Held)
    outer: Any = kernel(doubled)
    with forced("compiled"), pytest.raises(Terminated):
        outer(np.arange(3))
