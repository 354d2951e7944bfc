"""Estimated counts of a level in parts, one for each piece of work: in memory, or one file each.

Parts hold noisy estimates and nothing of the truth. A part is written whole or not at all, under a
name that says which units it has, so that a piece of work may be done twice, or again after a
crash: a sound part is the same whoever made it.
"""

from __future__ import annotations

import json
import logging
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from headcount.arrays import Flags, Ints, Ints32
from headcount.compiled import kernel
from headcount.errors import RunError
from headcount.files import POSIX, append, from_json, mapped
from headcount.geography import Geography
from headcount.release.layout import arrow_numbers, stem_of
from headcount.storage import Storage
from headcount.tabulate.counts import sparse_counts

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_log = logging.getLogger(__name__)


Triples = tuple[Ints, Ints, Ints]
"""Unit, cell and count of some entries."""


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Integer counts of some units, sparse: row u holds cells ``cell[start[u]:start[u+1]]``."""

    start: Ints
    cell: Ints32
    value: Ints

    @property
    def units(self) -> int:
        """Number of rows."""
        return len(self.start) - 1

    def some(self, first: int, last: int) -> SparseRows:
        """Rows ``first`` to ``last``, as far as there are such."""
        first, last = max(first, 0), min(last, self.units)
        if (first, last) == (0, self.units):
            return self
        start = self.start[first : last + 1]
        own = slice(start[0], start[-1])
        return SparseRows(start - start[0], self.cell[own], self.value[own])

    def matrix(self, cells: int) -> csr_array[Any, tuple[int, int]]:
        """The counts as a sparse matrix, units x cells."""
        return sparse_counts(self.start, self.cell, self.value, cells=cells)

    def totals(self) -> Ints:
        """People per row."""
        ends = np.concatenate([[0], np.cumsum(self.value)])
        return np.asarray(ends[self.start[1:]] - ends[self.start[:-1]], dtype=np.int64)


def gather(pieces: list[Triples], children: range) -> SparseRows:
    """Entries of some children, in the order of their cells within each child, as rows."""
    unit, cell, value = (np.concatenate(part) for part in zip(*pieces, strict=True))
    child = (unit - children.start).astype(np.int32)
    return SparseRows(*_rows_by_child(len(children), child, cell, value))


@kernel
def _rows_by_child(
    children: int,
    var_child: Ints32,
    var_cell: Ints,
    value: Ints,
) -> tuple[Ints, Ints32, Ints]:
    """Sparse rows of the children from the variables of their parents, cells in order."""
    indptr = np.zeros(children + 1, dtype=np.int64)
    for v in range(len(value)):
        if value[v] > 0:
            indptr[var_child[v] + 1] += 1
    indptr = np.cumsum(indptr)
    place = indptr[:-1].copy()
    cells = np.empty(indptr[-1], dtype=np.int32)
    values = np.empty(indptr[-1], dtype=np.int64)
    for v in range(len(value)):
        if value[v] > 0:
            at = place[var_child[v]]
            cells[at] = var_cell[v]
            values[at] = value[v]
            place[var_child[v]] = at + 1
    return indptr, cells, values


@dataclass(frozen=True)
class ParentChunk:
    """A piece of work: a run of parents with their children, by positions in their levels."""

    parents: range
    children: range


def chunks(geography: Geography, level: str, *, children_at_once: int = 2_000) -> list[ParentChunk]:
    """Cut the parents of a level into runs with about so many children each."""
    depth = geography.depth(level)
    parent = geography.parents[depth]
    first = np.append(geography.children_start(geography.levels[depth - 1]), len(parent))
    cuts = [0]
    while cuts[-1] < len(first) - 1:
        reach = first[cuts[-1]] + children_at_once
        cuts.append(max(cuts[-1] + 1, int(np.searchsorted(first, reach, side="right")) - 1))
    return [
        ParentChunk(range(a, b), range(int(first[a]), int(first[b]))) for a, b in pairwise(cuts)
    ]


@dataclass(frozen=True, eq=False)
class LevelPart:
    """Counts of a run of units, and what happened when they were made.

    where
        stuck    parents without an answer: their children have no counts here
        mended   of a part that mends a level, the units whose counts it has in place of others
    """

    rows: SparseRows
    notes: dict[str, float]
    stuck: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    mended: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


class PartsInMemory:
    """For runs that need not survive a crash."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, range, bool], LevelPart] = {}

    def load(self, level: str, units: range, *, mends: bool = False) -> LevelPart | None:
        """A part of exactly these units, or None."""
        return self._parts.get((level, units, mends))

    def save(self, level: str, units: range, part: LevelPart, *, mends: bool = False) -> None:
        """Keep a part."""
        self._parts[level, units, mends] = part


