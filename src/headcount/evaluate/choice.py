"""Which metrics and attacks an evaluation runs: all of ours, or those that are named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from headcount.attacks.kinds import Attack
from headcount.errors import ConfigError
from headcount.evaluate.metrics import Metric

METRICS, ATTACKS = "headcount.evaluate.metrics", "headcount.attacks.kinds"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What an evaluation is asked for.

    where
        metrics      names; None for every metric of ours that is not slow
        attacks      names; None for all of ours
        on_request   names of slow metrics to be run besides
        settings     parameters by name of the metric or attack, as in the tables of a config
    """

    metrics: tuple[str, ...] | None = None
    attacks: tuple[str, ...] | None = None
    on_request: tuple[str, ...] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def chosen_metrics(self) -> tuple[Metric, ...]:
        """The metrics to run, with their parameters."""
        known = _classes(METRICS)
        usual = [name for name, kind in known.items() if not kind.on_request]
        wanted = [*(usual if self.metrics is None else self.metrics), *self.on_request]
        made = (self._made(known, name) for name in dict.fromkeys(wanted))
        return tuple(sorted(made, key=lambda metric: metric.order))

    def chosen_attacks(self) -> tuple[Attack, ...]:
        """The attacks to make, with their parameters."""
        known = _classes(ATTACKS)
        wanted = list(known) if self.attacks is None else self.attacks
        return tuple(self._made(known, name) for name in dict.fromkeys(wanted))

    def _made(self, known: Mapping[str, Any], name: str) -> Any:
        if name not in known:
            raise ConfigError(
                "evaluation", found=repr(name), expected="one of " + ", ".join(sorted(known))
            )
        return known[name](**self.settings.get(name, {}))


def named(text: str) -> tuple[str, ...] | None:
    """Names from a list with commas; "all" is None, "none" is no name."""
    if text == "all":
        return None
    return tuple(name for part in text.split(",") if (name := part.strip()) and name != "none")


def _classes(package: str) -> dict[str, Any]:
    """The class of each public module of a package, by name."""
    found = {}
    for module in iter_modules(import_module(package).__path__):
        if module.name.startswith("_"):
            continue
        own = import_module(f"{package}.{module.name}")
        name = module.name.replace("_", "-")
        (found[name],) = (
            kind
            for kind in vars(own).values()
            if isinstance(kind, type)
            and kind.__module__ == own.__name__
            and vars(kind).get("name") == name
            and hasattr(kind, "supports")
        )
    return found
