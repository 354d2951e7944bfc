"""Every storage keeps one contract; files on a disk and objects of S3."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from headcount.errors import ConfigError, RunError
from headcount.storage import DiskStorage, Storage, storage_at
from headcount.storage.s3 import S3Storage
from tests.storage.stores import SECRET, bucket, forget

LARGE = bytes(range(256)) * 40_000


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with bucket() as uri:
        yield uri


@pytest.fixture(params=["disk", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, store: str) -> Storage:
    place = tmp_path / "work" if request.param == "disk" else store
    return storage_at(place).below(f"of {request.node.name}")


def test_what_was_put_is_read_whole_and_by_ranges(storage: Storage):
    storage.put("state/0-5.arrow", LARGE)
    assert storage.read("state/0-5.arrow").to_pybytes() == LARGE
    assert storage.read("state/0-5.arrow", 300, 7).to_pybytes() == LARGE[300:307]
    assert storage.read("state/0-5.arrow", len(LARGE) - 3).to_pybytes() == LARGE[-3:]
    assert storage.read("state/0-5.arrow", len(LARGE) - 3, 10).to_pybytes() == LARGE[-3:]
    assert storage.read("state/0-5.arrow", len(LARGE) + 1).to_pybytes() == b""


def test_an_empty_file_is_a_file(storage: Storage):
    storage.put("none", b"")
    assert storage.read("none").to_pybytes() == b""
    assert storage.names() == ["none"]


@pytest.mark.parametrize("data", [memoryview(b"abc"), pa.py_buffer(b"abc")])
def test_any_bytes_in_memory_can_be_put(storage: Storage, data: memoryview):
    storage.put("a", data)
    assert storage.put_if_absent("b", data)
    assert [storage.read(name).to_pybytes() for name in ("a", "b")] == [b"abc"] * 2


def test_a_put_replaces_what_was_there(storage: Storage):
    storage.put("a", b"old and longer")
    storage.put("a", b"new")
    assert storage.read("a").to_pybytes() == b"new"


def test_a_put_if_absent_leaves_what_was_there(storage: Storage):
    assert storage.put_if_absent("x/a", b"first")
    assert not storage.put_if_absent("x/a", b"second")
    assert storage.read("x/a").to_pybytes() == b"first"
    assert storage.names() == ["x/a"]


def test_of_many_attempts_at_once_one_is_written_and_whole(storage: Storage):
    data = [bytes([one]) * 100_000 for one in range(16)]
    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(lambda one: storage.put_if_absent("a", one), data))
    assert sum(written) == 1
    assert storage.read("a").to_pybytes() == data[written.index(True)]
    assert storage.names() == ["a"]


def test_a_scratch_file_is_put_whole_and_goes(storage: Storage):
    for name, put in (("a", storage.put), ("b", storage.put_if_absent)):
        with storage.scratch() as file:
            for first in range(0, len(LARGE), 1 << 20):
                file.write(LARGE[first : first + (1 << 20)])
            put(name, file)
        assert storage.read(name).to_pybytes() == LARGE
    with storage.scratch() as file:
        file.write(b"abandoned")
    assert storage.names() == ["a", "b"]


def test_a_file_that_is_not_there_is_named(storage: Storage):
    with pytest.raises(FileNotFoundError) as caught:
        storage.read("state/none")
    assert str(caught.value.filename) == f"{storage.uri}/state/none"


def test_files_are_listed_in_order_and_removed_together(storage: Storage):
    for name in ("b/2", "a", "b/1"):
        storage.put(name, b"x")
    assert storage.names() == ["a", "b/1", "b/2"]
    assert storage.below("b").names() == ["1", "2"]
    assert storage.below("b").read("2").to_pybytes() == b"x"
    storage.below("b").remove()
    assert storage.names() == ["a"]
    storage.remove()
    storage.remove()
    assert storage.names() == []


def test_a_folder_whose_name_begins_alike_is_another(storage: Storage):
    storage.put("run-1/a", b"x")
    storage.put("run-10/a", b"x")
    storage.below("run-1").remove()
    assert storage.names() == ["run-10/a"]


def test_a_good_place_passes_its_check_and_nothing_stays(storage: Storage):
    storage.check()
    assert storage.names() == []


def test_a_storage_travels_without_any_secret(storage: Storage):
    storage.put("a", b"x")
    travelled = pickle.dumps(storage)
    assert SECRET.encode() not in travelled
    assert pickle.loads(travelled).read("a").to_pybytes() == b"x"
    assert SECRET not in repr(storage)


# --- disk ------------------------------------------------------------------------------------


def test_pages_stay_mapped_when_the_file_is_replaced(tmp_path: Path):
    storage = DiskStorage(tmp_path)
    storage.put("a", LARGE)
    mapped = storage.read("a")
    storage.put("a", b"new")
    assert mapped.to_pybytes() == LARGE


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_folders_and_files_are_the_owners_alone(tmp_path: Path):
    DiskStorage(tmp_path / "a/b").put("c/d", b"x")
    made = [tmp_path / name for name in ("a", "a/b", "a/b/c", "a/b/c/d")]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700, 0o700, 0o700, 0o600]


def test_the_check_of_a_folder_makes_none_and_finds_one_that_cannot_be_made(tmp_path: Path):
    DiskStorage(tmp_path / "a/b").check()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a").write_text("a file")
    with pytest.raises(NotADirectoryError):
        DiskStorage(tmp_path / "a/b").check()


KILLED = """
import os, pickle, signal, sys
storage = pickle.load(sys.stdin.buffer)
def die(*_arguments, **_named): os.kill(os.getpid(), signal.SIGKILL)
os.link = die
if hasattr(storage, "bucket"):
    storage._client.put_object = die
