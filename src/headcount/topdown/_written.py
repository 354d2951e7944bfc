"""Which files of a run's release are written and sound, so that a resumed run leaves them as is.

Files of a release are where they will be published, and what is noted of them is in the run's
workspace: their digests, and what they were made from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import file_digest, sha256
from pathlib import Path

from headcount.storage import Storage


class WrittenFiles:
    """Notes of files of one run, in its workspace; ``made_from`` names data, noise and settings."""

    def __init__(self, workspace: Storage, run: int, *, made_from: bytes) -> None:
        self._storage = workspace.below(f"written-{run}")
        self._made_from = sha256(made_from).hexdigest()

    def sound(self, name: str, paths: Sequence[Path]) -> bool:
        """Whether some files were written from the same, and are as they were written."""
        try:
            noted: bytes = self._storage.read(name).to_pybytes()
            return noted == self._note(paths)
        except FileNotFoundError:  # of a note, or of a file
            return False

    def note(self, name: str, paths: Sequence[Path]) -> None:
        """Note files that are written."""
        self._storage.put(name, self._note(paths))

    def _note(self, paths: Sequence[Path]) -> bytes:
        made = {"made_from": self._made_from, "files": [_digest(path) for path in paths]}
        return json.dumps(made).encode()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
