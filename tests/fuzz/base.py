"""What is damaged: small sound inputs, each with a config that is a plain tree."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).with_name("corpus")

Tree = dict[str, Any]


class Raw(str):
    """Text that goes into a TOML file as it is."""

    __slots__ = ()


AGES, SEXES = ["minor", "adult", "old"], ["f", "m"]
ATTRIBUTES = [{"name": "sex", "levels": SEXES}, {"name": "age", "levels": AGES}]

MICRODATA: Tree = {
    "kind": "microdata",
    "file": "people.csv",
    "units": "tracts.csv",
    "geography": {"columns": ["county", "tract"]},
    "attribute": ATTRIBUTES,
    "structural_zero": [{"sex": ["m"], "age": ["old"]}],
}
READ_OFF: Tree = {
    "kind": "microdata",
    "file": "people.csv",
    "geography": {"columns": ["county", "tract"], "local_codes": True},
    "attribute": [{"name": "sex"}, {"name": "years", "column": "age"}],
}
MESSY: Tree = {
    "kind": "microdata",
    "file": "messy.csv",
    "count": "n",
    "blank_counts": "zero",
    "totals": "drop",
    "include": {"year": ["2020"]},
    "exclude": {"sex": ["Total"]},
    "geography": {"column": "code", "prefixes": {"state": 2, "block": 4}, "fill_zeros": True},
    "attribute": [
        {"name": "sex", "values": {"1": "f", "2": "m"}, "missing": "level"},
        {"name": "age", "bins": [0, 18, 65], "missing": "drop", "missing_values": ["99"]},
    ],
    "format": {"decimal": "."},
}
COUNTS: Tree = {
    "kind": "counts",
    "file": "blocks.csv",
    "schema": "schema.toml",
    "geography": {"column": "code", "prefixes": {"state": 2, "block": 4}},
}
HOUSEHOLDS: Tree = {
    "kind": "households",
    "persons": "persons.csv",
    "dwellings": "dwellings.csv",
    "key": "serial",
    "kind_column": "type",
    "kinds": ["household", "vacant", "nursing"],
    "attributes": ["hhgq", "sex", "age", "tenure"],
    "geography": {"columns": ["county", "tract"]},
    "attribute": ATTRIBUTES,
    "dwelling_attribute": [{"name": "tenure", "levels": ["own", "rent"]}],
}
UNIFORM: Tree = {"kind": "uniform", "people": 300, "depth": 2, "mean": 20, "seed": 4}

TOPDOWN: Tree = {
    "name": "topdown",
    "epsilon": 2,
    "levels": {"whole": "1/4", "county": "1/4", "tract": "1/2"},
    "queries": {
        "total": {"by": []},
        "sexes": {"by": ["sex"], "share": "1/2"},
        "cells": {"share": "1/2"},
    },
    "invariant": [{"query": "total", "level": "whole"}],
}
SWAPPING: Tree = {
    "name": "swapping",
    "rate": Raw("0.4"),
    "key": ["size"],
    "within": "whole",
    "risk": {"attributes": ["sex"], "levels": ["tract"], "k": 2},
}
MECHANISMS: tuple[Tree, ...] = (
    {"name": "identity"},
    {"name": "geometric", "epsilon": Raw("0.5")},
    {"name": "raked", "epsilon": 1, "unit": "add-remove"},
    {"name": "averaged", "epsilon": "1/3", "parts": 2},
    {"name": "histogram", "epsilon": 1, "clip": "cell"},
    {"name": "sampling", "fraction": "1/2", "exact": True},
)
IDENTITY = MECHANISMS[0]

CONFIGS: tuple[tuple[Tree, Tree | list[Tree]], ...] = (
    *((MICRODATA, mechanism) for mechanism in (*MECHANISMS, TOPDOWN)),
    (READ_OFF, IDENTITY),
    (MESSY, IDENTITY),
    (COUNTS, IDENTITY),
    (COUNTS, MECHANISMS[1]),
    (HOUSEHOLDS, IDENTITY),
    (HOUSEHOLDS, SWAPPING),
    (UNIFORM, MECHANISMS[1]),
    (MICRODATA, [MECHANISMS[5], MECHANISMS[1]]),
    (HOUSEHOLDS, [SWAPPING, MECHANISMS[5]]),
)
"""Populations with mechanisms that go together."""


def tree(population: Tree, mechanism: Tree | list[Tree], **run: object) -> Tree:
    """A whole config, to be changed at will."""
    whole = {"population": population, "mechanism": mechanism, "run": {"out": "out", **run}}
    return deepcopy(whole)


def toml_text(config: Tree) -> str:
    """A tree as TOML: a table for each part, all below it in line."""
    lines = []
    for name, part in config.items():
        if isinstance(part, dict):
            lines.append(f"[{_key(name)}]")
            lines += [f"{_key(key)} = {_value(value)}" for key, value in part.items()]
        else:
            lines.insert(0, f"{_key(name)} = {_value(part)}")
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if isinstance(name, Raw) else _quoted(name)


def _value(value: object) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
