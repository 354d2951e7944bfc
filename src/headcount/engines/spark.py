"""Apache Spark: ranges of pieces of work are tasks, on this machine or on a cluster.

A task may be lost, repeated, or made twice at once: pieces are pure, so nothing differs then. What
an engine maps may hold true counts, and so may a result. Spark keeps what passes through it in
places of its own (logs, event logs, broadcast files, blocks on disk), so none of that passes
through it: it is given the name of a folder and numbers, and gives nothing back. Functions, pieces
and results are files in the folder (``_HandedWork``), which must be the same for all machines. All
that is in it begins with its digest, and is unpickled only if that is right. Of an error that is
not ours only its type and its place reach Spark: its message may have counts in it.
"""

from __future__ import annotations

import gc
import os
import pickle
import platform
import secrets
import shutil
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar

from headcount.engines import InOrder, handed_folder
from headcount.errors import ConfigError, HeadcountError, RunError
from headcount.processes import clean_import_path

T = TypeVar("T")
R = TypeVar("R")

FUNCTION = "function"
DIGEST_BYTES = 32


class _PiecePlace(NamedTuple):
    """Where a piece stands in the file of its job."""

    job: int
    number: int
    start: int
    end: int


class _Refused(NamedTuple):
    """An error of ours in place of a result: its message may have counts in it."""

    error: HeadcountError


@dataclass(frozen=True)
class _HandedWork(Generic[T, R]):
    """A folder with a function, files of pieces, and a file for each result."""

    folder: Path

    def put_function(self, function: Callable[[T], R]) -> None:
        """Write what is done with each piece."""
        with _private(self.folder / FUNCTION) as file:
            file.write(_sealed(function))

    def put_pieces(self, job: int, pieces: Iterable[T]) -> list[_PiecePlace]:
        """Write the pieces of a job into one file."""
        found, end = [], 0
        with _private(self.folder / f"pieces-{job}") as file:
            for number, piece in enumerate(pieces):
                start, end = end, end + file.write(_sealed(piece))
                found.append(_PiecePlace(job, number, start, end))
        return found

    def do(self, place: _PiecePlace) -> None:
        """Do one piece, in the process that is to do it, and write what came out, whole.

        An attempt that was made before, or is being made now, writes the same: the last one stays.
        """
        path = self.folder / f"pieces-{place.job}"
        try:
            with path.open("rb") as file:
                file.seek(place.start)
                piece = file.read(place.end - place.start)
        except FileNotFoundError:
            raise ConfigError(
                "engine",
                place=f"worker {socket.gethostname()}",
                found=f"no work in {self.folder}",
                expected="the folder of the run on a file system that all machines share",
            ) from None
        try:
            made = _function(self.folder)(_unsealed(piece, path))
        except HeadcountError as error:
            made = _Refused(error)
        target = self._result(place)
        attempt = target.with_name(f"{target.name}.{secrets.token_hex(6)}")
        with _private(attempt) as file:
            file.write(_sealed(made))
        attempt.replace(target)

    def take(self, place: _PiecePlace) -> R:
        """The result of one piece, whose file goes; or the error that was raised."""
        file = self._result(place)
        try:
            made = _unsealed(file.read_bytes(), file)
        except FileNotFoundError:
            raise RunError(f"{file}: the result of a piece of work is gone") from None
        file.unlink()
        if isinstance(made, _Refused):
            raise made.error
        return made  # type: ignore[no-any-return]

    def _result(self, place: _PiecePlace) -> Path:
        return self.folder / f"result-{place.job}-{place.number}"


def _private(path: Path) -> BinaryIO:
    """A new file that its owner alone can read, whatever the umask."""
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))


@lru_cache(maxsize=1)
def _function(folder: Path) -> Callable[[Any], Any]:
    """What is done, read once in each process: the name of the folder is new for each map."""
    path = folder / FUNCTION
    function: Callable[[Any], Any] = _unsealed(path.read_bytes(), path)
    # PySpark collects garbage after every task: without this each takes 0.1 s to walk through
    # all libraries that are loaded.
    gc.freeze()
    return function


def _sealed(thing: object) -> bytes:
    """Pickled, behind its digest.

    Also functions that are made inside others, which Python's own pickle cannot write.
    """
    import cloudpickle

    data = bytes(cloudpickle.dumps(thing))
    return sha256(data).digest() + data


def _unsealed(data: bytes, path: Path) -> Any:
    """What was pickled, if it is as it was written."""
    content = memoryview(data)[DIGEST_BYTES:]
    if sha256(content).digest() != data[:DIGEST_BYTES]:
        raise RunError(f"{path}: this file is not as it was written. Run the same command again.")
    return pickle.loads(content)


