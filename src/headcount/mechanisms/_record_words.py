"""Record keys: a secret word of 64 bits for everybody, and the sums of words that are cell keys.

The key of a cell is the sum, modulo 2^64, of the words of its people. Sums of uniform words are
uniform, and those of disjoint sets of people are independent. So one word for each leaf unit and
cell where somebody is gives all published cells the same joint law as one word for each person,
as long as

    every published cell is a union of leaf cells, and
    the people of each leaf cell are always the same.

The first holds for every table of a schema's attributes. The second is why a key file belongs to
one set of data: if somebody joined a leaf cell that keeps its word, the change of its count would
stay and the difference of two releases would be the person. Other data are refused, and a second
swap of the same people is other data.
"""

from __future__ import annotations

import logging
import os
import secrets
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from hmac import new as hmac
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.errors import PrivacyError, RunError
from headcount.files import (
    POSIX,
    UNCHECKED,
    close_to_others,
    mode_of,
    open_own,
    sync_directory,
)
from headcount.mechanisms._seeded import SEED_DRAWS, secret_bits
from headcount.noise import Noise, Stream
from headcount.noise.source import KeyKind
from headcount.noise.words import Words, derive_key
from headcount.tabulate import Counts
from headcount.tabulate.counts import adder
from headcount.tabulate.published import TableCells

log = logging.getLogger(__name__)

WordArray = NDArray[np.uint64]
SECRET_BYTES = 32
AT_ONCE = 1 << 20
"""Words made at once."""
KEPT = (
    "kept in a file for later tables: the same people are changed alike in every release that is "
    "made with it, and whoever reads it can take every change away again"
)
ALONE = "made for this release alone: the same people are changed otherwise in another"
SEEDED = "from a seed: whoever knows or guesses it can take every change away again"
_HEADER = b"headcount record keys 1"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


class KeySecret:
    """256 bits that all record keys come from; never shown or pickled.

    ``origin`` says for the receipt where they are, and what follows from that.
    """

    __slots__ = ("material", "origin")

    def __init__(self, material: bytes, *, origin: str) -> None:
        self.material = material
        self.origin = origin

    def __repr__(self) -> str:
        return "KeySecret(hidden)"

    def __reduce__(self) -> tuple[object, ...]:
        raise PrivacyError("record keys: found an attempt to pickle them, expected none")

    def words(self, purpose: str) -> Words:
        """A stream of words for one purpose."""
        return Words(
            key=derive_key(self.material, f"{purpose}: words".encode()),
            extension_key=derive_key(self.material, f"{purpose}: extension".encode()),
        )

    def word_of(self, *parts: str) -> np.uint64:
        """The word of something that has a name: a category, a unit."""
        key = derive_key(self.material, b"named words")
        text = b"".join(len(p.encode()).to_bytes(8, "big") + p.encode() for p in parts)
        return np.uint64(int.from_bytes(hmac(key, text, sha256).digest()[:8], "little"))

    def digest_key(self) -> bytes:
        """The key under which digests of settings are published."""
        return derive_key(self.material, b"digests of settings")

    def tag_of(self, counts: Counts) -> bytes:
        """What stands for the data in a key file."""
        return hmac(derive_key(self.material, b"data"), _content(counts), sha256).digest()


def record_secret(file: Path | None, counts: Counts, noise: Noise, run: int) -> KeySecret:
    """The record keys of a file, or those of the run where none is named."""
    return secret_of_run(counts, noise, run) if file is None else secret_of_file(file, counts)


def secret_of_run(counts: Counts, noise: Noise, run: int) -> KeySecret:
    """Record keys of one run, which are gone when its key is destroyed."""
    stream = Stream(
        level=counts.geography.leaf, query="record keys", size=SEED_DRAWS, purpose="record keys"
    )
    origin = SEEDED if noise.key_kind == KeyKind.SEED else ALONE
    return KeySecret(secret_bits(noise, stream, run), origin=origin)


def secret_of_file(path: Path, counts: Counts) -> KeySecret:
    """The record keys of a key file, which is made at its first use; other data are refused."""
    if not os.path.lexists(path):
        secret = KeySecret(secrets.token_bytes(SECRET_BYTES), origin=KEPT)
        if _save(secret, secret.tag_of(counts), path):
            return secret  # else another process was faster
    secret, tag = _load(path)
    if not compare_digest(tag, secret.tag_of(counts)):
        raise PrivacyError(
            f"{path}: found keys of other data, expected keys made for the very people and places "
            "that are protected: after a change the difference of two releases would be exact. "
            "After swapping these are the swapped people, so that a second swap is refused"
        )
    return secret


