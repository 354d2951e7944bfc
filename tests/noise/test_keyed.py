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
from headcount.noise import (
    DiscreteGaussian,
    KeyedNoise,
    Law,
    RunKey,
    Stream,
    TwoSidedGeometric,
    keyed,
    save_run_key,
)
from headcount.noise.keyed import build_table
from headcount.noise.source import encode
from headcount_papers.frame.published_noise import GeometricByRatio, PublishedNoise

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


LAW = TwoSidedGeometric(EPSILON)
LAWS: dict[str, Law] = {
    "geometric": LAW,
    "ratio": GeometricByRatio(Fraction(9, 10)),
    "gaussian": DiscreteGaussian(Fraction(10)),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("word_bits", [9, 64])
def test_chunks_order_and_sparse_access_do_not_matter(law, word_bits):
    """With 9-bit words a good part of the draws goes through the slow path; it must not matter."""
    stream = Stream("county", "cells", 333)
    whole = make(word_bits=word_bits).draw(stream, law, draws=range(6))
    assert whole.dtype == np.int64
    assert whole.shape == (6, 333)
    one_by_one = [
        make(word_bits=word_bits).draw(stream, law, draws=range(d, d + 1)) for d in range(6)
    ]
    assert np.array_equal(np.concatenate(one_by_one), whole)
    assert np.array_equal(
        make(word_bits=word_bits).draw(stream, law, draws=range(5, -1, -2)), whole[5::-2]
    )
    noise = make(word_bits=word_bits)
    for number in (4, 0, 5):
        index = np.random.default_rng(number).integers(0, 333, 500)
        assert np.array_equal(
            noise.draw_at(stream, law, draw=number, index=index), whole[number, index]
        )
        for run in (range(333), range(1, 8), range(100, 333), range(332, 333), range(5, 5)):
            got = noise.draw_at(stream, law, draw=number, index=run)
            assert np.array_equal(got, whole[number, run.start : run.stop])


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 70_000),
    st.integers(0, 2**40),
    st.integers(0, 3),
    st.lists(st.integers(0, 10**9)),
)
def test_any_position_of_any_draw_has_its_own_word(size, first, count, places):
    stream = Stream("leaf", "cells", size)
    whole = make().draw(stream, LAW, draws=range(first, first + count))
    index = np.array(places, dtype=np.int64) % size
    for row in range(count):
        some = make().draw_at(stream, LAW, draw=first + row, index=index)
        assert np.array_equal(some, whole[row, index])


