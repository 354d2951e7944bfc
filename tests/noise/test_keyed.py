"""Keyed noise: a pure function of its address, unrelated as soon as anything differs."""

import logging
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from fractions import Fraction
from hashlib import sha256
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.errors import ConfigError
from headcount.noise import KeyedNoise, Noise, RunKey, Stream, keyed, save_run_key
from headcount.noise.keys import encode

SEED = RunKey.from_seed(1940)
STREAM = Stream("county", "cells", 1000)
EPSILON = Fraction(1, 47)


def make(**changed) -> KeyedNoise:
    given_: dict[str, Any] = {
        "run_key": SEED,
        "mechanism": "geometric",
        "data_digest": b"d",
        "config_digest": b"c",
    }
    return KeyedNoise(**(given_ | changed))


def draw(noise: Noise, kind: str, stream: Stream, draws: range) -> np.ndarray:
    if kind == "geometric":
        return noise.geometric(stream, epsilon=EPSILON, draws=draws)
    if kind == "ratio":
        return noise.geometric_ratio(stream, ratio=Fraction(9, 10), draws=draws)
    return noise.gaussian(stream, variance=Fraction(10), draws=draws)


def draw_at(noise: Noise, kind: str, stream: Stream, number: int, index: np.ndarray) -> np.ndarray:
    if kind == "geometric":
        return noise.geometric_at(stream, epsilon=EPSILON, draw=number, index=index)
    if kind == "ratio":
        return noise.geometric_ratio_at(stream, ratio=Fraction(9, 10), draw=number, index=index)
    return noise.gaussian_at(stream, variance=Fraction(10), draw=number, index=index)


@pytest.mark.parametrize("kind", ["geometric", "ratio", "gaussian"])
@pytest.mark.parametrize("word_bits", [9, 64])
def test_chunks_order_and_sparse_access_do_not_matter(kind, word_bits):
    """With 9-bit words a good part of the draws goes through the slow path; it must not matter."""
    stream = Stream("county", "cells", 333)
    whole = draw(make(word_bits=word_bits), kind, stream, range(6))
    assert whole.dtype == np.int64
    assert whole.shape == (6, 333)
    one_by_one = [draw(make(word_bits=word_bits), kind, stream, range(d, d + 1)) for d in range(6)]
    assert np.array_equal(np.concatenate(one_by_one), whole)
    assert np.array_equal(
        draw(make(word_bits=word_bits), kind, stream, range(5, -1, -2)), whole[5::-2]
    )
    noise = make(word_bits=word_bits)
    for number in (4, 0, 5):
        index = np.random.default_rng(number).integers(0, 333, 500)
        assert np.array_equal(draw_at(noise, kind, stream, number, index), whole[number, index])


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 70_000),
    st.integers(0, 2**40),
    st.integers(0, 3),
    st.lists(st.integers(0, 10**9)),
)
def test_any_position_of_any_draw_has_its_own_word(size, first, count, places):
    stream = Stream("leaf", "cells", size)
    whole = make().geometric(stream, epsilon=EPSILON, draws=range(first, first + count))
    index = np.array(places, dtype=np.int64) % size
    for row in range(count):
        some = make().geometric_at(stream, epsilon=EPSILON, draw=first + row, index=index)
        assert np.array_equal(some, whole[row, index])


def test_processes_and_threads_agree():
    whole = make().geometric(STREAM, epsilon=EPSILON, draws=range(8))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        parts = [
            pool.submit(make().geometric, STREAM, epsilon=EPSILON, draws=range(d, d + 2))
            for d in (4, 0, 6, 2)
        ]
        found = np.concatenate([parts[i].result() for i in (1, 3, 0, 2)])
    assert np.array_equal(found, whole)
    shared = make()
    index = np.arange(1000, dtype=np.int64)
    with ThreadPoolExecutor(4) as threads:
        rows = threads.map(
            lambda d: shared.geometric_at(STREAM, epsilon=EPSILON, draw=d % 8, index=index),
            range(200),
        )
        assert all(np.array_equal(row, whole[d % 8]) for d, row in enumerate(rows))


def test_another_process_reads_the_key_of_a_release_from_its_file(tmp_path):
    key = RunKey.from_os()
    save_run_key(key, tmp_path / "key")
    code = """
import sys
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from headcount.noise import KeyedNoise, Stream, load_run_key
noise = KeyedNoise(load_run_key(Path(sys.argv[1])), "geometric", b"d", b"c")
x = noise.geometric(Stream("county", "cells", 1000), epsilon=Fraction(1, 47), draws=range(3))
sys.stdout.write(sha256(x.tobytes()).hexdigest())
"""
    command = [sys.executable, "-c", code, str(tmp_path / "key")]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    whole = make(run_key=key).geometric(STREAM, epsilon=EPSILON, draws=range(3))
    assert found == sha256(whole.tobytes()).hexdigest()