class PartFiles:
    """The parts of one run in a workspace: an Arrow file each, on a disk read as mapped pages.

    A row is a unit, with a list of (cell, count) in the narrowest integers. A resumed run reads
    the parts that are there instead of estimating again, and would get the same counts if they
    were lost. So a damaged file is reported and not used, and so is a part of another run in the
    same place: ``made_from`` names data, noise and settings (None to read whatever is there).
    """

    def __init__(self, workspace: Storage, run: int, *, made_from: bytes | None = None) -> None:
        self._storage = workspace.below(f"run-{run}")
        self._made_from = sha256(made_from).hexdigest() if made_from is not None else None

    def load(self, level: str, units: range, *, mends: bool = False) -> LevelPart | None:
        """A sound part of exactly these units, or None."""
        from pyarrow import ArrowException

        name = _name(level, units, mends)
        try:
            return self._read(name, level, units)
        except FileNotFoundError:
            return None
        # A damaged file fails in whatever way the reader happens to stumble.
        except (OSError, ValueError, KeyError, TypeError, ArrowException) as error:
            where = f"{self._storage.folder}/{name}"
            _log.warning("%s cannot be used (%s): its units are estimated again", where, error)
            return None

    def save(self, level: str, units: range, part: LevelPart, *, mends: bool = False) -> None:
        """Write a part's file, unless another attempt has: a sound part stays as it is."""
        import pyarrow as pa
        from pyarrow import ipc

        rows = part.rows
        cell, count = _narrow(rows.cell), _narrow(rows.value)
        entries = pa.StructArray.from_arrays([cell, count], names=["cell", "count"])
        counts = pa.ListArray.from_arrays(arrow_numbers(rows.start).cast(pa.int32()), entries)
        about: dict[str, Any] = {"level": level, "units": [units.start, units.stop]}
        about |= {"notes": part.notes, "stuck": part.stuck.tolist()}
        about["mended"] = part.mended.tolist()
        about["made_from"] = self._made_from
        about["digest"] = _digest(rows, about)
        batch = pa.record_batch([counts], names=["counts"])
        batch = batch.replace_schema_metadata({b"headcount": json.dumps(about).encode()})
        sink = pa.BufferOutputStream()
        with ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        name, data = _name(level, units, mends), sink.getvalue()
        if self._storage.put_if_absent(name, data):
            return
        if self.load(level, units, mends=mends) is None:
            self._storage.put(name, data)

    def level(self, level: str) -> SparseRows | None:
        """All counts of a level whose parts are all there; None if one is missing."""
        names = self._storage.below(stem_of(level)).names()
        found = (re.fullmatch(r"(\d+)-(\d+)\.arrow", name) for name in names)
        ranges = sorted((range(int(one[1]), int(one[2])) for one in found if one), key=_start)
        if not ranges or any(a.stop != b.start for a, b in pairwise(ranges)):
            return None
        estimates = Estimates(self)
        whole = range(ranges[-1].stop)
        estimates.finish(level, ranges, self.load(level, whole, mends=True))
        return estimates.rows(level, whole)

    def _read(self, name: str, level: str, units: range) -> LevelPart:
        from pyarrow import ipc

        with ipc.open_file(self._storage.read(name)) as reader:
            batch = reader.get_batch(0)
            about = from_json(batch.schema.metadata[b"headcount"])
            entries = batch["counts"].values
            rows = SparseRows(
                # Not by "to_numpy", which loads pandas where that is installed.
                np.from_dlpack(batch["counts"].offsets).astype(np.int64),
                np.from_dlpack(entries.field("cell")).astype(np.int32),
                np.from_dlpack(entries.field("count")).astype(np.int64),
            )
        if about["level"] != level or about["units"] != [units.start, units.stop]:
            raise ValueError("it is of another level or of other units")
        if rows.units != len(units) or about["digest"] != _digest(rows, about):
            raise ValueError("its digest does not match")
        if self._made_from not in (None, about["made_from"]):
            raise ValueError("it was made from other data, or with other noise or settings")
        stuck, mended = (np.array(about[name], dtype=np.int64) for name in ("stuck", "mended"))
        return LevelPart(rows, about["notes"], stuck, mended)


LevelParts: TypeAlias = PartsInMemory | PartFiles
"""Where parts are kept. A part that mends a level is kept beside those of its pieces."""


class Estimates:
    """The counts of finished levels, read by ranges of units."""

    def __init__(self, parts: LevelParts) -> None:
        self._parts = parts
        self._pieces: dict[str, list[range]] = {}
        self._mends: dict[str, tuple[SparseRows, Flags]] = {}

    def finish(self, level: str, pieces: Sequence[range], mend: LevelPart | None = None) -> None:
        """Say which parts a level has, and the one that mends it, if there is one."""
        self._pieces[level] = list(pieces)
        if mend is not None:
            mended = np.zeros(mend.rows.units, dtype=bool)
            mended[mend.mended] = True
            self._mends[level] = mend.rows, mended

    def rows(self, level: str, units: range) -> SparseRows:
        """The counts of some units of a level."""
        pieces = self._pieces[level]
        at = bisect_right(pieces, units.start, key=_start) - 1
        found = []
        while at < len(pieces) and pieces[at].start < units.stop:
            part = self._parts.load(level, pieces[at])
            if part is None:
                raise RunError(
                    f"topdown: level {level!r}, units {pieces[at].start} to {pieces[at].stop}: "
                    "found no sound file of estimates, expected the one that was written: run the "
                    "same command again"
                )
            first = pieces[at].start
            found.append(part.rows.some(units.start - first, units.stop - first))
            at += 1
        rows = join(found)
        if level not in self._mends:
            return rows
        mend, mended = self._mends[level]
        return _chosen(rows, mend.some(units.start, units.stop), mended[units.start : units.stop])