PIECES = 1024
"""Pieces in one of Spark's jobs: what the driver holds of pieces and results at a time."""

TASKS = 8
"""Tasks of a job for each core: starting one takes Spark some 20 ms, so that each has a range of
pieces, and there are enough of them for all cores to end at about the same time."""

LIBRARIES = ("headcount", "llvmlite", "numba", "numpy", "polars", "pyarrow", "scipy")
"""What the bits of a result depend on, besides Python."""


@dataclass(frozen=True)
class SparkEngine:
    """Spark as it is usually configured: spark-submit, spark-defaults.conf, PYSPARK_SUBMIT_ARGS.

    Without any, all cores of this machine. A task is a range of pieces: eight tasks for each core,
    or ``spark.default.parallelism`` says how many a job has.

    where
        folder   for the files that work is handed over by: as confidential as the data, and the
                 same for all machines; a temporary one of this machine if None
    """

    folder: Path | None = None

    def map(self, function: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """Yield the results in order; an error in one piece stops the rest."""
        context = _spark_context()
        usual = TASKS * context.defaultParallelism
        tasks = int(context.getConf().get("spark.default.parallelism", str(usual)))
        with self.private_folder() as own:
            work, waiting = _HandedWork[T, R](own), iter(pieces)
            work.put_function(function)
            do = partial(_do, work, _libraries())
            for job in count():
                places = work.put_pieces(job, islice(waiting, PIECES))
                if not places:
                    return
                for refused in (
                    context.parallelize(places, min(tasks, len(places))).map(do).collect()
                ):
                    if refused is not None:
                        raise refused
                yield from map(work.take, places)

    def private_folder(self) -> AbstractContextManager[Path]:
        """A new folder in that of the run, or among temporary files."""
        return handed_folder(self.folder)

    def __reduce__(self) -> tuple[type[InOrder], tuple[()]]:
        # A task cannot start tasks of Spark: what it maps in turn it does itself.
        return (InOrder, ())


def _spark_context() -> Any:
    """The running context, or a new one: without a web page or a port that others can reach."""
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkRuntimeError
    except ImportError:
        raise ConfigError(
            "engine",
            found="'spark' without PySpark",
            expected="the extra headcount[spark], which brings it",
        ) from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Else PySpark looks for Spark above the folder it is started in, before its own.
    os.environ.setdefault("SPARK_HOME", _spark_home())
    clean_import_path()  # Java, and so every Python that it starts, takes it over
    try:
        SparkContext._ensure_initialized()  # starts Java, which reads the usual configuration
    except PySparkRuntimeError:
        raise ConfigError(
            "engine",
            found="'spark', and no Java that starts",
            expected="Java 17 or newer on the path or in JAVA_HOME",
        ) from None
    settings = SparkConf()
    defaults = {
        "spark.app.name": "headcount",
        "spark.master": "local[*]",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
    }
    if settings.get("spark.master", "local").startswith("local"):
        defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for name, value in defaults.items():
        settings.setIfMissing(name, value)
    settings.set("spark.ui.showConsoleProgress", "false")  # commands have a bar of their own
    context = SparkContext.getOrCreate(settings)
    # Its Python is started in the same folder, and would import from there.
    context.environment["PYTHONSAFEPATH"] = "1"
    return context


def _spark_home() -> str:
    """Spark as PySpark brings it, or the other version that it can be told to bring."""
    import pyspark

    own = Path(pyspark.__file__).resolve().parent
    other = own / "spark-distribution"
    return str(other if (other / "bin" / "spark-submit").is_file() else own)


def lacking() -> list[str]:
    """What Spark needs and is not here."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    found = {"Java": java, "PySpark": find_spec("pyspark")}
    return [name for name, there in found.items() if not there]


@cache
def _libraries() -> Mapping[str, str]:
    """The version of each library that results depend on, and of Python."""
    return {"Python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def _do(
    work: _HandedWork[Any, Any], expected: Mapping[str, str], place: _PiecePlace
) -> ConfigError | None:
    """One piece on a worker; an error of its set-up comes back, and is not tried again."""
    try:
        _refuse_others(expected)
        work.do(place)
    except ConfigError as error:
        return error
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise RuntimeError(
            f"{type(error).__name__} in {last.filename}, line {last.lineno}"
        ) from None
    return None


def _refuse_others(expected: Mapping[str, str]) -> None:
    """Refuse a worker whose libraries are not the driver's: its bits could differ."""
    for name, wanted in expected.items():
        found = _libraries()[name]
        if found != wanted:
            raise ConfigError(
                "engine",
                place=f"worker {socket.gethostname()}",
                found=f"{name} {found}",
                expected=f"{wanted}, as on the driver",
            )