with storage.scratch() as file:
    file.write(b"half of a part")
    storage.put_if_absent("a", file)
"""


def test_a_writer_killed_between_scratch_and_put_leaves_no_file(storage: Storage):
    killed = subprocess.run(
        [sys.executable, "-c", KILLED], input=pickle.dumps(storage), check=False
    )
    assert killed.returncode == -9
    assert storage.names() == []
    assert storage.put_if_absent("a", b"whole")
    storage.remove()
    assert storage.names() == []


def test_a_disk_without_second_names_still_puts_if_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_paths: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    storage = DiskStorage(tmp_path)
    assert storage.put_if_absent("a", b"first")
    assert not storage.put_if_absent("a", b"second")
    assert storage.read("a").to_pybytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        DiskStorage(tmp_path).put_if_absent("a", b"x")
    assert list(tmp_path.iterdir()) == []


# --- S3 --------------------------------------------------------------------------------------


def test_a_put_whose_answer_is_lost_is_there_once(store: str, monkeypatch: pytest.MonkeyPatch):
    """The client asks again, and is told that the object is there: its own."""
    from botocore.endpoint import Endpoint

    storage = storage_at(store).below("lost")
    lost: list[object] = []
    real = Endpoint._get_response

    def lose_the_first(endpoint, request, operation, context):
        answer = real(endpoint, request, operation, context)
        if operation.name == "PutObject" and not lost:
            from botocore.exceptions import ReadTimeoutError

            lost.append(answer)
            return None, ReadTimeoutError(endpoint_url=request.url)
        return answer

    monkeypatch.setattr(Endpoint, "_get_response", lose_the_first)
    assert not storage.put_if_absent("a", b"x")
    assert lost
    assert storage.read("a").to_pybytes() == b"x"


def test_a_bucket_that_does_not_exist_is_refused(store: str):
    storage = storage_at(store.replace("//town/", "//village/"))
    message = "^s3://village/files: found no bucket 'village', expected one that exists$"
    for verb in (storage.check, storage.names, lambda: storage.put("a", b"x")):
        with pytest.raises(RunError, match=message):
            verb()


def test_a_store_that_does_not_answer_is_named(store: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headcount.storage.s3.ATTEMPTS", 1)
    forget()
    silent = storage_at("s3://town/files?endpoint_override=127.0.0.1:9&scheme=http")
    message = (
        r"s3://town/files: found no answer from http://127.0.0.1:9 \(\w+\), expected an object"
    )
    for verb in (silent.check, lambda: silent.read("a")):
        with pytest.raises(RunError, match=message):
            verb()
    forget()


def test_missing_credentials_are_named(store: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    storage = storage_at(store)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    forget()
    for verb in (storage.check, lambda: storage.read("a")):
        with pytest.raises(RunError, match=r"/files: found no credentials in this process .*, exp"):
            verb()
    forget()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "AccessDenied",
            r"found credentials that the store refuses \(AccessDenied\), expected the",
        ),
        ("SlowDown", r"found an error of the store \(SlowDown\), expected it to do as"),
    ],
)
def test_what_a_store_refuses_is_said_by_its_code(
    store: str, monkeypatch: pytest.MonkeyPatch, code: str, message: str
):
    from botocore.exceptions import ClientError

    storage = storage_at(store)
    assert isinstance(storage, S3Storage)

    def refuse(**_named: object) -> None:
        raise ClientError({"Error": {"Code": code, "Message": SECRET}}, "PutObject")

    monkeypatch.setattr(storage._client, "put_object", refuse)
    for verb in (storage.put, storage.put_if_absent):
        with pytest.raises(RunError, match=message) as caught:
            verb("a", b"x")
        assert SECRET not in str(caught.value)


def test_a_bucket_with_versions_is_refused(store: str):
    storage = storage_at(store)
    assert isinstance(storage, S3Storage)
    storage._client.create_bucket(Bucket="versions")
    storage._client.put_bucket_versioning(
        Bucket="versions", VersioningConfiguration={"Status": "Enabled"}
    )
    with pytest.raises(
        RunError, match=r"found a bucket with versions \(Enabled\), expected one wi"
    ):
        storage_at(store.replace("//town/", "//versions/")).check()


def test_a_store_that_ignores_the_condition_is_refused(store: str, monkeypatch: pytest.MonkeyPatch):
    storage = storage_at(store).below("heedless")
    assert isinstance(storage, S3Storage)
    real = storage._client.put_object

    def heedless(*, IfNoneMatch: str = "", **named: object) -> object:
        return real(**named)

    monkeypatch.setattr(storage._client, "put_object", heedless)
    with pytest.raises(RunError, match="found a store that does not heed If-None-Match, expected"):
        storage.check()
    assert storage.names() == []


def test_an_object_too_large_for_one_request_is_refused(
    store: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headcount.storage.s3.LARGEST", 10)
    message = "/files/a: found 11 bytes, expected at most 10, which S3 takes in one request"
    with pytest.raises(RunError, match=message):
        storage_at(store).put("a", b"x" * 11)


# --- URIs ------------------------------------------------------------------------------------


def test_uris_name_folders_and_buckets(tmp_path: Path):
    assert storage_at(tmp_path) == DiskStorage(tmp_path)
    assert storage_at("file:///a%20b/c") == DiskStorage(Path("/a b/c"))
    assert storage_at("s3://town") == S3Storage(bucket="town")
    assert storage_at("s3://town").below("x") == S3Storage(bucket="town", folder="x")
    assert storage_at("s3://town/a/b/?region=eu-west-1&endpoint_override=h:1") == S3Storage(
        bucket="town", folder="a/b", region="eu-west-1", endpoint="https://h:1"
    )


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("gs://town/a", "gs://town/a: found a URI of scheme 'gs', expected a folder, file:///f"),
        ("file://host/a", "found a URI of scheme 'file', expected a folder"),
        ("s3:///a", "s3:///a: found a URI without a bucket, expected s3://bucket/"),
        (
            f"s3://me:{SECRET}@town/a",
            "found a URI with a name or a password in it, expected neither",
        ),
        (
            f"s3://town/a?secret_key={SECRET}",
            "s3://town/a: found a URI with option 'secret_key', ex",
        ),
    ],
)
def test_other_uris_are_refused_and_secrets_not_repeated(uri: str, message: str):
    with pytest.raises(ConfigError) as caught:
        storage_at(uri)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)


def test_without_boto3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    forget()
    monkeypatch.setitem(sys.modules, "boto3.session", None)
    with pytest.raises(RunError, match=r"s3:// needs boto3: pip install 'headcount\[s3\]"):
        storage_at("s3://town").read("a")
    forget()
