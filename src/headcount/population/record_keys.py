"""What the secret word of each person is made from: a stable id, or a key that an office has given.

Either is read beside the records (``key_column``) and goes with them, through samples and swaps, to
the method that adds words up to cell keys (``cell-key``, ``rounding``). It is no attribute: nothing
publishes it, and no message shows one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class RecordKeys:
    """64 bits a person, in the order of the records: the curator's side, never shown.

    where
        values     digests of ids, from which a secret makes words; or the words themselves
        possible   how many words there are where an office has given them: 256 or 4,096, of which
                   the key r is the word r 2^56 or r 2^52, so that words and keys add up alike;
                   0 for digests of ids
    """

    values: NDArray[np.uint64]
    possible: int = 0

    def of(self, rows: Any) -> RecordKeys:
        """Those of some records."""
        return RecordKeys(self.values[rows], self.possible)
