"""For people who write their own mechanisms: contract checks, and hypothesis strategies.

The strategies live in ``headcount.testing.strategies``, which needs hypothesis (an extra, ``dev``).
"""

from headcount.testing.contracts import ContractError, check_mechanism, mechanism_checks

__all__ = ["ContractError", "check_mechanism", "mechanism_checks"]
