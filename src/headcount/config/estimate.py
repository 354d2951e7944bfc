"""The config of ``headcount estimate``: published measurements in the place of a population."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from headcount.config.load import OutputSettings
from headcount.errors import ConfigError, did_you_mean
from headcount.fields import FilePath, shown
from headcount.files import read_toml
from headcount.schema.load import SchemaFile
from headcount.topdown.mechanism import TopDown
from headcount.typed import from_table, located, shaping, to_table


@dataclass(frozen=True, kw_only=True)
class MeasurementsTable:
    """``[measurements]``: where published measurements are.

    where
        folder   the folder with a folder ``LEVEL.parquet`` for each level
        schema   what is counted, a shipped schema or a file: where the files do not say it
        levels   the levels from the whole down, likewise; the upper ones alone are enough
    """

    folder: FilePath
    schema: Annotated[str | None, SchemaFile()] = None
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class EstimateConfig:
    """One run of ``headcount estimate``.

    where
        measurements   what was published
        mechanism      the settings of TopDown; None for those that the files have with them
        run            where the release goes
    """

    measurements: MeasurementsTable
    run: OutputSettings
    mechanism: TopDown | None = None

    def digest(self) -> str:
        """Digest of all that shapes the release but for the measurements themselves."""
        return sha256(json.dumps(shaping(self), sort_keys=True).encode()).hexdigest()

    def to_json(self) -> str:
        """As text, for the curator's folder."""
        return json.dumps(to_table(self), indent=2, ensure_ascii=False) + "\n"


def load_estimate(path: Path) -> EstimateConfig:
    """Read a TOML config; any fault is a ConfigError with file, key, found and expected."""
    data, source = read_toml(path, expected="a TOML config"), str(path)
    known = [one.name for one in fields(EstimateConfig)]
    for key in data:
        if key not in known:
            raise ConfigError(
                source, place=key, found="an unknown key", expected=did_you_mean(key, known)
            )
    config = EstimateConfig(
        measurements=_table(MeasurementsTable, data, "measurements", source),
        run=_table(OutputSettings, data, "run", source),
        mechanism=_mechanism(data.get("mechanism"), source),
    )
    return located(config, path.absolute().parent)


def _table(cls: Any, data: Mapping[str, Any], key: str, source: str) -> Any:
    if key not in data:
        raise ConfigError(source, place=key, found="nothing", expected=f"a table [{key}]")
    return from_table(cls, data[key], source=source, place=key)


def _mechanism(table: Any, source: str) -> TopDown | None:
    if isinstance(table, list) and len(table) == 1:
        table = table[0]
    if table is None:
        return None
    if not isinstance(table, Mapping) or table.get("name") != TopDown.name:
        found = table.get("name") if isinstance(table, Mapping) else table
        raise ConfigError(
            source,
            place="mechanism.name",
            found=shown(found),
            expected=f"{TopDown.name!r}, alone: no other method starts from measurements",
        )
    return from_table(TopDown, table, source=source, place="mechanism", tag="name")
