"""Which metrics and attacks an evaluation runs: all of ours, or those that are named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headcount.attacks import Attack
from headcount.evaluation.metrics import Metric
from headcount.registry import ATTACKS, METRICS, Registry


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What an evaluation is asked for.

    where
        metrics      names; None for every metric of ours that is not slow, and all that are given
        attacks      names; None for all of ours, and all that are given
        on_request   names of slow metrics to be run besides
        settings     parameters by name of the metric or attack, as in the tables of a config
        given        metrics and attacks with their parameters, such as those of a config; the last
                     of a name counts
    """

    metrics: tuple[str, ...] | None = None
    attacks: tuple[str, ...] | None = None
    on_request: tuple[str, ...] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    given: tuple[Metric | Attack, ...] = ()

    def chosen_metrics(self) -> tuple[Metric, ...]:
        """The metrics to run, with their parameters."""
        usual = [name for name in METRICS.ours if not METRICS.get(name).on_request]  # type: ignore[attr-defined]
        given = {one.name: one for one in self.given if isinstance(one, Metric)}
        wanted = [*usual, *given] if self.metrics is None else self.metrics
        made = self._made(METRICS, [*wanted, *self.on_request], given)
        return tuple(sorted(made, key=lambda metric: metric.order))

    def chosen_attacks(self) -> tuple[Attack, ...]:
        """The attacks to make, with their parameters."""
        given = {one.name: one for one in self.given if isinstance(one, Attack)}
        wanted = [*ATTACKS.ours, *given] if self.attacks is None else self.attacks
        return tuple(self._made(ATTACKS, wanted, given))

    def _made(
        self, registry: Registry, names: Iterable[str], given: Mapping[str, Any]
    ) -> Iterator[Any]:
        for name in dict.fromkeys(names):
            own = self.settings.get(name, {})
            if name in given:
                yield replace(given[name], **own)
            else:
                yield registry.get(name, source="evaluation")(**own)


def named(text: str) -> tuple[str, ...] | None:
    """Names from a list with commas; "all" is None, "none" is no name."""
    if text == "all":
        return None
    return tuple(name for part in text.split(",") if (name := part.strip()) and name != "none")