def check_key_file(path: Path) -> None:
    """Refuse a key file that others can read or that is damaged, and a folder that is not there."""
    if os.path.lexists(path):
        _load(path)
    elif not path.parent.is_dir():
        raise RunError(f"{path}: found no folder {path.parent}, expected one for the key file")


def _save(secret: KeySecret, tag: bytes, path: Path) -> bool:
    """Write a new key file whole, for its owner only; False if there is one by now."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    handle = os.open(temporary, _NEW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            close_to_others(file.fileno(), 0o600)
            lines = (_HEADER, secret.material.hex().encode(), tag.hex().encode(), b"")
            file.write(b"\n".join(lines))
            file.flush()
            os.fsync(file.fileno())
        try:
            if POSIX:
                os.link(temporary, path)  # unlike a rename it never replaces a file
            else:
                temporary.rename(path)  # which on Windows never replaces one either
        except FileExistsError:
            return False
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)
    if not POSIX:
        log.warning(UNCHECKED, path)
    return True


def _load(path: Path) -> tuple[KeySecret, bytes]:
    with os.fdopen(open_own(path), "rb") as file:
        if (mode := mode_of(os.fstat(file.fileno()))) is not None and mode & 0o077:
            raise PrivacyError(
                f"{path}: found mode {mode:04o}, expected 0600: whoever reads record keys can "
                "take every change away again"
            )
        lines = file.read().split(b"\n")
    try:
        header, material, tag, end = lines
        found = bytes.fromhex(material.decode()), bytes.fromhex(tag.decode())
    except ValueError:
        header, found, end = b"", (b"", b""), b""
    if header != _HEADER or len(found[0]) != SECRET_BYTES or end:
        raise RunError(f"{path}: found a damaged key file, expected one written by headcount")
    return KeySecret(found[0], origin=KEPT), found[1]


def _content(counts: Counts) -> bytes:
    """Everything that leaf cells are: places, attributes, and how many people are in each."""
    matrix = _sorted(counts)
    hasher = sha256(repr(counts.schema).encode())
    leaf = counts.geography.units[counts.geography.depth(counts.level)]
    parts = ["\0".join(leaf.tolist()).encode()]
    parts += [
        np.asarray(one).astype("<i8").tobytes()
        for one in (matrix.indptr, matrix.indices, matrix.data)
    ]
    for part in parts:
        hasher.update(len(part).to_bytes(8, "big") + part)
    return hasher.digest()


def _sorted(counts: Counts) -> Any:
    matrix = counts.matrix.copy()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


@dataclass(frozen=True, eq=False, repr=False)
class CellWords:
    """Words of the leaf cells where somebody is (leaf units x cells), and keys of tables."""

    counts: Counts
    matrix: Any

    @classmethod
    def of(cls, counts: Counts, secret: KeySecret) -> CellWords:
        """Word i of a stream is that of unit and cell number i of the public domain."""
        matrix = _sorted(counts)
        size = matrix.shape[0] * matrix.shape[1]
        row = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
        index = row * matrix.shape[1] + matrix.indices
        words, stream = np.empty(len(index), dtype=np.uint64), secret.words("record keys")
        for start in range(0, len(index), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            words[some] = stream.at(index[some], 0, size)
        return cls(counts, _matrix(words, matrix))

    def at(self, level: str) -> CellWords:
        """The words added up to a level at or above this one; sums wrap modulo 2^64."""
        if level == self.counts.level:
            return self
        up = adder(self.counts.geography, level, of=self.counts.level)
        added = _ones(up) @ self.matrix
        return CellWords(self.counts.at(level), added.tocsr())

    def keys(self, cells: TableCells) -> WordArray:
        """The key of each cell of a table (units x cells); 0 where nobody is."""
        # A person whom a table counts twice, by two races, is one person of its total.
        return np.asarray((self.matrix @ _ones(cells.matrix)).toarray(), dtype=np.uint64)


def _ones(matrix: Any) -> Any:
    """Where a matrix is not 0, in the type of words: with integers sums would become floats."""
    from scipy.sparse import csr_array

    kept = csr_array(matrix != 0)
    return _matrix(np.ones(kept.nnz, dtype=np.uint64), kept)


def _matrix(values: WordArray, like: Any) -> Any:
    from scipy.sparse import csr_array

    return csr_array((values, like.indices, like.indptr), shape=like.shape)
