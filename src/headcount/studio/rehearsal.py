"""A method rehearsed on made-up people: how risky it is, before it meets anybody's record."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from headcount.config.edit import parts_of_chain
from headcount.files import to_toml
from headcount.mechanisms import Chain

PEOPLE, LEAF = 4000, "block"
"""How many people are made up, and what their smallest places are called."""


@dataclass(frozen=True)
class Rehearsal:
    """A config for the rehearsal of one way to protect: of other settings, another.

    where
        case   the way among those of the rehearsal
        name   of its file
    """

    case: str
    name: str
    text: str

    @classmethod
    def of(cls, config: str, case: str, way: Chain) -> Rehearsal:
        """Of a case of a config, or of its own method."""
        case = case or "own"
        called = "".join(c if c.isascii() and c.isalnum() else "-" for c in case)[:40]
        parts = parts_of_chain(way.for_a_trial().parts)
        version = sha256(json.dumps(parts).encode()).hexdigest()[:6]
        stem = f"rehearse-{Path(config).stem}-{called}-{version}"
        return cls(case, f"{stem}.toml", _rehearsal_text(case, parts, out=f"runs/{stem}"))


def _rehearsal_text(name: str, parts: Iterable[dict[str, Any]], *, out: str) -> str:
    """A config with a method on made-up people, to be compared with no protection and attacked.

    where
        parts   the tables of the method
        out     where a run of it would go
    """
    # Places have other names there. As a case besides, so that no other method is compared.
    method = [{**part, "level": LEAF} if "level" in part else part for part in parts]
    tables = {
        "population": {"kind": "towns", "people": PEOPLE},
        "mechanism": method,
        "case": [{"name": name, "mechanism": method}],
        "run": {"out": out},
    }
    return "# A rehearsal: the method of another config on made-up people.\n" + to_toml(tables)


def rehearsal_outcome(memo: str, name: str) -> str:
    """What a comparison found of a case, in a sentence or two, from its table ``memo``."""
    row = next((one for one in csv.DictReader(memo.splitlines()) if one["case"] == name), None)
    if row is None:
        return "It does not fit made-up people."
    said = []
    if row["found_percent"]:
        found, guess = float(row["found_percent"]), float(row["guess_percent"] or "nan")
        said.append(
            "An attacker who knows where everybody lives, and their sex and age, names "
            f"{found:.1f} % of them rightly ({guess:.1f} % by a guess from the place alone)."
        )
    else:
        said.append("No attack could be made.")
    if row["leaf_percent"]:
        said.append(f"Totals of the smallest places are off by {float(row['leaf_percent']):.1f} %.")
    if float(row.get("withheld_people_percent") or 0):
        said.append(f"{float(row['withheld_people_percent']):.1f} % of people are withheld.")
    return " ".join(said)