def test_noise_is_pinned():
    """A change of these values needs a new SAMPLER_VERSION."""
    assert keyed.SAMPLER_VERSION == 1
    values = make().geometric(Stream("state", "cells", 8), epsilon=EPSILON, draws=range(1))
    assert values.tolist() == PINNED_GEOMETRIC
    values = make().gaussian(Stream("state", "cells", 8), variance=Fraction(10), draws=range(1))
    assert values.tolist() == PINNED_GAUSSIAN


PINNED_GEOMETRIC = [[12, 79, 70, 89, 68, 2, 1, 58]]
PINNED_GAUSSIAN = [[-2, -3, -3, 2, -7, 4, 5, 2]]

BIG = Stream("county", "cells", 100_000)
OTHERS = {
    "run key": lambda: make(run_key=RunKey.from_seed(1940, 1)).geometric(
        BIG, epsilon=EPSILON, draws=range(1)
    ),
    "mechanism": lambda: make(mechanism="raked").geometric(BIG, epsilon=EPSILON, draws=range(1)),
    "data": lambda: make(data_digest=b"e").geometric(BIG, epsilon=EPSILON, draws=range(1)),
    "config": lambda: make(config_digest=b"e").geometric(BIG, epsilon=EPSILON, draws=range(1)),
    "epsilon": lambda: make().geometric(BIG, epsilon=EPSILON * 2, draws=range(1)),
    "nearly the same epsilon": lambda: make().geometric(
        BIG, epsilon=EPSILON + Fraction(1, 10**9), draws=range(1)
    ),
    "level": lambda: make().geometric(
        Stream("state", "cells", 100_000), epsilon=EPSILON, draws=range(1)
    ),
    "query": lambda: make().geometric(
        Stream("county", "sex", 100_000), epsilon=EPSILON, draws=range(1)
    ),
    "draw": lambda: make().geometric(BIG, epsilon=EPSILON, draws=range(1, 2)),
    "next word": lambda: np.roll(make().geometric(BIG, epsilon=EPSILON, draws=range(1)), 1, axis=1),
    "size": lambda: make().geometric(
        Stream("county", "cells", 100_001), epsilon=EPSILON, draws=range(1)
    )[:, :-1],
}


def related(a: np.ndarray, b: np.ndarray) -> bool:
    """Correlation of ranks, or of their distance from the middle, beyond 5 standard errors."""
    from scipy.stats import rankdata

    ra, rb = (rankdata(x.ravel()) for x in (a, b))
    pairs = ((ra, rb), (np.abs(ra - ra.mean()), np.abs(rb - rb.mean())))
    return any(abs(np.corrcoef(x, y)[0, 1]) > 5 / np.sqrt(a.size) for x, y in pairs)


@pytest.mark.parametrize("changed", OTHERS)
def test_anything_else_gives_unrelated_noise(changed):
    first = make().geometric(BIG, epsilon=EPSILON, draws=range(1))
    other = OTHERS[changed]()
    assert not related(first, other)


