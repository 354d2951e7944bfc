"""Files too large to be made in memory: written in pieces, named when they are whole."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from io import BufferedWriter
from pathlib import Path

from headcount.files import naming, sync_directory
from headcount.progress import Progress

ROWS_AT_ONCE = 1 << 20
"""Rows made and written together: they bound the memory."""


def pieces(total: int, what: str, progress: Progress) -> Iterator[tuple[int, int]]:
    """Rows 0 to ``total`` in ranges of at most ``ROWS_AT_ONCE``."""
    starts = range(0, total, ROWS_AT_ONCE)
    for start in progress(starts, what=what, total=len(starts)):
        yield start, min(start + ROWS_AT_ONCE, total)


@contextlib.contextmanager
def whole_files(*paths: Path) -> Iterator[list[BufferedWriter]]:
    """Streams for new files that get their names one after the other when all are on disk.

    An error before that leaves the folder as it was.
    """
    part = secrets.token_hex(6)
    temporary = [path.with_name(f".{path.name}.{part}.tmp") for path in paths]
    try:
        with naming(paths[0].parent), contextlib.ExitStack() as stack:
            streams: list[BufferedWriter] = []
            for path in temporary:
                path.parent.mkdir(parents=True, exist_ok=True)
                streams.append(stack.enter_context(path.open("xb")))
            yield streams
            for stream in streams:
                stream.flush()
                os.fsync(stream.fileno())
        for path, final in zip(temporary, paths, strict=True):
            path.replace(final)
    except BaseException:
        for path in temporary:
            path.unlink(missing_ok=True)
        raise
    for folder in {path.parent for path in paths}:
        sync_directory(folder)
