"""Calibrated losses kept between calls, and the code that kept releases depend on."""

from __future__ import annotations

import json
import logging
from hashlib import sha256
from pathlib import Path

from headcount.evaluate.calibration import PETTI_FLAXMAN, calibrate, draws_for
from headcount.files import write_text_atomic
from headcount.studies.kept import code_digest

_log = logging.getLogger(__name__)

_HERE = "studies/petti_flaxman_2020"
RELEASES = (
    *("noise", "solve", "tabulate"),
    *(f"mechanisms/{name}" for name in ("topdown", "_measured.py", "sampling.py")),
    *(f"{_HERE}/{name}.py" for name in ("draws", "residuals", "settings")),
)
CALIBRATION = ("evaluate/calibration.py",)


class Calibrations:
    """Calibrated losses by (EPL, n), in one small file: the search takes a second each.

    The file is written anew after every search, so that a stopped study loses none. A damaged one
    is named in a warning and made again, for nothing in it is more than a saving of time.
    """

    def __init__(self, cache: Path | None, *, seed: int) -> None:
        about = f"{code_digest(CALIBRATION)} {PETTI_FLAXMAN!r} {seed}"
        key = sha256(about.encode()).hexdigest()[:16]
        self._path = None if cache is None else cache / f"calibration-{key}.json"
        self._seed = seed
        self._known = _read(self._path)

    def get(self, epl: float | None, n: int) -> float | None:
        """The calibrated loss, searched for at most once."""
        if epl is None:
            return None
        draws = draws_for(n)
        key = f"EPL {epl!r}, n {n}, draws {draws}"
        if key not in self._known:
            self._known[key] = calibrate(epl, n=n, draws=draws, seed=self._seed)
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_text_atomic(self._path, json.dumps(self._known, indent=0))
        return self._known[key]


def _read(path: Path | None) -> dict[str, float | None]:
    if path is None or not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"a {type(found).__name__}")
        for key, value in found.items():
            if not (value is None or (isinstance(value, float) and value > 0)):
                raise ValueError(f"{value!r} for {key!r}")
    except ValueError as error:  # of JSON, of text, and of our own
        _log.warning(
            "%s: found a damaged file (%s), expected calibrated losses that this study kept; they "
            "are made again",
            path,
            error,
        )
        return {}
    return found
