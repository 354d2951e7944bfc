"""What Spark writes: neither the key of a run nor a true count, in whatever form."""

from __future__ import annotations

import os
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import cloudpickle
import numpy as np
import pytest
from scipy.sparse import csr_array

from headcount.domain import Domain
from headcount.engines import InOrder
from headcount.engines.spark import SparkEngine
from headcount.errors import RunError
from headcount.geography.geography import regular
from headcount.mechanisms import Context, Tabulated, protect
from headcount.noise import KeyedNoise, RunKey, save_run_key
from headcount.noise.source import KeyKind
from headcount.run.protect import protect_run
from headcount.schema import Attribute, Schema
from headcount.storage import storage_at
from headcount.tabulate import Counts
from headcount.topdown.mechanism import TopDown
from tests.engines.search import forms_of, found
from tests.engines.spark import end_java, spark

pytestmark = pytest.mark.spark
# Workers import nothing from the folder that they are started in, and so not this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

PLANTED, CONTROL = 918_273_645_546, 817_364_529_635
"""Numbers that nothing else is: a true count, and one that is put into Spark's files on purpose."""
KEY, CONTROL_KEY = (bytes(range(start, start + 32)) for start in (140, 60))

PLAIN = {
    f"spark.{name}": "false"
    for name in ("eventLog", "broadcast", "shuffle", "shuffle.spill", "rdd", "checkpoint")
}
"""Nothing is compressed, so that a search sees it."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes its events, messages, blocks, broadcast variables and temporary files."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module", autouse=True)
def context(files: Path) -> Iterator[Any]:
    """One Spark for the module, which writes whatever it can."""
    (files / "events").mkdir()
    settings = {f"{name}.compress": value for name, value in PLAIN.items()} | {
        "spark.master": "local[2, 2]",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (files / "events").as_uri(),
        "spark.local.dir": str(files / "local"),
    }
    end_java()  # one that ran before would go on writing where it did
    from pyspark import SparkContext

    (files / "said").mkdir()
    with (files / "said" / "all").open("wb") as said, written_to(said):
        SparkContext._ensure_initialized()  # Java and Python's workers write where this one does
    with spark(settings) as made:
        yield made


@contextmanager
def written_to(file: BinaryIO) -> Iterator[None]:
    """What this process, and each that it starts, writes to output and error goes to a file."""
    before = [(number, os.dup(number)) for number in (1, 2)]
    try:
        for number, _ in before:
            os.dup2(file.fileno(), number)
        yield
    finally:
        for number, copy in before:
            os.dup2(copy, number)
            os.close(copy)


def truth() -> Tabulated:
    """A few places, in one of which there is a count that can be searched for."""
    schema = Schema((Attribute("age", ("young", "old")), Attribute("sex", ("f", "m"))))
    place = regular(children=3, depth=2)
    people = np.arange(36).reshape(9, 4)
    people[:, 2] = 0
    people[4, 2] = PLANTED  # and so at every level above
    return Tabulated.of(Counts(Domain(schema, place), place.leaf, csr_array(people)))


def secret_noise(folder: Path, data: Tabulated) -> KeyedNoise:
    """Noise of a key that is kept in a file, as a run has it."""
    folder.mkdir()
    key = RunKey(kind=KeyKind.OS, material=KEY)
    save_run_key(key, folder / "run.key")
    return KeyedNoise(key, "topdown", data.digest, b"config")


def test_the_search_finds_what_is_put_there_on_purpose(context, files: Path):
    """Controls: a count in a message, which Spark also writes out, and a key in what is broadcast.

    Without them a search that looks in the wrong places would find nothing either.
    """

    held = context.broadcast(CONTROL_KEY)

    def fails(_: int) -> None:
        raise ValueError(f"{CONTROL} people, {len(held.value)} bytes")

    with pytest.raises(Exception, match=str(CONTROL)):
        context.parallelize([1], 1).map(fails).collect()
    assert found(files / "events", CONTROL) == {"text"}
    assert "text" in found(files / "said", CONTROL)
    assert "bytes" in found(files / "local", CONTROL_KEY)


@pytest.mark.parametrize("secret", [CONTROL, CONTROL_KEY], ids=["count", "key"])
def test_every_form_of_a_secret_would_be_found(secret: int | bytes, tmp_path: Path):
    for name, form in forms_of(secret).items():
        assert len(form) >= 4
        (tmp_path / "file").write_bytes(b"before" + form + b"after")
        assert name in found(tmp_path, secret)
    text = str(CONTROL).encode()
    for before in range(6):
        (tmp_path / "file").write_bytes(b64encode(b"#" * before + text + b"###"))
        assert any("text, base64" in name for name in found(tmp_path, CONTROL))


def test_a_run_leaves_neither_its_key_nor_a_count_in_the_files_of_spark(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rows = ["1,11,5,7", f"1,12,0,{PLANTED}", "2,21,3,0", "2,22,8,0"]
    (tmp_path / "counts.csv").write_text("\n".join(["county,tract,f,m", *rows]) + "\n")
    (tmp_path / "sex.toml").write_text('[[attribute]]\nname = "sex"\nlevels = ["f", "m"]\n')
    (tmp_path / "config.toml").write_text(
        '[population]\nkind = "counts"\nfile = "counts.csv"\nschema = "sex.toml"\n'
        '[population.geography]\ncolumns = ["county", "tract"]\n'
        '[mechanism]\nname = "topdown"\nepsilon = 1\n[run]\nout = "run"\n'
    )
    key = RunKey(kind=KeyKind.OS, material=KEY)
    monkeypatch.setattr("headcount.run.protect._new_key", lambda _: key)
    protect_run(tmp_path / "config.toml", engine="spark")
    assert list((files / "events").iterdir())
    assert found(files, PLANTED, KEY) == set()
    assert found(tmp_path / "run", KEY) == set()  # destroyed
    assert not (tmp_path / "run" / "internal" / "levels").exists()


def tells(task: Callable[[Any], Any], piece: Any) -> None:
    """A fault that puts a true count and the key into the message of an error."""
    measurements = task.__self__.measurements.source  # type: ignore[attr-defined]
    level = task.__self__.level.name  # type: ignore[attr-defined]
    true = measurements._truth.rows(level, range(measurements._truth.units(level)))
    noise = measurements._noise
    raise ValueError(f"{true.value.tolist()} people, key {noise._made_from[0].material.hex()}")


class Failing(SparkEngine):
    """Spark, every task of which fails."""

    def map(self, function: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[Any]:
        return super().map(partial(tells, function), pieces)


class Telling(InOrder):
    """The same fault, here."""

    def map(self, function: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[Any]:
        return super().map(partial(tells, function), pieces)


def test_nor_does_a_task_that_fails_with_both_in_its_message(files: Path, tmp_path: Path):
    data = truth()
    noise = secret_noise(tmp_path / "internal", data)
    here = Context(engine=Telling())  # the same fault in this process would tell
    with pytest.raises(ValueError, match=str(PLANTED)) as control:
        protect(data, TopDown(epsilon=1), noise, context=here)
    assert KEY.hex() in str(control.value)
    work = Context(engine=Failing(tmp_path), workspace=storage_at(tmp_path / "work"))
    with pytest.raises(Exception, match=r"ValueError in .*test_spark_secrets\.py") as caught:
        protect(data, TopDown(epsilon=1), noise, context=work)
    said = str(caught.value)
    assert not any(form.decode("latin-1") in said for form in forms_of(PLANTED).values())
    assert not any(form.decode("latin-1") in said for form in forms_of(KEY).values())
    assert found(files, PLANTED, KEY) == set()
    assert not (tmp_path / "work" / "truth").exists()


def test_a_worker_without_the_key_file_says_so(tmp_path: Path):
    data = truth()
    noise = secret_noise(tmp_path / "internal", data)
    (tmp_path / "internal" / "run.key").unlink()
    work = Context(engine=SparkEngine(tmp_path), workspace=storage_at(tmp_path / "work"))
    with pytest.raises(RunError, match=r"run\.key: found no key file on .*, expected the run's"):
        protect(data, TopDown(epsilon=1), noise, context=work)


def test_a_release_without_a_run_directory_has_a_private_folder_which_goes(tmp_path: Path):
    spark_here = Context(engine=SparkEngine(tmp_path / "private"))
    made = protect(truth(), TopDown(epsilon=1), seed=3, context=spark_here)
    assert (made.at("level_2") == protect(truth(), TopDown(epsilon=1), seed=3).at("level_2")).all()
    secret = protect(truth(), TopDown(epsilon=1), context=spark_here)
    assert secret.key_kind == "os"
    assert re.match("<Release by", repr(secret))
    assert list((tmp_path / "private").iterdir()) == []
