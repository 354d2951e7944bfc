"""People of one's own for a study that swaps households."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headcount.errors import InputError

if TYPE_CHECKING:
    from headcount.population import Population
    from headcount.population.population import Households


def in_dwellings(config: Path) -> tuple[Population, Households]:
    """The people of a config and who lives with whom; people without dwellings are refused."""
    from headcount.config.load import load_population

    people = load_population(config).read()
    if people.households is None:
        raise InputError(
            str(config),
            place="population",
            found="people without dwellings",
            expected='kind = "households", "towns" or "workload-s": swapping moves households',
        )
    return people, people.households
