"""What is known of configs without their people, and where comparisons of them are."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Lock

from headcount.comparison.settings import Settings
from headcount.config.load import Config, config_to_json
from headcount.domain import Domain
from headcount.files import from_json
from headcount.report.directory import MANIFEST
from headcount.report.inside import ReportSection, report_inside
from headcount.run.compare import INTERNAL
from headcount.run.public_facts import Facts, facts_of
from headcount.studio.confirm import stamps
from headcount.studio.folder import Folder
from headcount.studio.texts import Texts
from headcount.studio.wanted import known_domain

MOST_KEPT = 4


@dataclass
class KnownDomains:
    """Cells, places and public facts of the last few configs that were asked for."""

    _kept: dict[str, Domain] = field(default_factory=dict)
    _facts: dict[str, Facts | None] = field(default_factory=dict)
    _reading: Lock = field(default_factory=Lock)

    def of(self, config: Config) -> Domain:
        """Cells and places of a config; read again when the population or its files change."""
        population = json.loads(config_to_json(config))["population"]
        key = json.dumps([population, stamps(config)], sort_keys=True, default=str)
        with self._reading:  # once, however many ask
            if key not in self._kept:
                self._kept[key] = known_domain(config)
                for old in list(self._kept)[:-MOST_KEPT]:
                    del self._kept[old]
            return self._kept[key]

    def facts(self, config: Config) -> Facts | None:
        """What is public of the people of a config; read again when its files change."""
        domain = self.of(config)
        tables = json.loads(config_to_json(config))
        named = [tables["population"], tables.get("public"), stamps(config)]
        key = json.dumps(named, sort_keys=True, default=str)
        with self._reading:
            if key not in self._facts:
                self._facts = {key: facts_of(config.public, config.population, domain)}
            return self._facts[key]


@dataclass(frozen=True)
class FinishedComparison:
    """The confidential half of a comparison, if it is finished; nothing is read through a link.

    where
        out   its name in the folder
    """

    folder: Folder
    out: str

    def read(self, name: str) -> str:
        """The text of one of its files; "" where there is none."""
        return self.folder.read(f"{self.out}/{INTERNAL}/{name}")

    @property
    def there(self) -> bool:
        """Whether it is finished: its manifest is written last."""
        return bool(self.read(MANIFEST))

    @property
    def public(self) -> bool:
        """Whether everybody may see the people whom it is about."""
        return from_json(self.read(MANIFEST)).get("settings", {}).get("public") is True

    def sections(self) -> tuple[ReportSection, ...]:
        """Its report, to stand inside a page."""
        return report_inside(self.read, source=f"{self.out}/{INTERNAL}/report.html")


def comparison_folder(texts: Texts, name: str, how: Settings) -> str:
    """Where the comparison of a config goes: another text, or other data, is another comparison."""
    made_from = [name, texts.read(name).text, stamps(texts.load(name))]
    version = sha256(json.dumps(made_from).encode()).hexdigest()[:8]
    runs = "" if how.replicates is None else f"-{how.replicates}"
    return f"comparisons/{Path(name).stem}-{how.preset}{runs}-{version}"
