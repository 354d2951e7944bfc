"""Ways to protect counts: pre-tabular and post-tabular methods, and chains of them."""

from headcount.mechanisms._base import (
    COPIES,
    SCALAR,
    Context,
    Pooling,
    PostTabular,
    PreTabular,
    refuse_too_many,
)
from headcount.mechanisms._chain import Chain, Mechanism
from headcount.mechanisms._measured import (
    Measured,
    guarantee_of,
    law_of_all,
    losses_of,
    measure_cells,
    total_loss,
)
from headcount.mechanisms._noisy import Noisy
from headcount.mechanisms._noisy_cells import noisy_cells
from headcount.mechanisms._outcome import CountsOutcome, Making, Outcome, TablesOutcome
from headcount.mechanisms._preserved import LIVING_QUARTERS, PEOPLE, Preserved
from headcount.mechanisms._protect import (
    complete_guarantee,
    mechanism_digest,
    protect,
    protect_runs,
)
from headcount.mechanisms._stored_people import ReusedRun
from headcount.mechanisms._units import (
    Neighbours,
    refuse_housemates,
    refuse_uncut,
    steps_of_all,
)
from headcount.mechanisms.geometric import Geometric
from headcount.mechanisms.identity import Identity
from headcount.mechanisms.sampling import Sampling
from headcount.tabulate import Tabulated

__all__ = [
    "COPIES",
    "LIVING_QUARTERS",
    "PEOPLE",
    "SCALAR",
    "Chain",
    "Context",
    "CountsOutcome",
    "Geometric",
    "Identity",
    "Making",
    "Measured",
    "Mechanism",
    "Neighbours",
    "Noisy",
    "Outcome",
    "Pooling",
    "PostTabular",
    "PreTabular",
    "Preserved",
    "ReusedRun",
    "Sampling",
    "TablesOutcome",
    "Tabulated",
    "complete_guarantee",
    "guarantee_of",
    "law_of_all",
    "losses_of",
    "measure_cells",
    "mechanism_digest",
    "noisy_cells",
    "protect",
    "protect_runs",
    "refuse_housemates",
    "refuse_too_many",
    "refuse_uncut",
    "steps_of_all",
    "total_loss",
]
