"""What the rest of headcount knows about noise: run keys, named streams, a source that fills them.

A run key is 256 secret bits for a release, or bits anyone can rebuild from a seed for a study. Key
plus published measurements is the truth, so a key of a release is never shown, pickled or logged;
another process gets the path of its file. It lives in one file readable by its owner only (on
Windows by whom the access list of its folder lets in, which is not checked), and is destroyed when
the release is complete. Overwriting a file is best effort on journaling file systems and flash
storage, and a copy stays in the memory of the process until it ends.

Steps that need more than noise on counts (a permutation, a sample) seed generators of random
numbers by it: any source of noise will do, and the same key, data and run give the same draws.

Keyed 64-bit words have random access: one AES-256-CTR stream for each (level, query). Word ``w`` of
a stream is bytes 8w..8w+7 of the AES-256 counter-mode key stream whose counter starts at zero (NIST
SP 800-38A), read as a little-endian integer. Runs of words use counter mode; scattered words
encrypt just the counters they need, which is the same function. The words that extend word ``w``
come from a second key with the counter starting at w * 2^64, so they never meet those of another
word. The loops that look draws up, count and pick words are compiled, and hold integers only.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from socket import gethostname
from typing import Protocol, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from headcount.arrays import Ints, Ints32
from headcount.compiled import kernel
from headcount.errors import ConfigError, PrivacyError, RunError
from headcount.files import close_to_others, mode_of, naming, open_own, sync_directory
from headcount.noise.laws import Law, TwoSidedGeometric


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


class KeyKind(StrEnum):
    """Where the key of the noise came from."""

    OS = "os"
    """256 bits from the operating system, destroyed when the release is complete."""

    SEED = "seed"
    """The user's seed: the run can be repeated, and is not private."""


MEASUREMENT = "measurement"
"""The purpose of a stream unless it says otherwise: noise on answers to the user's queries."""

DrawPositions: TypeAlias = Ints | range
"""Places in a draw: in any order, or a run of neighbours, which is drawn much faster."""

WORDS = 1 << 63
"""Words in one stream: addresses fit a signed 64-bit integer."""


@dataclass(frozen=True)
class Stream:
    """One addressable stream of noise.

    ``level``
        geography level.
    ``query``
        query name (``"cells"`` for the full histogram).
    ``size``
        scalars in one draw: units x cells of the level's public domain, unit-major.
    ``purpose``
        what the noise is for. Levels and queries are named by users; purposes are not, and two
        purposes never share noise, whatever the names.
    """

    level: str
    query: str
    size: int
    purpose: str = MEASUREMENT

    @property
    def address(self) -> tuple[str | int, ...]:
        """What tells this stream from all others of a run.

        That of another purpose is longer. Encoded with the number, kind and length of its parts
        (``encode``), no choice of names makes it that of a measurement.
        """
        named = (self.level, self.query, self.size)
        return named if self.purpose == MEASUREMENT else (*named, self.purpose)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(
                f"noise stream {self.level}/{self.query}",
                place="size",
                found=str(self.size),
                expected="at least 1 scalar",
            )


class Noise(Protocol):
    """A source of exact integer noise: signed 64-bit integers that follow a law."""

    @property
    def key_kind(self) -> KeyKind:
        """``"os"`` for a private release, ``"seed"`` for a repeatable, not private, study."""

    @property
    def backend(self) -> str:
        """What receipts call the sampler: ``"table"``."""

    def draw(self, stream: Stream, law: Law, *, draws: range) -> Ints:
        """Every scalar of the given draws: an array ``(len(draws), stream.size)``."""

    def draw_at(self, stream: Stream, law: Law, *, draw: int, index: DrawPositions) -> Ints:
        """One draw at the positions ``index``, equal to what the whole draw holds there."""


def check_draws(stream: Stream, draws: range) -> None:
    """Refuse draw numbers outside the stream: they would repeat words."""
    if len(draws) and (min(draws) < 0 or (max(draws) + 1) * stream.size > WORDS):
        raise ConfigError(
            f"noise {stream.level}/{stream.query}",
            place="draws",
            found=f"{min(draws)}..{max(draws)}",
            expected=f"draws of {stream.size} scalars within words 0..2^63 - 1",
        )


KEY_BYTES = 32
_HEADER = b"headcount run key 2"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


class RunKey:
    """The key all noise of one run is derived from; make one with ``from_os`` or ``from_seed``.

    Not a dataclass: ``asdict`` of something that holds a key would copy its bytes out.
    """

    __slots__ = ("file", "kind", "material", "replicate", "seed")

    def __init__(
        self,
        *,
        kind: KeyKind,
        material: bytes,
        seed: int | None = None,
        replicate: int | None = None,
    ) -> None:
        self.kind: KeyKind = kind
        self.material = material
        self.seed = seed
        self.replicate = replicate
        self.file: Path | None = None
        """Where the key is kept: how another process gets it."""

    @classmethod
    def from_os(cls) -> RunKey:
        """Draw 256 bits from the operating system: for a release."""
        return cls(kind=KeyKind.OS, material=secrets.token_bytes(KEY_BYTES))

    @classmethod
    def from_seed(cls, seed: int, replicate: int = 0) -> RunKey:
        """Derive the key from a seed and a replicate number: for a study, never private."""
        for name, value in (("seed", seed), ("replicate", replicate)):
            if value < 0:
                raise ConfigError(
                    "run key", place=name, found=str(value), expected="an integer of 0 or more"
                )
        material = sha256(encode("headcount seed", seed, replicate)).digest()
        return cls(kind=KeyKind.SEED, material=material, seed=seed, replicate=replicate)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunKey):
            return NotImplemented
        return self.kind == other.kind and compare_digest(self.material, other.material)

    def __hash__(self) -> int:
        return hash((self.kind, self.material))

    def __repr__(self) -> str:
        if self.kind is KeyKind.SEED:
            return f"RunKey.from_seed({self.seed}, {self.replicate})"
        return "RunKey(kind='os', hidden)"

    def __reduce__(self) -> tuple[object, ...]:
        if self.seed is not None and self.replicate is not None:
            return (RunKey.from_seed, (self.seed, self.replicate))
        if self.file is None:
            raise PrivacyError(
                "The key of a release cannot be pickled. Other processes read it with load_run_key "
                "from the run's key file."
            )
        return (_key_here, (self.file,))


