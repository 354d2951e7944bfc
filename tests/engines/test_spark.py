"""Pieces of work as tasks of Spark: the same results, and nothing said that should not be."""

from __future__ import annotations

import os
import pickle
import signal
import stat
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

from headcount.engines import LocalEngine
from headcount.engines.spark import SparkEngine, _HandedWork, _libraries, _refuse_others
from headcount.errors import ConfigError, HeadcountError, InputError, PrivacyError, _InputErrors
from headcount.run.protect import engine_named
from tests.engines.spark import spark

pytestmark = pytest.mark.spark
# Workers import nothing from the folder that they are started in, and so not this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SECRET = 918_273_645


def squared(number: int) -> int:
    """The square of a number."""
    return number * number


def refuses_seven(number: int) -> int:
    """An error of ours for one piece."""
    if number == 7:
        raise InputError("people.csv", place="age", found="seven", expected="another number")
    return number


def breaks(number: int) -> int:
    """An error that is not ours, with a count in its message."""
    raise ValueError(f"{SECRET} people")


def dies_once(mark: Path, number: int) -> int:
    """The worker that has piece 5 is killed the first time."""
    if number == 5:
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return number
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes down what it does."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def context(events: Path) -> Iterator[Any]:
    """One Spark for the module; its tasks are tried again, as on a cluster."""
    log = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    with spark({"spark.master": "local[2, 4]", **log}) as made:
        yield made


def written_by_spark(events: Path) -> bytes:
    """All that is in Spark's event logs."""
    return b"".join(file.read_bytes() for file in events.rglob("*") if file.is_file())


def test_results_come_in_the_order_of_the_pieces(context, monkeypatch):
    monkeypatch.setattr("headcount.engines.spark.PIECES", 4)  # several jobs
    found = list(SparkEngine().map(squared, iter(range(11))))
    assert found == list(LocalEngine(workers=1).map(squared, range(11)))
    assert found[-1] == 100


def test_no_pieces_are_no_results(context):
    assert list(SparkEngine().map(squared, [])) == []


def test_function_pieces_and_results_pass_by_files_that_go(context, events: Path, tmp_path: Path):
    left, right = np.array([SECRET, 7]), np.array([[SECRET], [3]])
    folder = tmp_path / "internal"
    seen = SparkEngine(folder).map(lambda piece: (left + piece, os.getpid()), iter(right))
    (first, process), (second, _) = seen
    assert first.tolist() == [2 * SECRET, SECRET + 7]
    assert second.tolist() == [SECRET + 3, 10]
    assert process != os.getpid()
    assert list(folder.iterdir()) == []
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    known = [number.to_bytes(4, "little") for number in (SECRET, 2 * SECRET)]
    known += [str(number).encode() for number in (SECRET, 2 * SECRET)]
    log = written_by_spark(events)
    assert b"SparkListenerTaskEnd" in log
    for form in [*known, *(one.hex().encode() for one in known)]:
        assert form not in log


def test_what_a_task_maps_in_turn_it_does_itself(context):
    inner = SparkEngine()
    found = list(
        SparkEngine().map(lambda n: [type(inner).__name__, *inner.map(squared, range(n))], [3])
    )
    assert found == [["InOrder", 0, 1, 4]]


def test_a_worker_that_does_not_share_the_folder_is_refused_by_name(tmp_path: Path):
    place = _HandedWork[int, int](tmp_path).put_pieces(0, [1])[0]
    with pytest.raises(
        ConfigError, match=r"worker .*: found no work in .*, expected the folder of"
    ):
        _HandedWork[int, int](tmp_path / "another").do(place)


def test_an_error_of_ours_is_the_same_error(context):
    with pytest.raises(InputError) as caught:
        list(SparkEngine().map(refuses_seven, range(9)))
    assert str(caught.value) == "people.csv: age: found seven, expected another number"
    assert caught.value.expected == "another number"


def test_of_another_error_the_message_is_not_passed_on(context, events: Path):
    with pytest.raises(Exception, match=r"ValueError in .*test_spark\.py, line \d+") as caught:
        list(SparkEngine().map(breaks, range(2)))
    assert str(SECRET) not in str(caught.value)
    assert str(SECRET).encode() not in written_by_spark(events)


def test_a_task_whose_worker_was_killed_is_made_again(context, tmp_path: Path):
    mark = tmp_path / "killed"
    assert list(SparkEngine().map(partial(dies_once, mark), range(8))) == list(range(8))
    assert mark.exists()


def test_a_worker_with_other_libraries_is_refused():
    _refuse_others(_libraries())
    with pytest.raises(ConfigError, match=r"worker .*: found numba .*, expected 0\.1, as on"):
        _refuse_others(dict(_libraries()) | {"numba": "0.1"})


def test_without_pyspark_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ConfigError, match=r"without PySpark, expected the extra headcount\[spark"):
        list(engine_named("spark", None).map(squared, [1]))


def test_spark_opens_no_port_to_others(context):
    assert context.uiWebUrl is None
    assert context.getConf().get("spark.driver.bindAddress") == "127.0.0.1"


def _told(error: HeadcountError) -> dict[str, object]:
    """All that an error says, with the errors that it holds told in the same way."""
    held = getattr(error, "errors", ())
    return {**vars(error), "errors": [(type(one), str(one), _told(one)) for one in held]}


@pytest.mark.parametrize(
    "error",
    [
        _InputErrors(
            "a.csv", [InputError("a.csv", place="b", found="c", expected="d")] * 2, number=2
        ),
        PrivacyError(source="a", place="b", found="c", expected="d"),
        ConfigError("a", found="c", expected="d"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_can_be_pickled(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert _told(again) == _told(error)
