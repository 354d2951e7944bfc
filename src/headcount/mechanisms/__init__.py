"""Ways to protect counts: pre-tabular and post-tabular methods, and chains of them."""

from headcount.mechanisms._base import COPIES, SCALAR, Context, PostTabular, PreTabular
from headcount.mechanisms._chain import Chain, Mechanism
from headcount.mechanisms._measured import Measured, losses_of, measure_cells, total_loss
from headcount.mechanisms._noisy import Noisy
from headcount.mechanisms._noisy_cells import noisy_cells
from headcount.mechanisms._outcome import CountsOutcome, Outcome, TablesOutcome
from headcount.mechanisms._preserved import Preserved
from headcount.mechanisms._protect import (
    complete_guarantee,
    mechanism_digest,
    protect,
    protect_runs,
)
from headcount.mechanisms._stored_people import ReusedRun
from headcount.mechanisms.geometric import Geometric
from headcount.mechanisms.identity import Identity
from headcount.mechanisms.sampling import Sampling
from headcount.tabulate import Tabulated

__all__ = [
    "COPIES",
    "SCALAR",
    "Chain",
    "Context",
    "CountsOutcome",
    "Geometric",
    "Identity",
    "Measured",
    "Mechanism",
    "Noisy",
    "Outcome",
    "PostTabular",
    "PreTabular",
    "Preserved",
    "ReusedRun",
    "Sampling",
    "TablesOutcome",
    "Tabulated",
    "complete_guarantee",
    "losses_of",
    "measure_cells",
    "mechanism_digest",
    "noisy_cells",
    "protect",
    "protect_runs",
    "total_loss",
]
