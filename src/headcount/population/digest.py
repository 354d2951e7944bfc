"""A digest of a source file's records: the same however they are ordered, named or chosen from.

For the ledger, which must know data again under another view of them. It is no signature: whoever
changes one byte of one record, or adds a column, has another digest.

    digest = SHA-256(number of records, sum over records of mix(sum over fields of hash(field)))

where hash gives two 64-bit words (BLAKE2b), mix is the finaliser of splitmix64 (Steele, Lea and
Flood, 2014), and sums are modulo 2^64, so that neither order of records nor of columns matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b, sha256
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.population.format import PLAIN, Format
from headcount.population.pieces import pieces_of

WordPairs = NDArray[np.uint64]
"""Two 64-bit words for each record: 2 x records."""

_NOTHING = "\0nothing"  # an empty field, as no file can write it


def table_digest(path: Path, form: Format = PLAIN) -> str:
    """The digest of the rows of a table, over all of its columns; some rows at a time."""
    batches = (batch for piece in pieces_of(path, form) for batch in piece.texts())
    return records_digest(_of_columns(columns) for columns in batches)


def _of_columns(columns: Iterable[pl.Series]) -> WordPairs:
    """Two words for each row, from all of its columns."""
    total: WordPairs | None = None
    for column in columns:
        words = _fields(column)
        total = words if total is None else total + words
    return np.empty((2, 0), dtype=np.uint64) if total is None else total


def records_digest(parts: Iterator[WordPairs]) -> str:
    """The digest of records of which each has two words, given some at a time."""
    total, records = np.zeros(2, dtype=np.uint64), 0
    for part in parts:
        records += part.shape[1]
        # Each word is mixed with the other: a record is more than the sum of its fields.
        total += np.stack([mixed(part[0] ^ mixed(part[1])), mixed(part[1] ^ mixed(part[0]))]).sum(
            axis=1, dtype=np.uint64
        )
    return sha256(f"records 1:{records}:{total[0]:016x}{total[1]:016x}".encode()).hexdigest()


def _fields(column: pl.Series) -> WordPairs:
    """Two words for each value of a column; each distinct value is hashed once."""
    values = column.fill_null(_NOTHING).to_frame("value")
    known = values.unique().with_row_index("number")
    text = known["value"].to_list()
    hashes = np.frombuffer(
        b"".join(blake2b(one.encode(), digest_size=16).digest() for one in text), dtype="<u8"
    ).reshape(-1, 2)
    number = values.join(known, on="value", how="left", maintain_order="left")["number"]
    words: WordPairs = hashes[number.to_numpy()].T
    return words


def mixed(words: WordPairs) -> WordPairs:
    """The finaliser of splitmix64: a permutation of 64-bit words."""
    word = words + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: WordPairs = word ^ (word >> np.uint64(31))
    return result