def encode(*parts: str | bytes | int) -> bytes:
    """Join parts so that no two different lists give the same bytes.

    Each part is its type, its length as 8 bytes, and its content; integers as decimal text.
    """
    out = bytearray()
    for part in parts:
        if isinstance(part, bytes):
            tag, content = b"b", part
        elif isinstance(part, str):
            tag, content = b"s", part.encode()
        else:
            tag, content = b"i", str(int(part)).encode()
        out += tag + len(content).to_bytes(8, "big") + content
    return bytes(out)


def save_run_key(key: RunKey, path: Path) -> None:
    """Write the key to a new file with mode 0600 and push it to the disk; refuse to overwrite."""
    if key.kind is KeyKind.OS:
        body = b"os " + key.material.hex().encode()
    else:
        body = f"seed {key.seed} {key.replicate}".encode()
    try:
        handle = os.open(path, _NEW, 0o600)
    except FileExistsError:
        raise RunError(f"{path}: found a key file, expected none: a run has one key") from None
    with naming(path), os.fdopen(handle, "wb") as file:
        close_to_others(file.fileno(), 0o600)  # a strict umask could clear the owner's bits
        file.write(b"\n".join((_HEADER, body, _checksum(body), b"")))
        file.flush()
        os.fsync(file.fileno())
    sync_directory(path.parent)
    key.file = path.absolute()


def _checksum(body: bytes) -> bytes:
    """What tells a damaged key from a sound one: another key would draw noise a second time."""
    return sha256(encode("headcount run key", body)).hexdigest().encode()


def _key_here(path: Path) -> RunKey:
    """The key of a run in another process than the one that made it."""
    try:
        return load_run_key(path)
    except FileNotFoundError:
        raise RunError(
            f"{path}: found no key file on {gethostname()}, expected the run's, on a file system "
            f"that all machines share"
        ) from None


def load_run_key(path: Path) -> RunKey:
    """Read a key that ``save_run_key`` wrote; refuse one whose mode lets others read it."""
    with os.fdopen(open_own(path), "rb") as file:
        if (mode := mode_of(os.fstat(file.fileno()))) is not None and mode & 0o077:
            raise PrivacyError(f"{path}: found mode {mode:04o}, expected 0600: the key is secret")
        lines = file.read().split(b"\n")
    damaged = RunError(f"{path}: found a damaged key file, expected one written by headcount")
    if len(lines) != 4 or lines[0] != _HEADER or lines[2] != _checksum(lines[1]) or lines[3]:
        raise damaged
    try:
        kind, *values = lines[1].decode().split(" ")
        if kind == "os":
            (material,) = (bytes.fromhex(value) for value in values)
            if len(material) == KEY_BYTES:
                key = RunKey(kind=KeyKind.OS, material=material)
                key.file = path.absolute()
                return key
        elif kind == "seed":
            seed, replicate = (int(value) for value in values)
            return RunKey.from_seed(seed, replicate)
    except ValueError:
        raise damaged from None
    raise damaged


def destroy_run_key(path: Path) -> None:
    """Overwrite the key file, push that to the disk, and remove it (best effort on flash)."""
    with naming(path), os.fdopen(open_own(path, os.O_RDWR), "r+b") as file:
        length = os.fstat(file.fileno()).st_size
        file.write(secrets.token_bytes(length))
        file.flush()
        os.fsync(file.fileno())
    path.unlink()
    sync_directory(path.parent)


SEED_DRAWS = 256
"""Geometric draws in a seed, with at least 1.1 bits of chance each: 280 in all."""


def generator(noise: Noise, stream: Stream, run: int) -> np.random.Generator:
    """A random generator of this run's own: fast, in floating point, and no cipher."""
    words = np.frombuffer(secret_bits(noise, stream, run), dtype="<u4")
    return np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(words.tolist())))


def cipher_words(noise: Noise, stream: Stream, run: int) -> Words:
    """Uniform 64-bit words of this run's own, from a cipher stream."""
    digest = secret_bits(noise, stream, run)
    return Words(
        key=derive_key(digest, b"words of a step"),
        extension_key=derive_key(digest, b"extension of a step"),
    )


def secret_bits(noise: Noise, stream: Stream, run: int) -> bytes:
    """256 bits of this run's own, as secret as its noise."""
    drawn = noise.draw(stream, TwoSidedGeometric(Fraction(1)), draws=range(run, run + 1))
    return sha256(drawn.astype("<i8").tobytes()).digest()
