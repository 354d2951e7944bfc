"""Words: the AES counter stream, read in any order."""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.noise.source import CHUNK, Words, derive_key

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
WORDS = Words(key=KEY, extension_key=OTHER)


def reference(start: int, count: int, key: bytes = KEY) -> list[int]:
    """Encrypt each counter on its own: counter mode by its definition."""
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    out = []
    for word in range(start, start + count):
        block = cipher.update((word // 2).to_bytes(16, "big"))
        out.append(int.from_bytes(block[8 * (word % 2) :][:8], "little"))
    return out


def test_known_answer():
    """AES-256 of the zero block under key 00..1f (first vector computed with any AES)."""
    first = next(WORDS.run(0, 2))
    assert first.tobytes().hex() == "f29000b62a499fd0a9f39a6add2e7780"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**62), st.integers(1, 50))
def test_runs_and_scattered_words_agree_with_the_definition(start, count):
    expected = reference(start, count)
    run = [int(word) for part in WORDS.run(start, count) for word in part]
    order = np.random.default_rng(count).permutation(count).astype(np.int64)
    scattered = WORDS.at(order, start, count)
    assert run == expected
    assert [int(word) for word in scattered] == [expected[i] for i in order]


def test_long_runs_do_not_depend_on_their_start():
    whole = np.concatenate([part.copy() for part in WORDS.run(0, 2 * CHUNK + 99)])
    for start in (1, 2, CHUNK - 1, CHUNK, CHUNK + 7):
        part = np.concatenate([p.copy() for p in WORDS.run(start, whole.size - start)])
        assert np.array_equal(part, whole[start:])


def test_extension_is_apart_from_every_other_word():
    def extension(word: int, count: int) -> list[int]:
        source = WORDS.extension(word)
        return [next(source) for _ in range(count)]

    assert extension(5, 6) == extension(5, 6)
    assert extension(5, 4) == reference(2 * 5 * 2**64, 4, key=OTHER)
    seen = [value for word in range(200) for value in extension(word, 6)]
    seen += [int(word) for part in WORDS.run(0, 2000) for word in part]
    assert len(set(seen)) == len(seen)


def test_derived_keys_differ_by_purpose_and_secret():
    assert derive_key(b"a", b"x") != derive_key(b"a", b"y") != derive_key(b"b", b"y")
    assert len(derive_key(b"a", b"x")) == 32
