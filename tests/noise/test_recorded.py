"""Noise that cannot be drawn again is on disk before anyone sees it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from headcount.errors import PrivacyError, RunError
from headcount.noise import (
    DiscreteGaussian,
    KeyedNoise,
    OpenDPNoise,
    RunKey,
    Stream,
    TwoSidedGeometric,
)
from headcount.noise.recorded import RecordedNoise
from headcount_papers.frame.published_noise import GeometricByRatio

STREAM = Stream("tract", "cells", 7)
ONE = Fraction(1)
LAW = TwoSidedGeometric(ONE)


class Counting:
    """OpenDP's noise, counting how often it is asked."""

    def __init__(self) -> None:
        self.times = 0
        self._real = OpenDPNoise()
        self.key_kind, self.backend = self._real.key_kind, self._real.backend

    def __getattr__(self, name: str):
        self.times += 1
        return getattr(self._real, name)


def recorded(folder: Path) -> tuple[RecordedNoise, Counting]:
    source = Counting()
    return RecordedNoise(source, folder / "noise"), source


def test_a_draw_is_made_once_and_read_ever_after(tmp_path: Path):
    noise, source = recorded(tmp_path)
    first = noise.draw(STREAM, LAW, draws=range(3))
    assert first.shape == (3, 7)
    assert first.dtype == np.int64
    resumed, untouched = recorded(tmp_path)
    for again in (noise, resumed):
        np.testing.assert_array_equal(again.draw(STREAM, LAW, draws=range(3)), first)
    assert (source.times, untouched.times) == (1, 0)
    assert (noise.key_kind, noise.backend) == ("os", "opendp")


def test_what_differs_is_drawn_apart(tmp_path: Path):
    noise, source = recorded(tmp_path)
    wide = Stream("tract", "cells", 400)
    draws = [
        noise.draw(wide, LAW, draws=range(1)),
        noise.draw(wide, LAW, draws=range(1, 2)),
        noise.draw(Stream("county", "cells", 400), LAW, draws=range(1)),
        noise.draw(Stream("tract", "age", 400), LAW, draws=range(1)),
        noise.draw(Stream("tract", "g", 400), DiscreteGaussian(ONE), draws=range(1)),
    ]
    assert source.times == 5
    assert len({draw.tobytes() for draw in draws}) == 5


def test_positions_are_those_of_the_whole_draw(tmp_path: Path):
    """Also with a source that has addresses: the table sampler is the oracle."""
    index = np.array([6, 0, 3])
    keyed = KeyedNoise(RunKey.from_seed(1), "test", b"data", b"config")
    noise = RecordedNoise(keyed, tmp_path / "noise")
    half = Fraction(1, 2)
    np.testing.assert_array_equal(
        noise.draw_at(STREAM, LAW, draw=2, index=index),
        keyed.draw_at(STREAM, LAW, draw=2, index=index),
    )
    np.testing.assert_array_equal(
        noise.draw_at(STREAM, GeometricByRatio(half), draw=0, index=index),
        keyed.draw_at(STREAM, GeometricByRatio(half), draw=0, index=index),
    )
    np.testing.assert_array_equal(
        noise.draw_at(STREAM, DiscreteGaussian(ONE), draw=1, index=index),
        keyed.draw_at(STREAM, DiscreteGaussian(ONE), draw=1, index=index),
    )
    run = range(2, 6)
    np.testing.assert_array_equal(
        noise.draw_at(STREAM, LAW, draw=2, index=run), keyed.draw_at(STREAM, LAW, draw=2, index=run)
    )
    assert noise.key_kind == "seed"


def test_a_draw_that_could_not_be_written_is_never_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    noise, source = recorded(tmp_path)

    def full(_path: Path, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("headcount.noise.recorded.write_bytes_atomic", full)
        with pytest.raises(OSError, match="No space left"):
            noise.draw(STREAM, LAW, draws=range(1))
    assert source.times == 1
    with pytest.raises(PrivacyError, match="second request for draw 0"):
        noise.draw(STREAM, LAW, draws=range(1))  # in the process that has seen it
    resumed, _ = recorded(tmp_path)
    resumed.draw(STREAM, LAW, draws=range(1))


def test_a_damaged_recording_is_found(tmp_path: Path):
    noise, _ = recorded(tmp_path)
    noise.draw(STREAM, LAW, draws=range(1))
    (path,) = (tmp_path / "noise").iterdir()
    whole = path.read_bytes()
    flipped = [whole[:k] + bytes([whole[k] ^ 4]) + whole[k + 1 :] for k in range(0, len(whole), 9)]
    cut = [whole[:-5], whole[:-40], whole + b"more"]
    for content in (b"", b"other", whole.replace(b"}", b" ", 1), *cut, *flipped):
        path.write_bytes(content)
        resumed, _ = recorded(tmp_path)
        with pytest.raises(RunError, match=r"\.npy: found a damaged file, expected recorded noise"):
            resumed.draw_at(STREAM, LAW, draw=0, index=range(7))
    path.write_bytes(b"gone bad since it was checked")
    with pytest.raises(RunError, match="expected recorded noise"):
        noise.draw(STREAM, LAW, draws=range(1))


def test_the_folder_is_closed_to_others(tmp_path: Path):
    recorded(tmp_path)
    assert (tmp_path / "noise").stat().st_mode & 0o777 == 0o700


def test_threads_that_ask_at_once_share_one_draw(tmp_path: Path):
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    wide, together = Stream("tract", "cells", 5000), Barrier(8)
    noise, source = recorded(tmp_path)

    def ask(part: int):
        index = np.arange(part * 625, part * 625 + 625)
        together.wait()
        return noise.draw_at(wide, LAW, draw=0, index=index)

    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(ask, range(8)))
    assert source.times == 1
    whole = noise.draw(wide, LAW, draws=range(1))[0]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    parts[0][0] += 1  # an answer is the caller's own, not the file