def test_laws_with_the_same_number_do_not_share_words():
    half = Fraction(1, 2)
    draws = [
        make().geometric(BIG, epsilon=half, draws=range(1)),
        make().geometric_ratio(BIG, ratio=half, draws=range(1)),
        make().gaussian(BIG, variance=half, draws=range(1)),
    ]
    assert not any(related(draws[i], draws[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


def test_shared_words_would_be_seen():
    """The control: the same words under another epsilon are found to be related."""
    first = make().geometric(BIG, epsilon=EPSILON, draws=range(1))
    assert related(first, first // 2)
    assert related(first, -first)
    mixed = np.where(np.arange(first.size) % 20 == 0, first, OTHERS["data"]())
    assert related(first, mixed)  # even one shared word in twenty


def test_extensions_use_a_key_of_their_own():
    """With one key, the extension of word 0 would be words 0, 1, ... themselves."""
    words = make()._source(STREAM, "epsilon", EPSILON).words
    extension = words.extension(0)
    run = next(words.run(0, 8)).tolist()
    assert not set(run) & {next(extension) for _ in range(8)}


def test_slow_sampler_takes_over_visibly_with_the_same_values(caplog):
    """Inversion is one function of the word, whether by table or slowly."""
    stream = Stream("county", "cells", 300)
    fast, slow = make(), make(table_limit=100)
    with caplog.at_level(logging.WARNING):
        expected = fast.geometric(stream, epsilon=EPSILON, draws=range(1))
        assert caplog.text == ""
        found = slow.geometric(stream, epsilon=EPSILON, draws=range(1))
    assert np.array_equal(found, expected)
    assert fast.served == {("county", "cells"): "table"}
    assert slow.served == {("county", "cells"): "slow"}
    assert (
        "noise county/cells: geometric epsilon = 1/47 needs a table of more than 100" in caplog.text
    )
    assert "the exact slow sampler serves it" in caplog.text
    index = np.array([7, 3], dtype=np.int64)
    some = slow.geometric_at(stream, epsilon=EPSILON, draw=0, index=index)
    assert np.array_equal(some, expected[0, index])


def test_slow_gaussian_can_be_addressed():
    stream = Stream("county", "cells", 200)
    slow = make(table_limit=10)
    whole = slow.gaussian(stream, variance=Fraction(50), draws=range(3))
    index = np.array([199, 0, 4], dtype=np.int64)
    some = slow.gaussian_at(stream, variance=Fraction(50), draw=2, index=index)
    assert np.array_equal(some, whole[2, index])
    assert slow.served == {("county", "cells"): "slow"}


def test_very_wide_laws_are_served():
    stream = Stream("county", "cells", 20)
    noise = make()
    geometric = noise.geometric(stream, epsilon=Fraction(1, 10**9), draws=range(1))
    assert 10**8 < np.abs(geometric).mean() < 10**10
    gaussian = noise.gaussian(stream, variance=Fraction(10**18), draws=range(1))
    assert 10**8 < np.abs(gaussian).mean() < 10**10


def test_bad_addresses_are_refused():
    noise = make()
    with pytest.raises(
        ConfigError, match=r"county/cells: draws: found -1\.\.1, expected draws of 10"
    ):
        noise.geometric(STREAM, epsilon=EPSILON, draws=range(-1, 2))
    with pytest.raises(ConfigError, match=r"within words 0\.\.2\^63 - 1"):
        noise.geometric(STREAM, epsilon=EPSILON, draws=range(2**60, 2**60 + 1))
    for place in (-1, 1000):
        index = np.array([0, place], dtype=np.int64)
        with pytest.raises(ConfigError, match=r"index: found a position outside 0\.\.999, expect"):
            noise.geometric_at(STREAM, epsilon=EPSILON, draw=0, index=index)
    with pytest.raises(ConfigError, match="index: found 1-dimensional float64, expected a list of"):
        noise.geometric_at(STREAM, epsilon=EPSILON, draw=0, index=np.zeros(2))  # type: ignore[arg-type]
    with pytest.raises(
        ConfigError, match=r"epsilon: found 0.1 \(float\), expected an exact Fraction"
    ):
        noise.geometric(STREAM, epsilon=0.1, draws=range(1))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="noise stream a/b: size: found 0, expected at least 1"):
        Stream("a", "b", 0)
    with pytest.raises(ConfigError, match="noise: word_bits: found 65, expected 2 to 64"):
        make(word_bits=65)


def test_no_draws_and_no_positions_are_fine():
    assert make().geometric(STREAM, epsilon=EPSILON, draws=range(0)).shape == (0, 1000)
    empty = np.array([], dtype=np.int64)
    assert make().geometric_at(STREAM, epsilon=EPSILON, draw=3, index=empty).shape == (0,)


def test_key_kind_and_backend():
    assert (make().key_kind, make().backend) == ("seed", "table")
    assert make(run_key=RunKey.from_os()).key_kind == "os"


def test_a_purpose_has_noise_of_its_own_whatever_the_names():
    plain = Stream("county", "cells", 1000)
    report = Stream("county", "cells", 1000, purpose="report")
    noise = make()
    drawn = [noise.geometric(s, epsilon=EPSILON, draws=range(1)) for s in (plain, report)]
    assert (drawn[0] == drawn[1]).mean() < 0.5
    # No name of a user's reaches the address of another purpose: parts are counted and typed.
    names = ["report", "cellsreport", "cells\0report", "", "county"]
    users = {Stream(a, b, size).address for a in names for b in names for size in (1, 1000)}
    assert report.address not in users
    assert encode(*report.address) not in {encode(*address) for address in users}


def test_ordinary_measurements_have_the_address_they_always_had():
    assert Stream("county", "cells", 7).address == ("county", "cells", 7)
