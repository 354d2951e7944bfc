"""An engine that hands work over by files, as Spark does, and does it in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headcount.engines import InOrder
from headcount.engines.spark import _HandedWork


class ByFiles:
    """One piece after the other: function, pieces and results are written and read again."""

    def __init__(self) -> None:
        self.done = 0

    def map(self, function: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[Any]:
        with self.private_folder() as folder:
            work = _HandedWork[Any, Any](folder)
            work.put_function(function)
            for place in work.put_pieces(0, pieces):
                work.do(place)
                self.done += 1
                yield work.take(place)

    @contextmanager
    def private_folder(self) -> Iterator[Path]:
        with TemporaryDirectory() as folder:
            yield Path(folder)

    def __reduce__(self) -> tuple[type[InOrder], tuple[()]]:
        return (InOrder, ())