def join(parts: Sequence[SparseRows]) -> SparseRows:
    """Rows of consecutive pieces as one."""
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum([part.start[-1] for part in parts])
    offset = np.concatenate([[0], ends[:-1]])
    start = [part.start[:-1] + o for part, o in zip(parts, offset, strict=True)]
    return SparseRows(
        np.concatenate([*start, ends[-1:]]),
        np.concatenate([part.cell for part in parts]),
        np.concatenate([part.value for part in parts]),
    )


def _chosen(rows: SparseRows, others: SparseRows, use_other: Flags) -> SparseRows:
    """Rows, with those of others in some places."""
    if not use_other.any():
        return rows
    made = [(others if use else rows).some(unit, unit + 1) for unit, use in enumerate(use_other)]
    return join(made)


def _name(level: str, units: range, mends: bool) -> str:
    name = "mended" if mends else f"{units.start}-{units.stop}"
    return f"{stem_of(level)}/{name}.arrow"


def _start(units: range) -> int:
    return units.start


def _narrow(values: Any) -> Any:
    """As integers of as few bytes as the largest needs."""
    return arrow_numbers(values.astype(np.min_scalar_type(int(values.max(initial=0)))))


def _digest(rows: SparseRows, about: dict[str, Any]) -> str:
    """SHA-256 of the counts and of what is said about them."""
    said = {key: value for key, value in about.items() if key != "digest"}
    hasher = sha256(json.dumps(said, sort_keys=True).encode())
    for part in (rows.start, rows.cell, rows.value):
        hasher.update(np.ascontiguousarray(part, dtype="<i8").data)
    return hasher.hexdigest()


class WrittenFiles:
    """Notes of files of one run, in its workspace; ``made_from`` names data, noise and settings."""

    def __init__(self, workspace: Storage, run: int, *, made_from: bytes) -> None:
        self._storage = workspace.below(f"written-{run}")
        self._made_from = sha256(made_from).hexdigest()

    def sound(self, name: str, paths: Sequence[Path]) -> bool:
        """Whether some files were written from the same, and are as they were written."""
        try:
            noted: bytes = self._storage.read(name).to_pybytes()
            return noted == self._note(paths)
        except FileNotFoundError:  # of a note, or of a file
            return False

    def note(self, name: str, paths: Sequence[Path]) -> None:
        """Note files that are written."""
        self._storage.put(name, self._note(paths))

    def _note(self, paths: Sequence[Path]) -> bytes:
        made = {"made_from": self._made_from, "files": [_mark_digest(path) for path in paths]}
        return json.dumps(made).encode()


def _mark_digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


UNITS_AT_ONCE = 1 << 16
"""Units whose counts are in memory at once."""


def joined(
    estimates: Estimates, level: str, units: int, cells: int, *, workspace: Storage | None
) -> csr_array[Any, tuple[int, int]]:
    """The counts of a finished level, units x cells."""
    if workspace is None or not POSIX:  # elsewhere a file that is mapped cannot go
        return estimates.rows(level, range(units)).matrix(cells)
    pieces = (
        estimates.rows(level, range(first, min(first + UNITS_AT_ONCE, units)))
        for first in range(0, units, UNITS_AT_ONCE)
    )
    return _mapped(pieces, cells, workspace)


def reordered(
    table: csr_array[Any, tuple[int, int]], order: Ints, *, workspace: Storage | None
) -> csr_array[Any, tuple[int, int]]:
    """The rows of a table in another order: row ``order[k]`` becomes row k."""
    if workspace is None or not POSIX:
        return table[order]
    some = (
        table[order[first : first + UNITS_AT_ONCE]] for first in range(0, len(order), UNITS_AT_ONCE)
    )
    pieces = (SparseRows(one.indptr, one.indices, one.data) for one in some)
    return _mapped(pieces, table.shape[1], workspace)


def _mapped(
    pieces: Iterable[SparseRows], cells: int, workspace: Storage
) -> csr_array[Any, tuple[int, int]]:
    """Rows of units after each other as one table, whose pages are those of files."""
    sizes = []
    with workspace.scratch() as cell, workspace.scratch() as value:
        for rows in pieces:
            sizes.append(np.diff(rows.start))
            append(cell, rows.cell, np.int32)
            append(value, rows.value, np.int64)
        start = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
        return sparse_counts(start, mapped(cell, np.int32), mapped(value, np.int64), cells=cells)
