"""Privacy losses as exact value objects: a number, its currency and its unit of privacy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import StrEnum
from fractions import Fraction
from numbers import Rational
from typing import TypeAlias

from headcount.errors import PrivacyError, brief
from headcount.numbers import (
    MOST_DIGITS,
    RECORDED_DIGITS,
    TooLong,
    exact_number,
    fits,
    shown,
)
from headcount.privacy.unit import UnitOfPrivacy


def exact(value: object, *, name: str, digits: int = MOST_DIGITS) -> Fraction:
    """Return ``value`` as an exact fraction.

    Strings (``"1/8"``, ``"0.1"``), integers, decimals and fractions are taken at their word. A
    binary float is refused, because the fraction it stands for is not the number that was typed,
    and so is a number of more than ``digits`` digits, before it is built.
    """
    if isinstance(value, (bool, float)):
        raise PrivacyError(
            place=name,
            found=f"{value!r} ({type(value).__name__})",
            expected="an exact number: a whole number, a Fraction, or a string such as "
            '"1/8" or "0.1"',
        )
    try:
        if isinstance(value, (Rational, Decimal, str)):
            # A fraction is somebody's result already; digits are counted where text is read.
            return value if isinstance(value, Fraction) else exact_number(value, digits=digits)
    except TooLong as error:
        raise PrivacyError(place=name, found=brief(shown(value)), expected=str(error)) from None
    except ValueError:
        pass  # falls through to the one message for all that is not a number
    raise PrivacyError(
        place=name,
        found=brief(shown(value)),
        expected='a finite number such as 1, "1/8" or "0.1"',
    )


def positive(value: object, *, name: str) -> Fraction:
    """Return ``value`` as an exact fraction above zero."""
    number = exact(value, name=name)
    if number <= 0:
        raise PrivacyError(place=name, found=str(number), expected="a number above 0")
    return number


class Currency(StrEnum):
    """What a loss is counted in; amounts of different currencies are never added."""

    EPSILON = "epsilon"
    RHO = "rho"
    EPSILON_AT_DELTA = "epsilon at delta"


@dataclass(frozen=True, kw_only=True)
class PureLoss:
    """Pure differential privacy: Pr[M(D) in E] <= exp(epsilon) Pr[M(D') in E] for every event E."""

    epsilon: Fraction
    unit: UnitOfPrivacy

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, name="epsilon"))

    def __str__(self) -> str:
        return f"epsilon {decimal(self.epsilon)} when {self.unit.phrase}"

    @property
    def currency(self) -> Currency:
        """What this loss is counted in."""
        return Currency.EPSILON

    @property
    def amount(self) -> Fraction:
        """The number that composition adds up: epsilon."""
        return self.epsilon


@dataclass(frozen=True, kw_only=True)
class ZCDPLoss:
    """Zero-concentrated differential privacy: D_alpha(M(D) || M(D')) <= rho alpha, all alpha > 1.

    where
        D_alpha   the Renyi divergence of order alpha between the two output distributions

    Bun and Steinke (2016), "Concentrated Differential Privacy", definition 1.1 with xi = 0.
    """

    rho: Fraction
    unit: UnitOfPrivacy

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", positive(self.rho, name="rho"))

    def __str__(self) -> str:
        return f"rho {decimal(self.rho)} when {self.unit.phrase}"

    @property
    def currency(self) -> Currency:
        """What this loss is counted in."""
        return Currency.RHO

    @property
    def amount(self) -> Fraction:
        """The number that composition adds up: rho."""
        return self.rho


@dataclass(frozen=True, kw_only=True)
class ApproximateLoss:
    """Approximate differential privacy: Pr[M(D) in E] <= exp(epsilon) Pr[M(D') in E] + delta.

    Epsilon may be 0: then delta bounds the total variation distance.
    """

    epsilon: Fraction
    delta: Fraction
    unit: UnitOfPrivacy

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon, name="epsilon"))
        if self.epsilon < 0:
            raise PrivacyError(f"epsilon: found {self.epsilon}, expected a number of at least 0")
        object.__setattr__(self, "delta", positive(self.delta, name="delta"))
        if self.delta >= 1:
            raise PrivacyError(
                f"delta: found {self.delta}, expected a number below 1: "
                f"at 1 the promise allows publishing the records themselves"
            )

    def __str__(self) -> str:
        return (
            f"epsilon {decimal(self.epsilon)} at delta {decimal(self.delta)} "
            f"when {self.unit.phrase}"
        )

    @property
    def currency(self) -> Currency:
        """What this loss is counted in."""
        return Currency.EPSILON_AT_DELTA

    @property
    def amount(self) -> Fraction:
        """The number that is compared: epsilon, at the stated delta."""
        return self.epsilon


Loss: TypeAlias = PureLoss | ZCDPLoss | ApproximateLoss


def scaled(loss: PureLoss | ZCDPLoss, share: Fraction) -> PureLoss | ZCDPLoss:
    """The given share of a loss, in the same currency and unit."""
    if isinstance(loss, PureLoss):
        return PureLoss(epsilon=loss.epsilon * share, unit=loss.unit)
    if isinstance(loss, ZCDPLoss):
        return ZCDPLoss(rho=loss.rho * share, unit=loss.unit)
    raise PrivacyError(
        f"share of a loss: found {loss}, expected a pure epsilon or a rho: shares of "
        f"(epsilon, delta) do not add up to it when the noise is measured in one of the others"
    )


def to_record(loss: Loss) -> dict[str, str]:
    """Write a loss as plain strings, amounts as exact fractions, for receipts and the ledger."""
    record = {"currency": str(loss.currency), "amount": str(loss.amount), "unit": str(loss.unit)}
    if isinstance(loss, ApproximateLoss):
        record["delta"] = str(loss.delta)
    return record


def from_record(record: Mapping[str, str]) -> Loss:
    """Read back what :func:`to_record` wrote."""
    currency = Currency(record["currency"])
    unit = UnitOfPrivacy(record["unit"])
    amount = exact(record["amount"], name="amount", digits=RECORDED_DIGITS)
    if currency is Currency.EPSILON:
        return PureLoss(epsilon=amount, unit=unit)
    if currency is Currency.RHO:
        return ZCDPLoss(rho=amount, unit=unit)
    delta = exact(record["delta"], name="delta", digits=RECORDED_DIGITS)
    return ApproximateLoss(epsilon=amount, delta=delta, unit=unit)


def decimal(value: Fraction, *, digits: int = 6) -> str:
    """Write a fraction for people: exactly where short, else rounded, marked with '~'."""
    try:
        near = float(value)
    except OverflowError:
        near = 0.0
    text = f"{near:.{digits}g}"
    if value and not near:  # larger or smaller than any float
        text = f"{Context(prec=digits).divide(value.numerator, value.denominator):.{digits}g}"
    return text if Fraction(text) == value else f"~{text}"


def figure(value: Fraction) -> str:
    """Write a fraction for a message in which the exact value matters: '1/3 (~0.333333)'."""
    text = decimal(value)
    if text.startswith("~") and fits(value, digits=24) and len(str(value)) <= 24:
        return f"{value} ({text})"
    return text


def written(value: Fraction) -> str:
    """Write a fraction as it is, or rounded where it has more digits than a message can hold."""
    return str(value) if fits(value, digits=MOST_DIGITS) else decimal(value)
