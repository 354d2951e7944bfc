"""What is known of a config without its people, and where a comparison of it is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from threading import Lock

from headcount.config.load import config_to_json
from headcount.config.settings import Config
from headcount.files import open_own
from headcount.population import Population
from headcount.run.confirm import stamps
from headcount.run.wanted import known_people
from headcount.studies.compare.settings import Settings
from headcount.studio.app import Studio

MOST_KEPT = 4
_reading = Lock()


def known(studio: Studio, config: Config) -> Population:
    """Cells and places of a config; read again only when the population or its files change."""
    population = json.loads(config_to_json(config))["population"]
    key = json.dumps([population, stamps(config)], sort_keys=True, default=str)
    kept: dict[str, Population] = studio.held.setdefault("known", {})
    with _reading:  # once, however many ask
        if key not in kept:
            kept[key] = known_people(config)
            for old in list(kept)[:-MOST_KEPT]:
                del kept[old]
        return kept[key]


def comparison_folder(studio: Studio, name: str, how: Settings) -> str:
    """Where the comparison of a config goes: another text, or other data, is another comparison."""
    made_from = [name, studio.texts.read(name).text, stamps(studio.texts.load(name))]
    version = sha256(json.dumps(made_from).encode()).hexdigest()[:8]
    runs = "" if how.replicates is None else f"-{how.replicates}"
    return f"comparisons/{Path(name).stem}-{how.preset}{runs}-{version}"


def reader(studio: Studio, folder: str) -> Callable[[str], str]:
    """Files below a folder by name, reached through no link; "" of one that is not there."""

    def read(name: str) -> str:
        path = studio.folder.inside(f"{folder}/{name}")
        if not path.is_file():
            return ""
        with os.fdopen(open_own(path), encoding="utf-8") as file:
            return file.read()

    return read
