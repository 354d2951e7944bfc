"""The noise of one step of a chain."""

from __future__ import annotations

from dataclasses import replace

from headcount.arrays import Ints
from headcount.noise import KeyKind, Law, Noise, Stream
from headcount.noise.source import MEASUREMENT, DrawPositions


class StepNoise:
    """The noise of one step of a chain: streams of other steps have other purposes."""

    def __init__(self, source: Noise, label: str) -> None:
        self._source, self._label = source, label
        self.key_kind: KeyKind = source.key_kind
        self.backend = source.backend

    def _own(self, stream: Stream) -> Stream:
        inner = "" if stream.purpose == MEASUREMENT else f", {stream.purpose}"
        return replace(stream, purpose=f"{self._label}{inner}")

    def draw(self, stream: Stream, law: Law, *, draws: range) -> Ints:
        """Whole draws of a law, for the step."""
        return self._source.draw(self._own(stream), law, draws=draws)

    def draw_at(self, stream: Stream, law: Law, *, draw: int, index: DrawPositions) -> Ints:
        """Some values of one draw of a law, for the step."""
        return self._source.draw_at(self._own(stream), law, draw=draw, index=index)
