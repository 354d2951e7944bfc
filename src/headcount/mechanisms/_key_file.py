"""Record keys: words of persons, their sums (cell keys), and the file that keeps their secret.

A key file is bound to whom it has been used for, so that the same people are never protected in two
ways under the same keys; the difference of two such releases would be exact.

    words of leaf cells   one set of data, for ever: if somebody joined a leaf cell that keeps its
                          word, the change of its count would stay, and the difference of two
                          releases would be the person
    words of persons      any number of editions. People who were in the same places before must be
                          in the same places after: a second swap, or sample, is refused
    both                  one way to change counts: by another perturbation table, or base, the same
                          people would be published with two changes, which tell more than one

What stands in the file is an HMAC of each, under the secret.

The key of a cell is the sum, modulo 2^64, of the words of its people. Sums of uniform words are
uniform, and those of disjoint sets of people are independent. Where persons have words of their own
(``population.record_keys``) these are added up. Else one word for each leaf unit and cell where
somebody is gives all published cells the same joint law, as long as

    every published cell is a union of leaf cells, and
    the people of each leaf cell are always the same.

The first holds for every table of a schema's attributes; the second is what key files are bound to.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from hashlib import sha256
from hmac import new as hmac
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from headcount.addresses import SCHEMA
from headcount.errors import PrivacyError, RunError
from headcount.files import (
    POSIX,
    UNCHECKED,
    close_to_others,
    mode_of,
    open_own,
    sync_directory,
)
from headcount.noise import Noise, Stream
from headcount.noise.source import SEED_DRAWS, KeyKind, Words, derive_key, secret_bits
from headcount.population.population import RecordKeys
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
GIVEN = (
    "read from the file of the people: the same people are changed alike wherever the same table "
    "is used, and whoever has these keys and the table can take every change away again"
)
GIVEN_ALONE = (
    "read from the file of the people, for a table whose columns are in an order made for this "
    "release alone: the same people are changed otherwise in another"
)
CELLS, IDS, KEYS = "cells", "ids", "keys"
MADE_FOR = {CELLS: "leaf cells", IDS: "ids of persons", KEYS: "record keys of a column"}
"""What words are made for, by the word for it in a key file."""
_ANY_VERSION = b"headcount record keys "
_THIS_VERSION = _ANY_VERSION + b"1\n"
_HEADER = _THIS_VERSION.decode().strip()
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
        raise PrivacyError("The secret behind record keys cannot be pickled.")

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

    def words_of_persons(self, keys: RecordKeys) -> WordArray:
        """The word of each person: given, or half of the digest of their id enciphered with AES."""
        if keys.possible:
            return keys.values
        # A block cipher under a secret key is a random function of distinct blocks.
        cipher = Cipher(algorithms.AES(derive_key(self.material, b"persons")), modes.ECB())
        encipher, words = cipher.encryptor(), np.empty(len(keys.values), dtype=np.uint64)
        for start in range(0, len(words), AT_ONCE):
            some = keys.values[start : start + AT_ONCE]
            blocks = np.zeros((len(some), 2), dtype="<u8")
            blocks[:, 0] = some
            made = np.frombuffer(encipher.update(blocks.tobytes()), dtype="<u8")
            words[start : start + len(some)] = made[::2]
        return words

    def digest_key(self) -> bytes:
        """The key under which digests of settings are published."""
        return derive_key(self.material, b"digests of settings")

    def tag_of(self, content: bytes) -> str:
        """What stands for some content in a key file."""
        return hmac(derive_key(self.material, b"data"), content, sha256).hexdigest()


@dataclass(frozen=True)
class _Use:
    """What a key file is used for.

    where
        way             how counts are changed by keys, the same for ever
        before, after   of the people: ``after`` may not differ for the same ``before``
    """

    kind: str
    way: str
    before: str
    after: str

    @classmethod
    def of(cls, secret: KeySecret, counts: Counts, way: str) -> _Use:
        by = secret.tag_of(way.encode())
        if (records := counts.records) is None:
            return cls(CELLS, by, secret.tag_of(b""), secret.tag_of(leaf_content(counts)))
        places = records.places()
        return cls(
            KEYS if records.keys.possible else IDS,
            by,
            secret.tag_of(records.before or places),
            secret.tag_of(places),
        )


def record_secret(
    file: Path | None, counts: Counts, noise: Noise, run: int, *, way: str
) -> KeySecret:
    """The record keys of a file, or those of the run where none is named."""
    return _secret_of_run(counts, noise, run) if file is None else secret_of_file(file, counts, way)


def origin_of_words(secret: KeySecret, counts: Counts, *, order: bool = False) -> str:
    """What a receipt says of where words come from.

    where
        order   whether the secret decides besides what a given key stands for
    """
    if counts.records is None or not counts.records.keys.possible:
        return secret.origin
    return GIVEN_ALONE if order and secret.origin != KEPT else GIVEN


def _secret_of_run(counts: Counts, noise: Noise, run: int) -> KeySecret:
    """Record keys of one run, which are gone when its key is destroyed."""
    stream = Stream(
        level=counts.geography.leaf, query="record keys", size=SEED_DRAWS, purpose="record keys"
    )
    origin = SEEDED if noise.key_kind == KeyKind.SEED else ALONE
    return KeySecret(secret_bits(noise, stream, run), origin=origin)


def secret_of_file(path: Path, counts: Counts, way: str) -> KeySecret:
    """The record keys of a key file, which is made at its first use; other data are refused.

    where
        way   everything that decides how a count is changed by its key
    """
    if not os.path.lexists(path):
        secret = KeySecret(secrets.token_bytes(SECRET_BYTES), origin=KEPT)
        if _save(secret, [_Use.of(secret, counts, way)], path, new=True):
            return secret  # else another process was faster
    with _waited_for(path):
        secret, uses = _load(path)
        use = _Use.of(secret, counts, way)
        _refuse(path, uses, use)
        if use not in uses:
            _save(secret, [*uses, use], path, new=False)
    return secret


@contextmanager
def _waited_for(path: Path) -> Iterator[None]:
    """Keep other processes from using a key file for the first time with some people meanwhile.

    Who writes it puts a new file in its place; a lock on the old one is worth nothing then, and
    is taken again. Windows cannot replace an open file, so there is no lock there.
    """
    from filelock import lock_descriptor

    while POSIX:
        with os.fdopen(open_own(path), "rb") as file:
            lock_descriptor(file.fileno())
            if os.path.samestat(os.fstat(file.fileno()), path.lstat()):
                yield
                return
    yield


@dataclass(frozen=True)
class KeptKeys:
    """A file that keeps record keys: it must outlive every run, and so may not lie in one.

    where
        way   everything that decides how a count is changed by its key
    """

    file: Path
    way: str

    def check_file(self) -> None:
        """Refuse one that others can read or that is damaged, and a folder that is not there."""
        path = self.file
        if os.path.lexists(path):
            _load(path)
        elif not path.parent.is_dir():
            raise RunError(f"{path}: found no folder {path.parent}, expected one for the key file")

    def check(self, counts: Counts, *, changed: bool = False) -> None:
        """Refuse a key file of other people, or for another way to change counts by keys.

        where
            changed   whether a step is still to change these people anew
        """
        if not os.path.lexists(self.file):
            return
        secret, uses = _load(self.file)
        use = _Use.of(secret, counts, self.way)
        _refuse(self.file, uses, replace(use, after="") if changed else use)


def _refuse(path: Path, uses: list[_Use], use: _Use) -> None:
    for one in uses:
        if one.kind != use.kind:
            raise PrivacyError(
                f"{path}: found keys made for {MADE_FOR[one.kind]}, expected keys made for "
                f"{MADE_FOR[use.kind]}: the same people would be changed in two ways"
            )
        if one.way != use.way:
            raise PrivacyError(
                f"{path}: found keys of releases whose counts are changed in another way, expected "
                "the settings of those releases (perturbation table, base): two changes of the "
                "same people tell more than one. Other settings need a key file of their own"
            )
        if one.before == use.before and one.after != use.after:
            raise PrivacyError(
                f"{path}: found keys of other data, expected keys made for the very people and "
                "places that are protected: after a change the difference of two releases would be "
                "exact. After swapping or sampling these are the changed people, so that a second "
                "swap is refused: to make more tables of the first one, name its run under [run], "
                'reuse = { run = "PATH" }'
            )


def _save(secret: KeySecret, uses: list[_Use], path: Path, *, new: bool) -> bool:
    """Write a key file whole, for its owner only; False if a new one is there by now."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    lines = [_HEADER, secret.material.hex(), *(" ".join(astuple(use)) for use in uses), ""]
    handle = os.open(temporary, _NEW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            close_to_others(file.fileno(), 0o600)
            file.write("\n".join(lines).encode())
            file.flush()
            os.fsync(file.fileno())
        try:
            if not new:
                temporary.replace(path)
            elif POSIX:
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


def _load(path: Path) -> tuple[KeySecret, list[_Use]]:
    if path.is_dir():
        raise RunError(f"{path}: found a folder, expected a key file, or nothing to make one")
    with os.fdopen(open_own(path), "rb") as file:
        if (mode := mode_of(os.fstat(file.fileno()))) is not None and mode & 0o077:
            raise PrivacyError(
                f"{path}: found mode {mode:04o}, expected 0600: whoever reads record keys can "
                "take every change away again"
            )
        content = file.read()
    try:
        header, material, *lines, end = content.decode().split("\n")
        secret = KeySecret(bytes.fromhex(material), origin=KEPT)
        uses = [_Use(*line.split(" ")) for line in lines]
        sound = header == _HEADER and len(secret.material) == SECRET_BYTES and not end
        sound = sound and bool(uses) and all(one.kind in MADE_FOR for one in uses)
    except (ValueError, TypeError):
        sound = False
    if not sound and content.startswith(_ANY_VERSION) and not content.startswith(_THIS_VERSION):
        raise RunError(
            f"{path}: found a key file of another version, expected {_HEADER.split()[-1]}: use the "
            "version of headcount that wrote it"
        )
    if not sound:
        raise RunError(f"{path}: found a damaged key file, expected one written by headcount")
    return secret, uses


def leaf_content(counts: Counts) -> bytes:
    """Everything that leaf cells are: places, attributes, and how many people are in each."""
    matrix = _sorted_matrix(counts)
    hasher = sha256(SCHEMA(counts.schema).encode())
    leaf = counts.geography.units[counts.geography.depth(counts.level)]
    parts = ["\0".join(leaf.tolist()).encode()]
    parts += [
        np.asarray(one).astype("<i8").tobytes()
        for one in (matrix.indptr, matrix.indices, matrix.data)
    ]
    for part in parts:
        hasher.update(len(part).to_bytes(8, "big") + part)
    return hasher.digest()


def _sorted_matrix(counts: Counts) -> Any:
    matrix = counts.matrix.copy()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


@dataclass(frozen=True, eq=False, repr=False)
class CellWords:
    """Words of the leaf cells where somebody is (leaf units x cells), and keys of tables."""

    counts: Counts
    matrix: Any
    above: dict[str, CellWords] = field(default_factory=dict)

    @classmethod
    def of(cls, counts: Counts, secret: KeySecret) -> CellWords:
        """Sums of persons' words; without them word i of a stream is that of unit and cell i."""
        if (records := counts.records) is not None:
            return cls(counts, records.sums(secret.words_of_persons(records.keys)))
        matrix = _sorted_matrix(counts)
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
        if level not in self.above:
            up = adder(self.counts.geography, level, of=self.counts.level)
            added = _ones(up) @ self.matrix
            self.above[level] = CellWords(self.counts.at(level), added.tocsr())
        return self.above[level]

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
