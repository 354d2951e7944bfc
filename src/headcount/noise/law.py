"""What a law of noise is: the one thing that samplers, plans and receipts know about noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING, ClassVar

from headcount.errors import ConfigError
from headcount.noise._exact import invert

if TYPE_CHECKING:
    from flint import arb

LARGEST_SCALE = 1 << 40
"""Largest scale or standard deviation served: noise beyond 63 bits then has odds below e^-8e6."""
SMALLEST = Fraction(1, LARGEST_SCALE)


@dataclass(frozen=True)
class Law(ABC):
    """A symmetric law on the integers, given by exact parameters: the fields of its dataclass.

    ``name``
        in receipts and messages.
    ``kind``
        part of every key, with ``key_parts``: two laws never share a word of a stream. Neither
        may change as long as SAMPLER_VERSION stays.

    Tables and inversion need ``survival`` only. What the noise costs is no matter of the law
    alone: ``headcount.privacy.noise_loss``.
    """

    name: ClassVar[str]
    kind: ClassVar[str]

    @property
    @abstractmethod
    def key_parts(self) -> tuple[str | int, ...]:
        """The parameters as they enter a key: names, numerators and denominators."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of a draw: for weights and reports, never for draws."""

    @abstractmethod
    def survival(self, k: int) -> arb:
        """Enclose Pr[|X| > k] at the current precision; the balls shrink as it grows."""

    def survivals(self) -> Iterator[arb]:
        """Enclose Pr[|X| > k] for k = 0, 1, 2, ..."""
        return map(self.survival, count())

    def survival_below(self, k: int) -> arb:
        """Enclose a lower bound of Pr[|X| > k], cheaply: is the law too wide for a table?"""
        return self.survival(k)

    def exact_survival(self, k: int) -> Fraction | None:
        """Pr[|X| > k] where it is known to be rational: balls never tell an integer from itself."""
        return None

    def without_table(self, word: int, *, bits: int, extension: Iterator[int]) -> int:
        """The draw of a word of ``bits`` bits when the law is too wide for a table."""
        return invert(self, word, bits=bits, extension=extension)

    @property
    def stated(self) -> dict[str, str]:
        """The parameters by name, as exact text."""
        return {field.name: str(getattr(self, field.name)) for field in fields(self)}

    def __str__(self) -> str:
        return ", ".join([self.name, *(f"{name} {value}" for name, value in self.stated.items())])


def exact_parameter(value: object, name: str, *, low: Fraction, high: Fraction) -> Fraction:
    """Refuse floats, infinities and scales so large that noise could leave 64 bits."""
    if type(value) is int:
        value = Fraction(value)
    if not isinstance(value, Fraction):
        found = f"{value!r} ({type(value).__name__})"
        raise ConfigError("noise", place=name, found=found, expected="an exact Fraction")
    if not low <= value <= high:
        raise ConfigError("noise", place=name, found=str(value), expected=f"{low} to {high}")
    return value
