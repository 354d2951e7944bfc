"""The records behind a population, whatever is chosen from them: for the ledger."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from headcount.config.models import Config, Ipums1940Model
from headcount.population.source import lines_digest, table_digest

_VIEW = {"attributes", "schema_", "nurse_nva_0"}
"""Keys of a generated population that choose from it and do not make it."""


def data_file(config: Config) -> Path | None:
    """The file with the people; None for a generated population."""
    for key in ("file", "persons"):
        if (path := getattr(config.population, key, None)) is not None:
            return Path(path)
    return None


def source_digest(config: Config) -> str:
    """A digest of the people's records in canonical form, or of the recipe that makes them."""
    if (path := data_file(config)) is not None:
        fixed = isinstance(config.population, Ipums1940Model)
        return lines_digest(path) if fixed else table_digest(path)
    recipe = json.loads(config.population.model_dump_json(exclude=_VIEW))
    return sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
