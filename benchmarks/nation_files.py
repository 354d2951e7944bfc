"""The made-up nation of 2020 as files and a config, for ``headcount protect``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.nation_2020 import topdown_2020
from benchmarks.nation_people import LEVELS, SEED, nation_2020
from headcount.geography import Geography
from headcount.tabulate import Counts
from headcount.typed import to_table


def write_nation(folder: Path, share: float, *, ledger: str, dataset: str) -> None:
    """People as counted rows, blocks, living quarters, and ``config.toml`` with a seed."""
    import polars as pl

    counts = nation_2020(share, seed=SEED)
    assert counts.quarters is not None
    codes = pl.DataFrame({level: _codes(counts.geography, level) for level in LEVELS[1:]})
    codes.write_parquet(folder / "blocks.parquet")
    types = counts.schema.attribute("hhgq").levels
    quarters = {name: counts.quarters.occupied[:, k] for k, name in enumerate(types)}
    codes.with_columns(**quarters).write_parquet(folder / "quarters.parquet")
    _people(counts, codes).write_parquet(folder / "people.parquet")
    config = {
        "population": {
            "kind": "microdata",
            "file": "people.parquet",
            "units": "blocks.parquet",
            "count": "people",
            "geography": {"root": LEVELS[0], "columns": list(LEVELS[1:])},
            "attribute": [{"name": a.name, "levels": a.levels} for a in counts.schema.attributes],
            "quarters": {"file": "quarters.parquet", "attribute": "hhgq"},
        },
        "mechanism": {"name": "topdown", **to_table(topdown_2020())},
        "run": {"out": "out", "seed": SEED, "ledger": ledger, "dataset": dataset},
    }
    text = "\n".join(f"{key} = {_toml(value)}" for key, value in config.items())
    (folder / "config.toml").write_text(text + "\n", "utf-8")


def _codes(geography: Geography, level: str) -> Any:
    return geography.units[geography.depth(level)][geography.ancestors(level)]


def _people(counts: Counts, codes: Any) -> Any:
    """A row for each block and cell with people: places, attributes and how many."""
    import polars as pl

    matrix = counts.matrix
    unit = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    levels = np.unravel_index(matrix.indices, counts.schema.shape)
    named = {
        attribute.name: pl.Series(np.array(attribute.levels)[number])
        for attribute, number in zip(counts.schema.attributes, levels, strict=True)
    }
    return codes[unit].with_columns(**named, people=pl.Series(matrix.data))


def _toml(value: Any) -> str:
    """A value as TOML on one line."""
    if isinstance(value, dict):
        given = {key: one for key, one in value.items() if one is not None}
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in given.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
