"""What an audit of coarsened tables leaves with the curator: numbers, statements and witnesses.

All of it tells the truth and is never published. ``check_witnesses`` reads these files, and the
release, and shares no code with the search.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from headcount.files import make_folder, write_bytes_atomic, write_text_atomic
from headcount.mechanisms.coarsening.audit import Audit
from headcount.mechanisms.coarsening.worlds import Worlds
from headcount.tabulate import Counts

if TYPE_CHECKING:
    from headcount.mechanisms.coarsening.mechanism import Coarsening

FOLDER = "coarsening"
SAID = ("open", "not proven", "proven", "undecided")


def write_account(
    method: Coarsening, counts: Counts, worlds: Worlds, found: Audit, *, folder: Path
) -> None:
    """The audit as a summary and as files that another program can check."""
    assert method.audit is not None
    make_folder(folder)
    tables = [
        {
            "name": name,
            "below": one.show.below,
            "halves": one.show.halves,
            "steps": [(step.at, step.base, step.value) for step in one.show.how.steps]
            if one.show.how
            else [],
        }
        for name, one in method.wanted
    ]
    summary: dict[str, Any] = {
        "ladder": list(method.ladder),
        "level": worlds.level,
        "tables": tables,
        "known": list(method.audit.known),
        "secret": list(method.audit.secret),
        **numbers(found),
    }
    write_text_atomic(folder / "audit.json", json.dumps(summary, indent=2) + "\n")
    sizes = method.sizes.of(counts.geography) if method.sizes else counts.totals()
    geography, asked = counts.geography, found.statements
    leaves = {
        level: geography.units[depth][geography.ancestors(level)].tolist()
        for depth, level in enumerate(geography.levels)
    }
    codes = np.array(worlds.codes)
    _write(folder / "leaves.csv", {**leaves, "size": sizes})
    _write(folder / "combinations.csv", _combinations(counts, worlds))
    _write(
        folder / "people.csv",
        {"area": codes[worlds.area].tolist(), "combination": worlds.atom, "n": worlds.n},
    )
    _write(
        folder / "statements.csv",
        {
            "area": codes[asked.area].tolist(),
            "key": asked.key,
            "secret": asked.secret,
            "insider": asked.insider,
            "said": [SAID[one] for one in asked.said.tolist()],
            "witness": asked.witness,
        },
    )
    changes = [(n, one) for n, one in enumerate(found.worlds) if len(one.area)]
    none = [np.zeros(0, dtype=np.int64)]
    _write(
        folder / "witnesses.csv",
        {
            "witness": np.concatenate([*none, *(np.full(len(one.area), n) for n, one in changes)]),
            "area": codes[np.concatenate([*none, *(one.area for _, one in changes)])].tolist(),
            "combination": np.concatenate([*none, *(one.atom for _, one in changes)]),
            "change": np.concatenate([*none, *(one.change for _, one in changes)]),
        },
    )


def numbers(found: Audit) -> dict[str, int]:
    """How many people, and of how many what is proven."""
    return {
        "people": found.people,
        "non_majority": found.unlike,
        "proven": found.proven,
        "proven_of_non_majority": found.proven_unlike,
        "proven_to_insiders_besides": found.insiders,
        "certain_records_at_most": found.certain,
        "undecided_counted_as_proven": found.undecided,
    }


def _combinations(counts: Counts, worlds: Worlds) -> dict[str, Any]:
    """Levels that stand for each possible combination, with its key and secret."""
    atoms, schema = worlds.atoms, counts.schema
    cells = np.flatnonzero(schema.possible)
    combination, first = np.unique(atoms.of_cell[cells], return_index=True)
    levels = np.unravel_index(cells[first], schema.shape)
    return {
        "combination": combination,
        "key": combination // atoms.hidden,
        "secret": atoms.secret[combination % atoms.hidden],
        **{
            one.name: np.array(one.levels)[levels[number]].tolist()
            for number, one in enumerate(schema.attributes)
            if one.name in atoms.names
        },
    }


def _write(path: Path, columns: dict[str, Any]) -> None:
    write_bytes_atomic(path, pl.DataFrame(columns).write_csv().encode())
