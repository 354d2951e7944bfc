"""A digest of counts: the same for the same people, whatever the order of rows or files."""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from headcount.tabulate.counts import Counts


def content_digest(counts: Counts) -> bytes:
    """SHA-256 of the domain and the counts.

    For the curator only: whoever knows all records but one could test guesses of the last one
    against it. What is published is an HMAC of it, under a secret.
    """
    hasher = sha256(b"headcount counts 1\0")

    def add(name: str, content: bytes) -> None:
        hasher.update(f"{name}:{len(content)}:".encode())
        hasher.update(content)

    add("schema", repr(counts.schema).encode())
    add("levels", repr(counts.geography.levels).encode())
    for codes, parents in zip(counts.geography.units, counts.geography.parents, strict=True):
        add("units", "\0".join(codes.tolist()).encode())
        add("parents", parents.astype("<i4").tobytes())
    matrix = counts.matrix.copy()
    matrix.sum_duplicates()
    matrix.sort_indices()
    for part in (matrix.indptr, matrix.indices, matrix.data):
        add("counts", np.asarray(part).astype("<i8").tobytes())
    add("read off", repr(counts.read_off).encode())
    if counts.quarters is not None:
        add("quarters by", counts.quarters.attribute.encode())
        add("occupied", counts.quarters.occupied.astype("<i8").tobytes())
        add("vacant", counts.quarters.vacant.astype("<i8").tobytes())
    return hasher.digest()
