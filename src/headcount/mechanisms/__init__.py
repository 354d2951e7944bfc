"""Ways to protect counts: pre-tabular and post-tabular methods, and chains of them."""

from headcount.mechanisms._base import (
    COPIES,
    LIVING_QUARTERS,
    PEOPLE,
    SCALAR,
    Context,
    CountsOutcome,
    Design,
    Making,
    Outcome,
    Pooling,
    PostTabular,
    Preserved,
    PreTabular,
    StepDesign,
    TablesOutcome,
    refuse_too_many,
)
from headcount.mechanisms._chain import Chain, ChainDesign, Mechanism
from headcount.mechanisms._measured import (
    ExpectedError,
    LinearError,
    Neighbours,
    PlannedMeasurement,
    guarantee_of,
    law_of_all,
    losses_of,
    measure_cells,
    refuse_housemates,
    refuse_uncut,
    steps_of_all,
    total_loss,
)
from headcount.mechanisms._noisy import Noisy, noisy_cells
from headcount.mechanisms._protect import (
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
    "LIVING_QUARTERS",
    "PEOPLE",
    "SCALAR",
    "Chain",
    "ChainDesign",
    "Context",
    "CountsOutcome",
    "Design",
    "ExpectedError",
    "Geometric",
    "Identity",
    "LinearError",
    "Making",
    "Mechanism",
    "Neighbours",
    "Noisy",
    "Outcome",
    "PlannedMeasurement",
    "Pooling",
    "PostTabular",
    "PreTabular",
    "Preserved",
    "ReusedRun",
    "Sampling",
    "StepDesign",
    "TablesOutcome",
    "Tabulated",
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
