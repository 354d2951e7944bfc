"""For people who write their own mechanisms, metrics and attacks: contract checks, and strategies.

The strategies live in ``headcount.testing.strategies``, which needs hypothesis (an extra, ``dev``).
"""

from headcount.testing.contracts import ContractError, check_mechanism, mechanism_checks
from headcount.testing.evaluation_contracts import (
    ContractExample,
    attack_checks,
    check_attack,
    check_metric,
    metric_checks,
)

__all__ = [
    "ContractError",
    "ContractExample",
    "attack_checks",
    "check_attack",
    "check_mechanism",
    "check_metric",
    "mechanism_checks",
    "metric_checks",
]
