"""Run keys: hidden everywhere, safe on disk, and gone when destroyed."""

import copy
import logging
import os
import pickle
import stat
from dataclasses import asdict, dataclass
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import ConfigError, PrivacyError, RunError
from headcount.noise import (
    KeyedNoise,
    RunKey,
    destroy_run_key,
    load_run_key,
    save_run_key,
)
from headcount.noise.source import encode

PARTS = st.lists(st.one_of(st.text(max_size=4), st.binary(max_size=4), st.integers()), max_size=4)


def shows(text: str | bytes, key: RunKey) -> bool:
    raw = text.encode(errors="replace") if isinstance(text, str) else text
    forms = (key.material, key.material.hex().encode(), repr(key.material)[2:-1].encode())
    return any(form in raw for form in forms)


def test_os_keys_have_256_bits_and_differ():
    one, two = RunKey.from_os(), RunKey.from_os()
    assert len(one.material) == len(two.material) == 32
    assert one.material != two.material
    assert one.kind == "os"


def test_seed_keys_repeat_and_differ_by_seed_and_replicate():
    keys = {RunKey.from_seed(s, r).material for s in range(20) for r in range(20)}
    assert len(keys) == 400
    assert RunKey.from_seed(3, 4) == RunKey.from_seed(3, 4)
    assert len({RunKey.from_seed(3, 4), RunKey.from_seed(3, 4)}) == 1
    assert RunKey.from_seed(3) != "seed"
    assert RunKey.from_seed(3).kind == "seed"


def test_negative_seed_is_refused():
    with pytest.raises(ConfigError, match="run key: replicate: found -1, expected an integer of 0"):
        RunKey.from_seed(1, -1)


@given(PARTS, PARTS)
def test_encoding_is_unambiguous(a, b):
    same = len(a) == len(b) and all(
        type(x) is type(y) and x == y for x, y in zip(a, b, strict=True)
    )
    assert (encode(*a) == encode(*b)) == same


def test_key_of_a_release_is_never_shown_pickled_or_logged(caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    key = RunKey.from_os()
    noise = KeyedNoise(key, "geometric", b"data", b"config")
    for text in (repr(key), str(key), f"{key}", repr(noise), repr([key]), repr({"k": noise})):
        assert not shows(text, key)
    for thing in (key, noise, [key], {"n": noise}):
        for work in (pickle.dumps, copy.deepcopy):
            with pytest.raises(PrivacyError, match="Other processes read it with load_run_key"):
                work(thing)
    path = tmp_path / "key"
    save_run_key(key, path)
    with pytest.raises(RunError) as taken:
        save_run_key(key, path)
    assert not shows(str(taken.value), key)
    for kept in (key, load_run_key(path), noise):  # one that is kept is named by its file
        data = pickle.dumps(kept)
        assert not shows(data, key)
    assert pickle.loads(pickle.dumps(key)) == key
    destroy_run_key(path)
    with pytest.raises(RunError, match=r"found no key file on .*, expected the run's, on a file"):
        pickle.loads(data)
    assert not shows(caplog.text, key)
    assert shows(key.material.hex(), key)  # the search does find a key that is there


def test_a_record_that_holds_a_key_cannot_be_spelled_out():
    @dataclass
    class Record:
        key: RunKey

    with pytest.raises(PrivacyError, match="Other processes read it with load_run_key"):
        asdict(Record(RunKey.from_os()))


def test_seeded_noise_pickles_without_key_material():
    key = RunKey.from_seed(5, 6)
    noise = KeyedNoise(key, "geometric", b"data", b"config")
    for thing in (key, noise):
        data = pickle.dumps(thing)
        assert not shows(data, key)
        assert repr(pickle.loads(data)) == repr(thing)
    assert eval(repr(key)) == key


def test_file_round_trip_mode_and_destruction(tmp_path):
    for key in (RunKey.from_os(), RunKey.from_seed(7, 8)):
        path = tmp_path / key.kind
        before = os.umask(0o777)
        try:
            save_run_key(key, path)
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert load_run_key(path) == key
        link = tmp_path / f"{key.kind} link"
        os.link(path, link)  # a second name, to see what is left of the content
        destroy_run_key(path)
        assert not path.exists()
        left = link.read_bytes()
        assert not shows(left, key)
        assert b"headcount" not in left


def test_existing_file_is_never_overwritten(tmp_path):
    path = tmp_path / "key"
    save_run_key(RunKey.from_seed(1), path)
    with pytest.raises(RunError, match="key: found a key file, expected none: a run has one key"):
        save_run_key(RunKey.from_os(), path)
    assert load_run_key(path) == RunKey.from_seed(1)


def test_readable_key_file_is_refused(tmp_path):
    path = tmp_path / "key"
    save_run_key(RunKey.from_os(), path)
    path.chmod(0o640)
    with pytest.raises(PrivacyError, match="found mode 0640, expected 0600: the key is secret"):
        load_run_key(path)


def sealed(body: bytes) -> bytes:
    """A key file with the right checksum, whatever its key."""
    digest = sha256(encode("headcount run key", body)).hexdigest().encode()
    return b"headcount run key 2\n" + body + b"\n" + digest + b"\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"headcount run key 1\nseed 1 2\n",
        sealed(b"os 00ff"),
        sealed(b"os zz"),
        sealed(b"seed 1"),
        sealed(b"seed 1 -2 3"),
        sealed(b"other 1"),
        sealed(b"seed 1 2")[:-1],
        sealed(b"\xff\xfe"),
    ],
)
def test_damaged_key_file_is_refused_without_showing_it(tmp_path, content):
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(
        RunError, match="found a damaged key file, expected one written by"
    ) as caught:
        load_run_key(path)
    assert "00ff" not in str(caught.value)


def test_no_byte_of_a_key_file_changes_unseen(tmp_path):
    """Another key would draw the noise of a run that was interrupted a second time."""
    path = tmp_path / "key"
    for key in (RunKey.from_os(), RunKey.from_seed(5)):
        save_run_key(key, path)
        sound = path.read_bytes()
        path.write_bytes(sealed(sound.splitlines()[1]))
        assert load_run_key(path) == key  # what the next lines refuse is not the test's own form
        for place, byte in enumerate(sound):
            for other in {byte ^ 1, byte ^ 2, ord("0")} - {byte}:
                path.write_bytes(sound[:place] + bytes([other]) + sound[place + 1 :])
                with pytest.raises(RunError, match="found a damaged key file"):
                    load_run_key(path)
        path.unlink()
