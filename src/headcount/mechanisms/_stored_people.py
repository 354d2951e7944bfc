"""Changed microdata, stored so that later tables of the same chain are made from the same people.

Two swaps of the same people tell who was moved, and cells of the second have other keys. So a chain
whose record keys are kept stores the changed people in the curator's folder of its run, and a later
run with the same steps takes them from there.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from headcount.addresses import step_words
from headcount.errors import ConfigError, PrivacyError, RunError
from headcount.fields import SECRET, FilePath
from headcount.files import from_json, write_bytes_atomic
from headcount.mechanisms._base import PreTabular
from headcount.mechanisms._key_file import leaf_content
from headcount.population import Population
from headcount.population.population import RecordKeys
from headcount.tabulate import Counts, Tabulated

CHANGED_PEOPLE = "changed-people.npz"
"""The people after all steps: in the curator's folder, never part of a release."""


@dataclass(frozen=True, kw_only=True)
class ReusedRun:
    """``reuse = { run = "PATH" }``: start from the changed people that a run has stored.

    where
        run      its directory
        sha256   of the stored people, so that others are another setting; "" to take any
    """

    run: FilePath
    sha256: Annotated[str, SECRET] = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", Path(self.run))

    def __repr__(self) -> str:
        return f"ReusedRun(sha256={self.sha256!r})"

    @property
    def file(self) -> Path:
        """Where the people are."""
        return self.run / "internal" / CHANGED_PEOPLE

    def bound_to_files(self) -> ReusedRun:
        """The same for the people that are there now."""
        if not self.file.is_file():
            raise ConfigError(
                "run",
                place="run.reuse",
                found=f"no {CHANGED_PEOPLE} in {self.run / 'internal'}",
                expected="the directory of a run whose steps changed records and whose last "
                "mechanism has keys",
            )
        found = sha256(self.file.read_bytes()).hexdigest()
        if self.sha256 and self.sha256 != found:
            raise ConfigError(
                str(self.file),
                found="other people than when this run was begun",
                expected="the file as it was",
            )
        return replace(self, sha256=found)

    def people(self, data: Tabulated, steps: Sequence[PreTabular]) -> Population:
        """The stored people; those of other data, or of other steps, are refused."""
        return _read(self.file, data, steps)


def store_people(
    path: Path, people: Population, data: Tabulated, steps: Sequence[PreTabular]
) -> None:
    """Write down the people that some steps have made of the data, for their owner only."""
    keys, packed = people.record_keys, io.BytesIO()
    about = {
        "steps": _said(steps),
        "data": _content(data.counts),
        "weight": str(people.weight),
        "possible_keys": _possible(data),
        "of_dwellings": people.households is not None or people.of_dwellings,
    }
    arrays: dict[str, Any] = {"unit": people.unit, "cell": people.cell}
    if people.count is not None:
        arrays["count"] = people.count
    if keys is not None:
        arrays["keys"] = keys.values
    np.savez(packed, about=np.array(json.dumps(about)), **arrays)
    write_bytes_atomic(path, packed.getvalue(), mode=0o600)


def _read(path: Path, data: Tabulated, steps: Sequence[PreTabular]) -> Population:
    try:
        with np.load(path, allow_pickle=False) as file:
            found = dict(file)
        about = from_json(str(found.pop("about")))
        weight, possible = Fraction(about["weight"]), about["possible_keys"]
        changed = (about["steps"], about["data"], bool(about["of_dwellings"]))
        unit, cell, count = found["unit"], found["cell"], found.get("count")
        keys = None if possible is None else RecordKeys(found["keys"], int(possible))
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        raise RunError(
            f"{path}: found a damaged file, expected people as a chain has stored them"
        ) from None
    for is_same, what in (
        (changed[0] == _said(steps), "steps, with the same settings,"),
        (possible == _possible(data), "ids or record keys"),
        (changed[1] == _content(data.counts), "people, places and attributes"),
    ):
        if not is_same:
            raise PrivacyError(
                source=str(path),
                place="run.reuse",
                found=f"people made by other {what.removesuffix(',')}",
                expected=f"the same {what} as in the run that is reused",
            )
    return replace(
        data.population,
        unit=unit,
        cell=cell,
        count=count,
        weight=weight,
        record_keys=keys,
        households=None,
        quarters=None,
        of_dwellings=changed[2],
    )


def _content(counts: Counts) -> str:
    """A digest of how many people are where; with ids or keys of their own also of who they are."""
    found = leaf_content(counts)
    if (records := counts.records) is not None:
        words = records.sums(records.keys.values)
        for part in (words.indptr, words.indices, words.data):
            found = sha256(found + np.asarray(part).astype("<u8").tobytes()).digest()
    return found.hex()


def _possible(data: Tabulated) -> int | None:
    return None if data.counts.records is None else data.counts.records.keys.possible


def _said(steps: Sequence[PreTabular]) -> str:
    return ", ".join(map(step_words, steps))
