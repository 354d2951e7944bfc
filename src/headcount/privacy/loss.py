"""Privacy losses as exact value objects: a number, its currency and its unit of privacy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from headcount.errors import PrivacyError
from headcount.privacy.unit import UnitOfPrivacy


def exact(value: object, *, name: str) -> Fraction:
    """Return ``value`` as an exact fraction.

    Strings (``"1/8"``, ``"0.1"``), integers, decimals and fractions are taken at their word. A
    binary float is refused, because the fraction it stands for is not the number that was typed.
    """
    if isinstance(value, bool) or isinstance(value, float):
        raise PrivacyError(
            f"{name}: found {value!r} ({type(value).__name__}), expected an exact number: "
            f'a whole number, a Fraction, or a string such as "1/8" or "0.1"'
        )
    try:
        return Fraction(value)  # type: ignore[arg-type]  # the except clause answers for the rest
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        raise PrivacyError(
            f'{name}: found {value!r}, expected a finite number such as 1, "1/8" or "0.1"'
        ) from None


def positive(value: object, *, name: str) -> Fraction:
    """Return ``value`` as an exact fraction above zero."""
    number = exact(value, name=name)
    if number <= 0:
        raise PrivacyError(f"{name}: found {number}, expected a number above 0")
    return number


@dataclass(frozen=True, kw_only=True)
class PureLoss:
    """Pure differential privacy: Pr[M(D) in E] <= exp(epsilon) Pr[M(D') in E] for every event E."""

    epsilon: Fraction
    unit: UnitOfPrivacy

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, name="epsilon"))

    def __str__(self) -> str:
        return f"epsilon {decimal(self.epsilon)} when {self.unit.phrase}"


def decimal(value: Fraction, *, digits: int = 6) -> str:
    """Write a fraction for people: exactly where short, else rounded, marked with '~'."""
    text = f"{float(value):.{digits}g}"
    return text if Fraction(text) == value else f"~{text}"
