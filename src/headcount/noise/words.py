"""Keyed 64-bit words with random access: one AES-256-CTR stream for each (level, query).

Word ``w`` of a stream is bytes 8w..8w+7 of the AES-256 counter-mode key stream whose counter
starts at zero (NIST SP 800-38A), read as a little-endian integer. Runs of words use counter mode;
scattered words encrypt just the counters they need, which is the same function. The words that
extend word ``w`` come from a second key with the counter starting at w * 2^64, so they never meet
those of another word.

The loops that look draws up, count and pick words are compiled, and hold integers only.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from headcount.arrays import Ints, Ints32
from headcount.compiled import kernel


@kernel(work=lambda words, *_: 3 * words.size)
def lookup(
    words: NDArray[np.uint64],
    drop: np.uint64,
    thresholds: NDArray[np.uint64],
    guide: Ints32,
    shift: np.uint64,
    out: Ints,
    undecided: Ints,
) -> int:
    """Invert one word for each draw; returns how many were undecided and lists their positions.

    A word, cut to its top 64 - drop bits, is u (all but the lowest bit) and a sign. The magnitude
    is the number of thresholds below u, unless a threshold equals u. ``guide[b]`` is the number
    of thresholds below bin b of u, stored as its complement (negative) if bin b holds one.
    """
    one = np.uint64(1)
    found = 0
    for i in range(words.size):
        word = words[i] >> drop
        u = word >> one
        b = u >> shift
        k = np.int64(guide[b])
        if k < 0:
            k = ~k
            high = np.int64(guide[b + one])
            if high < 0:
                high = ~high
            while k < high:
                middle = (k + high) >> 1
                if thresholds[middle] < u:
                    k = middle + 1
                else:
                    high = middle
            if thresholds[k] == u:
                undecided[found] = i
                found += 1
        sign = np.int64(word & one)
        out[i] = (k ^ -sign) + sign
    return found


@kernel(work=lambda index, *_: 8 * index.size)
def counters(index: Ints, base: int, size: int, blocks: NDArray[np.uint64]) -> bool:
    """Fill blocks with the big-endian 128-bit counters that hold words base + index."""
    byte = np.uint64(0xFF)
    eight = np.uint64(8)
    for i in range(index.size):
        if index[i] < 0 or index[i] >= size:
            return False
        block = np.uint64((base + index[i]) >> 1)
        swapped = np.uint64(0)
        for _ in range(8):
            swapped = (swapped << eight) | (block & byte)
            block >>= eight
        blocks[2 * i] = np.uint64(0)
        blocks[2 * i + 1] = swapped
    return True


@kernel
def pick(blocks: NDArray[np.uint64], index: Ints, base: int, words: NDArray[np.uint64]) -> None:
    """Take from each two-word block the word that base + index names."""
    for i in range(index.size):
        words[i] = blocks[2 * i + ((base + index[i]) & 1)]


CHUNK = 1 << 15
"""Words made at a time: 256 KiB, so that they are still in the cache when they are used."""

_ZEROS = np.zeros(8 * CHUNK, dtype=np.uint8)


def derive_key(secret: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869): a 256-bit key for the purpose that ``info`` spells out."""
    return HKDF(algorithm=SHA256(), length=32, salt=b"headcount noise", info=info).derive(secret)


class Words:
    """The words of one stream; every thread has a cipher of its own."""

    def __init__(self, *, key: bytes, extension_key: bytes) -> None:
        self._key = key
        self._extension_key = extension_key
        self._local = threading.local()

    def run(self, start: int, count: int) -> Iterator[NDArray[np.uint64]]:
        """Words start .. start + count - 1 in chunks; a chunk is overwritten by the next one."""
        counter = modes.CTR((start >> 1).to_bytes(16, "big"))
        cipher = Cipher(algorithms.AES(self._key), counter).encryptor()
        if start & 1:
            cipher.update(bytes(8))
        # update_into asks for one cipher block less a byte beyond what it writes
        buffer = np.empty(8 * min(CHUNK, count) + 16, dtype=np.uint8)
        words = buffer.view(np.uint64)
        while count > 0:
            now = min(CHUNK, count)
            cipher.update_into(_ZEROS[: 8 * now], buffer)  # type: ignore[arg-type]
            yield words[:now]
            count -= now

    def at(self, index: Ints, base: int, size: int) -> NDArray[np.uint64]:
        """Words base + index; raises IndexError when an index is outside 0 .. size - 1."""
        blocks = np.empty(2 * index.size, dtype=np.uint64)
        if not counters(index, base, size, blocks):
            raise IndexError(f"found a position outside 0..{size - 1}")
        buffer = np.empty(16 * index.size + 16, dtype=np.uint8)
        self._block_cipher().update_into(blocks.view(np.uint8), buffer)  # type: ignore[arg-type]
        words = np.empty(index.size, dtype=np.uint64)
        pick(buffer.view(np.uint64), index, base, words)
        return words

    def extension(self, word: int) -> Iterator[int]:
        """The endless 64-bit words that extend word number ``word``."""
        counter = modes.CTR((word << 64).to_bytes(16, "big"))
        cipher = Cipher(algorithms.AES(self._extension_key), counter).encryptor()
        while True:
            yield int.from_bytes(cipher.update(bytes(8)), "little")

    def _block_cipher(self) -> CipherContext:
        cipher: CipherContext | None = getattr(self._local, "cipher", None)
        if cipher is None:
            # ECB of distinct counters is how counter mode is defined; no data is encrypted here
            cipher = Cipher(algorithms.AES(self._key), modes.ECB()).encryptor()
            self._local.cipher = cipher
        return cipher
