"""Names of the array types that every room uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Ints32: TypeAlias = NDArray[np.int32]
Ints8: TypeAlias = NDArray[np.int8]
Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = Mapping[str, NDArray[np.integer]]
"""Level numbers of attributes by name, one for each row."""
Ends: TypeAlias = tuple[Ints, Ints]
"""Lower and upper bounds of the same things."""
