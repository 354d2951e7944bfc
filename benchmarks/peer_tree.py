"""The levels of a peer's population, found from its unit codes and its exact totals.

Codes are all of one length, and the first characters of a code name the units above. Where the
cuts are is not written in the files, so it is worked out:

1. The *exact level*, whose totals the peer publishes without noise, is the finest set of equal
   prefixes whose totals are right in every replicate.
2. Codes of ten characters are cut as the 2018 test cuts them, after 2 (state), 6 (county) and 10
   (district), if the first two characters are the exact level.
3. Any other codes are taken as numbers padded with zeros: a level ends at each character that
   tells units apart and is followed by one that does not. The exact level is always cut.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headcount.arrays import Ints
from headcount.errors import InputError

TEST_2018 = (2, 6, 10)
EXACT, LEAF, ABOVE_LEAF = "state", "district", "county"
Lengths = tuple[tuple[str, int], ...]


def find_levels(codes: Sequence[str], off: Ints, *, source: str) -> Lengths:
    """Names and prefix lengths of the levels below the whole.

    where
        codes   leaf codes
        off     replicates x leaves: released total less the true one
        source  the file, for errors
    """
    lengths = sorted({len(code) for code in codes})
    if len(lengths) != 1 or lengths[0] == 0:
        raise InputError(
            source,
            place="geocode",
            found=f"codes of {' and '.join(map(str, lengths))} characters",
            expected="codes of one length",
        )
    (full,) = lengths
    groups = [len({code[:cut] for code in codes}) for cut in range(full + 1)]
    exact = _finest_exact(codes, off, full, source=source)
    if full == TEST_2018[-1] and groups[TEST_2018[0]] == groups[exact]:
        return tuple(zip((EXACT, ABOVE_LEAF, LEAF), TEST_2018, strict=True))
    exact = max(1, groups.index(groups[exact]))  # the shortest prefix that says as much
    tells = [groups[cut] > groups[cut - 1] for cut in range(1, full + 1)]
    ends = {cut for cut in range(1, full) if tells[cut - 1] and not tells[cut]}
    cuts = sorted(ends - {cut for cut in ends if groups[cut] == groups[full]} | {exact, full})
    return tuple((_level_name(cut, cuts, exact), cut) for cut in cuts)


def _finest_exact(codes: Sequence[str], off: Ints, full: int, *, source: str) -> int:
    """The longest prefix whose totals the peer kept in every replicate."""
    for cut in range(full, -1, -1):
        _, unit = np.unique([code[:cut] for code in codes], return_inverse=True)
        sums = np.zeros((len(off), unit.max() + 1), dtype=np.int64)
        for leaf, at in enumerate(unit):
            sums[:, at] += off[:, leaf]
        if not sums.any():
            return cut
    raise InputError(
        source,
        place="dp",
        found="totals that are exact at no level",
        expected="a level whose totals are exact in every replicate",
    )


def _level_name(cut: int, cuts: Sequence[int], exact: int) -> str:
    if cut == exact:
        return EXACT
    if cut == cuts[-1]:
        return LEAF
    return ABOVE_LEAF if cut == cuts[-2] else f"first {cut}"