def test_processes_and_threads_agree():
    whole = make().draw(STREAM, LAW, draws=range(8))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        parts = [pool.submit(make().draw, STREAM, LAW, draws=range(d, d + 2)) for d in (4, 0, 6, 2)]
        found = np.concatenate([parts[i].result() for i in (1, 3, 0, 2)])
    assert np.array_equal(found, whole)
    shared = make()
    index = np.arange(1000, dtype=np.int64)
    with ThreadPoolExecutor(4) as threads:
        rows = threads.map(
            lambda d: shared.draw_at(STREAM, LAW, draw=d % 8, index=index),
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
from headcount.noise import KeyedNoise, Stream, TwoSidedGeometric, load_run_key
noise = KeyedNoise(load_run_key(Path(sys.argv[1])), "geometric", b"d", b"c")
x = noise.draw(Stream("county", "cells", 1000), TwoSidedGeometric(Fraction(1, 47)), draws=range(3))
sys.stdout.write(sha256(x.tobytes()).hexdigest())
"""
    command = [sys.executable, "-c", code, str(tmp_path / "key")]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    whole = make(run_key=key).draw(STREAM, LAW, draws=range(3))
    assert found == sha256(whole.tobytes()).hexdigest()


def test_noise_is_pinned():
    """A change of these values needs a new SAMPLER_VERSION."""
    assert keyed.SAMPLER_VERSION == 1
    values = make().draw(Stream("state", "cells", 8), LAW, draws=range(1))
    assert values.tolist() == PINNED_GEOMETRIC
    values = make().draw(
        Stream("state", "cells", 8), DiscreteGaussian(Fraction(10)), draws=range(1)
    )
    assert values.tolist() == PINNED_GAUSSIAN


PINNED_GEOMETRIC = [[12, 79, 70, 89, 68, 2, 1, 58]]
PINNED_GAUSSIAN = [[-2, -3, -3, 2, -7, 4, 5, 2]]

BIG = Stream("county", "cells", 100_000)
OTHERS = {
    "run key": lambda: make(run_key=RunKey.from_seed(1940, 1)).draw(BIG, LAW, draws=range(1)),
    "mechanism": lambda: make(mechanism="raked").draw(BIG, LAW, draws=range(1)),
    "data": lambda: make(data_digest=b"e").draw(BIG, LAW, draws=range(1)),
    "config": lambda: make(config_digest=b"e").draw(BIG, LAW, draws=range(1)),
    "epsilon": lambda: make().draw(BIG, TwoSidedGeometric(EPSILON * 2), draws=range(1)),
    "nearly the same epsilon": lambda: make().draw(
        BIG, TwoSidedGeometric(EPSILON + Fraction(1, 10**9)), draws=range(1)
    ),
    "level": lambda: make().draw(Stream("state", "cells", 100_000), LAW, draws=range(1)),
    "query": lambda: make().draw(Stream("county", "sex", 100_000), LAW, draws=range(1)),
    "draw": lambda: make().draw(BIG, LAW, draws=range(1, 2)),
    "next word": lambda: np.roll(make().draw(BIG, LAW, draws=range(1)), 1, axis=1),
    "size": lambda: make().draw(Stream("county", "cells", 100_001), LAW, draws=range(1))[:, :-1],
}


def related(a: np.ndarray, b: np.ndarray) -> bool:
    """Correlation of ranks, or of their distance from the middle, beyond 5 standard errors."""
    from scipy.stats import rankdata

    ra, rb = (rankdata(x.ravel()) for x in (a, b))
    pairs = ((ra, rb), (np.abs(ra - ra.mean()), np.abs(rb - rb.mean())))
    return any(abs(np.corrcoef(x, y)[0, 1]) > 5 / np.sqrt(a.size) for x, y in pairs)


@pytest.mark.parametrize("changed", OTHERS)
def test_anything_else_gives_unrelated_noise(changed):
    first = make().draw(BIG, LAW, draws=range(1))
    other = OTHERS[changed]()
    assert not related(first, other)


def test_laws_with_the_same_number_do_not_share_words():
    half = Fraction(1, 2)
    draws = [
        make().draw(BIG, TwoSidedGeometric(half), draws=range(1)),
        make().draw(BIG, GeometricByRatio(half), draws=range(1)),
        make().draw(BIG, DiscreteGaussian(half), draws=range(1)),
    ]
    assert not any(related(draws[i], draws[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


def test_shared_words_would_be_seen():
    """The control: the same words under another epsilon are found to be related."""
    first = make().draw(BIG, LAW, draws=range(1))
    assert related(first, first // 2)
    assert related(first, -first)
    mixed = np.where(np.arange(first.size) % 20 == 0, first, OTHERS["data"]())
    assert related(first, mixed)  # even one shared word in twenty


def test_extensions_use_a_key_of_their_own():
    """With one key, the extension of word 0 would be words 0, 1, ... themselves."""
    words = make()._source(STREAM, LAW).words
    extension = words.extension(0)
    run = next(words.run(0, 8)).tolist()
    assert not set(run) & {next(extension) for _ in range(8)}


def test_slow_sampler_takes_over_visibly_with_the_same_values(caplog):
    """Inversion is one function of the word, whether by table or slowly."""
    stream = Stream("county", "cells", 300)
    fast, slow = make(), make(table_limit=100)
    with caplog.at_level(logging.WARNING):
        expected = fast.draw(stream, LAW, draws=range(1))
        assert caplog.text == ""
        found = slow.draw(stream, LAW, draws=range(1))
    assert np.array_equal(found, expected)
    assert fast.served == {("county", "cells"): "table"}
    assert slow.served == {("county", "cells"): "slow"}
    assert (
        "noise county/cells: two-sided geometric, rate 1/47 needs a table of more than 100"
        in caplog.text
    )
    assert "the exact slow sampler serves it" in caplog.text
    index = np.array([7, 3], dtype=np.int64)
    some = slow.draw_at(stream, LAW, draw=0, index=index)
    assert np.array_equal(some, expected[0, index])


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("word_bits", [9, 64])
def test_a_few_draws_make_no_table_and_are_those_of_the_table(law, word_bits, monkeypatch):
    made: list[Law] = []

    def build(law, **given):
        made.append(law)
        return build_table(law, **given)

    monkeypatch.setattr(keyed, "build_table", build)
    whole = make(word_bits=word_bits).draw(STREAM, law, draws=range(2))
    assert made == [law]
    few = make(word_bits=word_bits)
    for index in range(0, keyed.FEW, 2):
        two = few.draw_at(STREAM, law, draw=1, index=np.array([index, 999 - index]))
        assert two.tolist() == whole[1, [index, 999 - index]].tolist()
    assert made == [law]
    rest = few.draw_at(STREAM, law, draw=0, index=np.arange(1000))
    assert np.array_equal(rest, whole[0])
    assert made == [law, law]
    assert few.served == {("county", "cells"): "table"}


def test_slow_gaussian_can_be_addressed():
    stream = Stream("county", "cells", 200)
    slow = make(table_limit=10)
    whole = slow.draw(stream, DiscreteGaussian(Fraction(50)), draws=range(3))
    index = np.array([199, 0, 4], dtype=np.int64)
    some = slow.draw_at(stream, DiscreteGaussian(Fraction(50)), draw=2, index=index)
    assert np.array_equal(some, whole[2, index])
    assert slow.served == {("county", "cells"): "slow"}


def test_very_wide_laws_are_served():
    stream = Stream("county", "cells", 20)
    noise = make()
    geometric = noise.draw(stream, TwoSidedGeometric(Fraction(1, 10**9)), draws=range(1))
    assert 10**8 < np.abs(geometric).mean() < 10**10
    gaussian = noise.draw(stream, DiscreteGaussian(Fraction(10**18)), draws=range(1))
    assert 10**8 < np.abs(gaussian).mean() < 10**10


def test_bad_addresses_are_refused():
    noise = make()
    with pytest.raises(
        ConfigError, match=r"county/cells: draws: found -1\.\.1, expected draws of 10"
    ):
        noise.draw(STREAM, LAW, draws=range(-1, 2))
    with pytest.raises(ConfigError, match=r"within words 0\.\.2\^63 - 1"):
        noise.draw(STREAM, LAW, draws=range(2**60, 2**60 + 1))
    for place in (-1, 1000):
        index = np.array([0, place], dtype=np.int64)
        with pytest.raises(ConfigError, match=r"index: found a position outside 0\.\.999, expect"):
            noise.draw_at(STREAM, LAW, draw=0, index=index)
    for run in (range(-1, 3), range(990, 1001), range(0, 10, 2), range(7, 3)):
        with pytest.raises(
            ConfigError, match=r"index: found range\(.*\) of 0\.\.999, expected pos"
        ):
            noise.draw_at(STREAM, LAW, draw=0, index=run)
    with pytest.raises(ConfigError, match="index: found 1-dimensional float64, expected a list of"):
        noise.draw_at(STREAM, LAW, draw=0, index=np.zeros(2))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"rate: found 0.1 \(float\), expected an exact Fraction"):
        noise.draw(STREAM, TwoSidedGeometric(0.1), draws=range(1))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="noise stream a/b: size: found 0, expected at least 1"):
        Stream("a", "b", 0)
    with pytest.raises(ConfigError, match="noise: word_bits: found 65, expected 2 to 64"):
        make(word_bits=65)


def test_no_draws_and_no_positions_are_fine():
    assert make().draw(STREAM, LAW, draws=range(0)).shape == (0, 1000)
    empty = np.array([], dtype=np.int64)
    assert make().draw_at(STREAM, LAW, draw=3, index=empty).shape == (0,)


def test_key_kind_and_backend():
    assert (make().key_kind, make().backend) == ("seed", "table")
    assert make(run_key=RunKey.from_os()).key_kind == "os"


def test_a_purpose_has_noise_of_its_own_whatever_the_names():
    plain = Stream("county", "cells", 1000)
    report = Stream("county", "cells", 1000, purpose="report")
    noise = make()
    drawn = [noise.draw(s, LAW, draws=range(1)) for s in (plain, report)]
    assert (drawn[0] == drawn[1]).mean() < 0.5
    # No name of a user's reaches the address of another purpose: parts are counted and typed.
    names = ["report", "cellsreport", "cells\0report", "", "county"]
    users = {Stream(a, b, size).address for a in names for b in names for size in (1, 1000)}
    assert report.address not in users
    assert encode(*report.address) not in {encode(*address) for address in users}


def test_ordinary_measurements_have_the_address_they_always_had():
    assert Stream("county", "cells", 7).address == ("county", "cells", 7)


INDEX = np.array([7, 0, 39, 7], dtype=np.int64)
REPORT = Stream("county", "cells", 40, purpose="report")
GOLDEN_LAWS: dict[str, Law] = {
    "geometric 1/47": LAW,
    "geometric 3": TwoSidedGeometric(Fraction(3)),
    "geometric 27/1280": TwoSidedGeometric(Fraction(27, 1280)),
    "gaussian 10": DiscreteGaussian(Fraction(10)),
    "gaussian 114921/293764": DiscreteGaussian(Fraction(114921, 293764)),
    "geometric_ratio 9/10": GeometricByRatio(Fraction(9, 10)),
    "geometric_ratio 1/3": GeometricByRatio(Fraction(1, 3)),
}
GOLDEN_NOISE: dict[str, Any] = {
    "table": lambda noise: noise(),
    "short words": lambda noise: noise(word_bits=9),
    "slow": lambda noise: noise(table_limit=3),
    "published": lambda noise: PublishedNoise(noise()),
}
GOLDEN = {
    "table: geometric 1/47": "7047dfc28387c08a04d1f0e6",
    "table: geometric 3": "fd75c181792efae9a38acae5",
    "table: geometric 27/1280": "d6a7875e7bd4755b6c88a454",
    "table: gaussian 10": "e87baccbafe9cbd56e39860f",
    "table: gaussian 114921/293764": "3f3eed850cd5747ea45b9515",
    "table: geometric_ratio 9/10": "63fc19fcdab8995938d08f86",
    "table: geometric_ratio 1/3": "26843c44bfb6f06247f90f17",
    "short words: geometric 1/47": "356c57c308f6140bc6e9dc09",
    "short words: geometric 3": "95b5a7084d6e12f32aef7373",
    "short words: geometric 27/1280": "567cc7ffdd516bf63889d882",
    "short words: gaussian 10": "332e337d331c287c291253da",
    "short words: gaussian 114921/293764": "4e374decfe31c05b857b92a3",
    "short words: geometric_ratio 9/10": "c9d88bdfb5a7574301aac0e2",
    "short words: geometric_ratio 1/3": "4d1488587ac39abebcd43644",
    "slow: geometric 1/47": "764d8d516c2390885a2f370e",
    "slow: geometric 3": "e19c1fcc599d6f7057004c4d",
    "slow: geometric 27/1280": "65a81a40ac667cdb2f61fcf7",
    "slow: gaussian 10": "720de80ef963317896282d46",
    "slow: gaussian 114921/293764": "5503b4d8ecf981a55d199fdd",
    "slow: geometric_ratio 9/10": "abda58288015e0fe97eb37c6",
    "slow: geometric_ratio 1/3": "08b2d365ee46b2795e1301a0",
    "published: geometric 1/47": "62f2730ad4026b849b29821a",
    "published: gaussian 10": "e87baccbafe9cbd56e39860f",
}
"""Recorded before laws were values: every sampler draws the same words for the same stream."""


@pytest.mark.parametrize("case", GOLDEN)
def test_every_source_draws_what_it_always_drew(case):
    source, _, name = case.partition(": ")

    def fresh(**options: Any) -> KeyedNoise:
        seed = RunKey.from_seed(1940, 3)
        return make(run_key=seed, data_digest=b"data", config_digest=b"config", **options)

    noise, law = GOLDEN_NOISE[source](fresh), GOLDEN_LAWS[name]
    stream = Stream("county", "cells", 40 if source in ("short words", "slow") else 1000)
    drawn = sha256()
    for part in (
        noise.draw(stream, law, draws=range(2, 5)),
        noise.draw_at(stream, law, draw=3, index=INDEX),
        noise.draw(REPORT, law, draws=range(9, 2, -3)),
    ):
        drawn.update(part.astype("<i8").tobytes())
    assert drawn.hexdigest()[:24] == GOLDEN[case]
