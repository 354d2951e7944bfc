"""Where text can be cut between records, compiled. Loads numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headcount.compiled import kernel

NEWLINE, RETURN, QUOTE = ord("\n"), ord("\r"), ord('"')


@kernel
def last_cut(text: NDArray[np.uint8], delimiter: int) -> tuple[int, int]:
    """The last place between two records, neither of which is a blank line, and records before it.

    A record ends at a line's end outside quotation marks, which open at the start of a field only.
    Nothing but 0 where there is no such place.
    """
    cut = records = before = 0
    quoted, opens, blank = False, True, True
    for at in range(len(text)):
        sign = text[at]
        if sign == QUOTE and (quoted or opens):
            quoted = not quoted  # a doubled mark closes and opens again
            opens, blank = True, False
        elif sign == NEWLINE and not quoted:
            records += 1
            after = text[at + 1] if at + 1 < len(text) else NEWLINE
            if not blank and after != NEWLINE and after != RETURN:
                cut, before = at + 1, records
            opens, blank = True, True
        else:
            opens = sign == delimiter and not quoted
            blank = blank and sign == RETURN
    return cut, before
