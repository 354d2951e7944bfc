"""Processes of Python that headcount starts: none imports from the folder that it works in.

That folder is often the one with the data, and a file ``polars.py`` that came with them would be
run in place of the library. ``-P`` keeps Python from looking there; what is on the path by another
way is left out here.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread, current_thread, main_thread
from time import sleep
from types import FrameType
from typing import Any

HOME = Path(__file__).resolve().parents[1]
"""Where headcount itself was imported from: always right, since it is running."""

FOLLOWS = "HEADCOUNT_FOLLOWS_STDIN"
"""The variable that lets a command end with the process at the other end of its input."""

PATIENCE = 10.0
"""Seconds that a process has to end after it was asked to."""


_STOPPED: list[int] = []
_ENDINGS: list[Callable[[], None]] = []


class Terminated(KeyboardInterrupt):
    """Somebody has asked this process to end: all that is done after Ctrl-C is done."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module by this very Python."""
    return [sys.executable, "-P", "-m", module, *arguments]


def import_places(*without: Path) -> tuple[str, ...]:
    """Where this process imports from, but for folders of data.

    Left out are the folder it works in, under any name, that of a script, and those given. The
    others are absolute: another process finds the same there from wherever it works.
    """
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    strange = {_real("."), *map(_real, without)}
    if main is not None and not sys.flags.safe_path:
        strange.add(_real(Path(main).parent))
    return tuple(dict.fromkeys(_absolute(strange - {_real(HOME)})))


def _absolute(strange: set[Path]) -> Iterator[str]:
    for place in sys.path:
        if Path(place).is_absolute() and _real(place) not in strange:
            yield place


def _real(place: str | Path) -> Path:
    return Path(os.path.realpath(place))


def environment(*without: Path) -> dict[str, str]:
    """The environment of another Python: it imports from where this one does, and see above.

    Also what that process starts in turn does so.
    """
    places = os.pathsep.join(import_places(*without))
    return os.environ | {"PYTHONPATH": places, "PYTHONSAFEPATH": "1"}


def clean_import_path() -> None:
    """Let no Python that a library starts import from the folder of this process.

    An empty or relative name in ``PYTHONPATH`` is there, or below it.
    """
    places = os.environ.pop("PYTHONPATH", "").split(os.pathsep)
    named = [one for one in places if Path(one).is_absolute()]
    if kept := [one for one in named if _real(one) != _real(".") or _real(one) == _real(HOME)]:
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)


def apart() -> dict[str, Any]:
    """How a process is started that answers this one: a signal to a whole group is not for it.

    Else Ctrl-C would end a solver before its caller, who would take that for an answer.
    """
    return {"env": environment(), **({"process_group": 0} if os.name == "posix" else {})}


def when_stopped(end: Callable[[], None]) -> Callable[[], None]:
    """Call this first when somebody stops the command: it ends what threads are waiting for."""
    _ENDINGS.append(end)
    return end


def was_stopped() -> bool:
    """Whether somebody has stopped the command."""
    return bool(_STOPPED)


def refuse_stopped() -> None:
    """In a thread of a command that was stopped: no further, and nothing is taken for a result."""
    if _STOPPED:
        raise Terminated(_STOPPED[0])


def own_process() -> None:
    """For a command, whose process is headcount's own.

    Being asked to end does what Ctrl-C does, but for a signal that is ignored, as ``nohup`` does;
    the process ends with the one that it follows; and whatever Python a library starts imports
    nothing from the folder that this one works in.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    clean_import_path()
    usual = (signal.SIG_DFL, signal.default_int_handler)
    for name in ("SIGINT", "SIGTERM", "SIGHUP") if current_thread() is main_thread() else ():
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) in usual:
            signal.signal(number, _stop)
    if os.environ.pop(FOLLOWS, ""):
        Thread(target=_follow, daemon=True).start()


def _stop(number: int, frame: FrameType | None) -> None:
    _STOPPED.append(number)
    for end in _ENDINGS:
        end()
    raise Terminated(number)


def _follow() -> None:
    """End when the other end of the input is closed, however that came."""
    while os.read(0, 1):
        continue
    os.kill(os.getpid(), signal.SIGTERM)
    sleep(PATIENCE)
    os._exit(128 + signal.SIGTERM)  # it is at something that cannot be interrupted
