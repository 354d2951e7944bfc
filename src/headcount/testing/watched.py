"""Noise that remembers what it was asked for."""

from __future__ import annotations

from headcount.arrays import Ints
from headcount.noise import Law, Noise, Stream
from headcount.noise.source import MEASUREMENT, DrawPositions


class WatchedNoise:
    """Noise that remembers which draws it was asked for.

    where
        asked      every draw: the address of its stream, its law and its number
        measured   the numbers of those of measurements, by level, query and law
    """

    def __init__(self, source: Noise) -> None:
        self._source, self.asked = source, list[tuple[object, ...]]()
        self.measured = dict[tuple[str, str, Law], set[int]]()
        self.key_kind, self.backend = source.key_kind, source.backend

    def draw(self, stream: Stream, law: Law, *, draws: range) -> Ints:
        """Noise of the source, and a note of it."""
        self.asked.append((stream.address, law, draws))
        self._note(stream, law, draws)
        return self._source.draw(stream, law, draws=draws)

    def draw_at(self, stream: Stream, law: Law, *, draw: int, index: DrawPositions) -> Ints:
        """Noise of the source, and a note of it."""
        self.asked.append((stream.address, law, draw))
        self._note(stream, law, range(draw, draw + 1))
        return self._source.draw_at(stream, law, draw=draw, index=index)

    def _note(self, stream: Stream, law: Law, draws: range) -> None:
        if stream.purpose == MEASUREMENT:
            self.measured.setdefault((stream.level, stream.query, law), set()).update(draws)
