"""Which perturbation table is used: made by maximum entropy, read from a file, or a known rule."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from headcount.errors import ConfigError
from headcount.fields import FilePath
from headcount.mechanisms.cell_key.columns import column_laws, column_row, column_table
from headcount.mechanisms.cell_key.delta import cell_deltas
from headcount.mechanisms.cell_key.lookup import PLAIN, TURN, ByColumn, ByInterval
from headcount.mechanisms.cell_key.perturbation import (
    ChangeLaw,
    PerturbationLimits,
    perturbation_rows,
)
from headcount.mechanisms.cell_key.table_files import read_table
from headcount.noise.words import Words
from headcount.release.changed import Off

EPSILONS = (0.5, 1.0, 2.0)
"""At which the delta of one cell is stated."""
ONS_KEYS = 256


@dataclass(frozen=True, kw_only=True)
class PerturbationFile:
    """A perturbation table in a file, of the European or the ONS format (``table_files``).

    where
        file     where it is; only its name is shown
        sha256   of its content, so that another table is another setting; "" to take any
    """

    file: FilePath
    sha256: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "file", Path(self.file))

    def __repr__(self) -> str:
        return f"PerturbationFile(file={self.file.name!r}, sha256={self.sha256!r})"

    def bound_to_files(self) -> PerturbationFile:
        """The same for the file's present content only."""
        if not self.file.is_file():
            raise ConfigError(
                str(self.file), found="no such file", expected="a perturbation table, .csv"
            )
        found = sha256(self.file.read_bytes()).hexdigest()
        if self.sha256 and self.sha256 != found:
            raise ConfigError(
                str(self.file),
                found=f"sha256 {found}",
                expected=f"sha256 {self.sha256}, as configured",
            )
        return replace(self, sha256=found)

    def lookup(self) -> ByInterval | ByColumn:
        """The lookup of the table, of the content that the settings are bound to."""
        return _read_once(self.file, self.bound_to_files().sha256)


@lru_cache(maxsize=4)
def _read_once(file: Path, sha256: str) -> ByInterval | ByColumn:
    """A table of the ONS has 192,000 lines, and is asked for several times in a run."""
    return read_table(file)


@cache
def entropy_rows(limits: PerturbationLimits) -> tuple[ChangeLaw, ...]:
    """Rows of a table by maximum entropy; each table is made once."""
    return perturbation_rows(limits)


def in_columns(rows: Sequence[ChangeLaw], columns: int, *, words: Words) -> ByColumn:
    """A table for so many keys, its columns in a secret order."""
    return ByColumn(column_table([column_row(row, columns) for row in rows], columns, words=words))


@cache
def ten_five() -> ByColumn:
    """The "10-5 rule": below 10 nothing, else the nearest 5."""
    count = np.arange(1, PLAIN + 1)
    changes = np.where(count < 10, -count, (count + 2) // 5 * 5 - count)
    return ByColumn(np.repeat(changes[:, None], ONS_KEYS, axis=1))


def laws_of(lookup: ByInterval | ByColumn) -> tuple[ChangeLaw, ...]:
    """The law of the change of counts 0, 1, ...; the last ``cycle_of`` serve larger ones."""
    return lookup.rows if isinstance(lookup, ByInterval) else column_laws(lookup.table[:PLAIN])


def cycle_of(lookup: ByInterval | ByColumn) -> int:
    """How many of the last rows larger counts use in turn."""
    return TURN if isinstance(lookup, ByColumn) and len(lookup.table) >= PLAIN else 1


def reach(laws: Sequence[ChangeLaw]) -> Off:
    """How far a published count may be from the one behind it."""
    possible = [{v for v, p in law.probabilities.items() if p} for law in laws]
    return Off(
        down=max(max(some) for some in possible),
        up=-min(min(some) for some in possible),
        zero_hides=max(n for n, some in enumerate(possible) if -n in some),
    )


def facts_of(laws: Sequence[ChangeLaw], *, cycle: int = 1) -> dict[str, Any]:
    """What a table means for one cell, in numbers that are derived from it alone."""
    deltas = {str(e): cell_deltas(laws, epsilon=e, cycle=cycle) for e in EPSILONS}
    off = reach(laws)
    return {
        "largest_change": max(off.down or 0, off.up or 0),
        "rows": [
            {
                "count": n,
                "mean": float(law.mean),
                "variance": float(law.variance),
                "stays": float(law.probabilities.get(0, 0)),
                "becomes_0": float(law.probabilities.get(-n, 0)) if n else 1.0,
            }
            for n, law in enumerate(laws)
        ],
        "delta_of_one_cell": {
            epsilon: {"largest": max(found), "between_large_counts": max(found[-cycle:])}
            for epsilon, found in deltas.items()
        },
        "about_delta": (
            "how much more likely some published value of one cell can be with a person than "
            "e^epsilon times without; it is of one cell and does not add up over cells or tables"
        ),
    }


def settings_digest(key: bytes, settings: str, laws: Sequence[ChangeLaw]) -> str:
    """A digest of settings and table under a key: whoever guesses them cannot test the guess."""
    from hmac import new

    rows = [[list(law.changes), list(map(str, law.weights))] for law in laws]
    return new(key, json.dumps([settings, rows]).encode(), sha256).hexdigest()
