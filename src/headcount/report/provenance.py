"""Collect where a report comes from: versions, date and machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata

from headcount.processes import machine_memory
from headcount.report.model import Provenance

DEFAULT_PACKAGES = ("headcount", "numpy", "scipy", "polars", "altair")


def gather_provenance(
    *,
    recipe: str,
    seeds: Sequence[int],
    config: str = "",
    packages: Sequence[str] = DEFAULT_PACKAGES,
) -> Provenance:
    """Describe this run, here and now. The machine is described, never named."""
    versions = [("Python", platform.python_version())]
    versions += [(package, _version(package)) for package in packages]
    return Provenance(
        recipe=recipe,
        config=config,
        versions=tuple(versions),
        seeds=tuple(seeds),
        date=datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC").lstrip("0"),
        machine=describe_machine(),
    )


def describe_machine() -> str:
    """System, processor, cores and memory, as far as the system tells."""
    parts = [platform.system(), platform.machine(), f"{os.cpu_count() or 1} cores"]
    if (memory := machine_memory()) is not None:
        parts.append(f"{memory / 2**30:.0f} GiB of memory")
    return ", ".join(parts)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
