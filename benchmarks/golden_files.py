"""Golden problems: files of noisy answers, constraints and another system's optimum."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.golden_2020 import Golden2020, read_golden_2020
from headcount.arrays import Floats, Ints
from headcount.errors import InputError
from headcount.topdown.solve.batch import Batch
from tests.support.dense import Margin, from_dense, groups_keeping

SIGNS = {"=": (True, True), "eq": (True, True), "ge": (True, False), "le": (False, True)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Golden:
    """A problem, and what the other system made of it.

    estimate and rounded are (cells, children); objective is that of the estimate over the cells
    whose parent is not 0; distance is the L1 distance between estimate and rounded. failsafe
    problems have no answer that keeps the parent's counts.
    """

    name: str
    batch: Batch
    shape: tuple[int, ...]
    parent: Ints | None
    estimate: Floats
    rounded: Ints
    objective: float
    distance: float
    failsafe: bool


def golden_problems(directory: Path) -> Iterator[Golden | Golden2020]:
    """The problems that ``index.json`` of the directory lists, one at a time.

    An entry of 2018 has a name, one of 2020 a file and its level.
    """
    index = directory / "index.json"
    if not index.is_file():
        raise InputError(str(directory), found="no index.json", expected="a directory with one")
    for entry in json.loads(index.read_text("utf-8")):
        if "name" in entry:
            yield read_golden(directory / f"{entry['name']}.npz", entry)
        elif "file" in entry and "level" in entry:
            yield read_golden_2020(directory / str(entry["file"]), entry)
        else:
            raise InputError(
                str(index),
                found=f"an entry with {', '.join(entry) or 'nothing'}",
                expected="a name (problems of 2018), or a file and its level (2020)",
            )


def read_golden(file: Path, entry: dict[str, Any]) -> Golden:
    """One problem: the last axis of every array is the child, the others are attributes."""
    if not file.is_file():
        raise InputError(str(file), found="no such file", expected="the file that the index names")
    with np.load(file, allow_pickle=False) as arrays:
        data = {key: arrays[key] for key in arrays.files}
    noisy = data["noisy_detail"]
    shape, kids = noisy.shape[:-1], noisy.shape[-1]
    parent = data["parent"].ravel().astype(np.int64) if "parent" in data else None
    batch = from_dense(
        noisy.reshape(-1, kids),
        weight=float(data["w_detail"]),
        total=parent,
        families=_families(data, shape, source=str(file)),
    )
    return Golden(
        name=str(entry["name"]),
        batch=batch,
        shape=shape,
        parent=parent,
        estimate=data["l2"].reshape(-1, kids),
        rounded=data["rounded"].reshape(-1, kids),
        objective=float(entry["l2_objective_solver"]),
        distance=float(entry["round_L1"]),
        failsafe=bool(entry["backup"]),
    )


def _families(
    data: dict[str, NDArray[Any]], shape: tuple[int, ...], *, source: str
) -> list[Margin]:
    """One family for each set of axes summed over, with its measurements and its bounds."""
    by_axes: dict[tuple[int, ...], dict[str, Any]] = {}
    for key in sorted(k for k in data if k.endswith("_over")):
        stem = key.removesuffix("_over")
        over = tuple(int(a) for a in np.atleast_1d(data[key]))
        family = by_axes.setdefault(over, {})
        if stem.startswith("q"):
            if "margin" in family:
                raise InputError(
                    source,
                    place=key,
                    found="a marginal measured twice",
                    expected="one measurement of each marginal",
                )
            family["weight"] = float(data[f"{stem}_w"])
            family["margin"] = _table(data[f"{stem}_answer"])
            continue
        sign = str(data[f"{stem}_sign"])
        if sign not in SIGNS:
            raise InputError(
                source,
                place=f"{stem}_sign",
                found=repr(sign),
                expected=f"one of {', '.join(SIGNS)}",
            )
        rhs = _table(data[f"{stem}_rhs"])
        below, above = SIGNS[sign]
        if below:
            family["low"] = np.maximum(rhs, family["low"]) if "low" in family else rhs
        if above:
            family["high"] = np.minimum(rhs, family["high"]) if "high" in family else rhs
    return [
        Margin(
            group=groups_keeping(shape, [a for a in range(len(shape)) if a not in over]), **parts
        )
        for over, parts in by_axes.items()
    ]


def _table(values: NDArray[Any]) -> NDArray[Any]:
    return values.reshape(-1, values.shape[-1])
