"""The table ``[mechanism]`` of a swapping run: every dial, spelled out or from a preset."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from headcount.config.values import Flag, Strict, Whole, Wrong, fraction
from headcount.errors import HeadcountError, InputError
from headcount.mechanisms.person_swapping import PersonSwapping
from headcount.mechanisms.presets import load_preset
from headcount.mechanisms.swapping.keys import ADULTS, SIZE, PseudoUnits, SizeNoise
from headcount.mechanisms.swapping.mechanism import HouseholdSwapping
from headcount.mechanisms.swapping.persons import KEEP
from headcount.mechanisms.swapping.risk import Risk
from headcount.mechanisms.targeted_swapping import TargetedSwapping


def _rate(value: object) -> Fraction:
    if not isinstance(value, bool) and value in (0, "0"):
        return Fraction(0)
    try:
        if (number := fraction(value)) <= 1:
            return number
    except ValueError:
        pass
    raise ValueError('a share from 0 to 1, such as 0.05 or "1/20"')


Rate = Annotated[Fraction, BeforeValidator(_rate), PlainSerializer(str)]
"""An exact number from 0 to 1."""


class RiskModel(Strict):
    """Who must be swapped: people in a group of fewer than k."""

    attributes: tuple[str, ...]
    levels: tuple[str, ...]
    k: Whole = Field(3, ge=0)

    def build(self) -> Risk:
        """The rule that this table describes."""
        return Risk(attributes=self.attributes, levels=self.levels, k=self.k)


class SizeNoiseModel(Strict):
    """Shares of households whose size in the key is one less, or one more."""

    minus: Rate
    plus: Rate


class PseudoModel(Strict):
    """Shares of households paired as if in another unit of a level."""

    level: str
    permute: dict[str, Rate]


class SwappingModel(Strict):
    """Household swapping; keys of a preset stand unless they are given."""

    name: Literal["swapping"]
    preset: Literal["", "lo", "hi"] = ""
    rate: Rate
    key: tuple[str, ...] = (SIZE, ADULTS)
    within: str = ""
    between: str = ""
    nearest: tuple[str, ...] = ()
    risk: RiskModel | None = None
    rate_is_floor: Flag = False
    size_noise: SizeNoiseModel | None = None
    pseudo: PseudoModel | None = None

    @model_validator(mode="before")
    @classmethod
    def _on_top_of_the_preset(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("preset") in ("lo", "hi"):
            return {**load_preset(f"swap-{data['preset']}"), **data}
        return data

    @model_validator(mode="after")
    def _sound(self) -> SwappingModel:
        _refuse_unsound(self)
        return self

    def build(self) -> HouseholdSwapping:
        """The mechanism that this table describes."""
        noise, pseudo = self.size_noise, self.pseudo
        return HouseholdSwapping(
            rate=self.rate,
            key=self.key,
            within=self.within,
            between=self.between,
            nearest=self.nearest,
            risk=self.risk.build() if self.risk else None,
            rate_is_floor=self.rate_is_floor,
            size_noise=SizeNoise(minus=noise.minus, plus=noise.plus) if noise else None,
            pseudo=PseudoUnits(level=pseudo.level, permute=tuple(pseudo.permute.items()))
            if pseudo
            else None,
        )


class TargetedSwappingModel(Strict):
    """Household swapping by sdcMicro's rules."""

    name: Literal["targeted-swapping"]
    rate: Rate
    risk_variables: tuple[str, ...]
    hierarchy: tuple[str, ...] = ()
    similar: tuple[tuple[str, ...], ...] = ((SIZE, ADULTS), (SIZE,))
    k: Whole = Field(3, ge=0)
    carry_along: tuple[str, ...] = ()
    within: str = ""

    @model_validator(mode="after")
    def _sound(self) -> TargetedSwappingModel:
        _refuse_unsound(self)
        return self

    def build(self) -> TargetedSwapping:
        """The mechanism that this table describes."""
        return TargetedSwapping(
            rate=self.rate,
            risk_variables=self.risk_variables,
            hierarchy=self.hierarchy,
            similar=self.similar,
            k=self.k,
            carry_along=self.carry_along,
            within=self.within,
        )


class PersonSwappingModel(Strict):
    """Swapping of single people between areas of a level."""

    name: Literal["person-swapping"]
    level: str
    rate: Rate
    kind: Literal["random", "pseudo-random", "similar"] = "similar"
    k: Whole = Field(0, ge=0)
    area: str | None = None
    keep: tuple[str, ...] = KEEP
    order: tuple[Whole, ...] | None = None
    unique_by: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _sound(self) -> PersonSwappingModel:
        _refuse_unsound(self)
        return self

    def build(self) -> PersonSwapping:
        """The mechanism that this table describes."""
        return PersonSwapping(
            level=self.level,
            rate=self.rate,
            kind=self.kind,
            k=self.k,
            area=self.area,
            keep=self.keep,
            order=self.order,
            unique_by=self.unique_by,
        )


def _refuse_unsound(model: SwappingModel | TargetedSwappingModel | PersonSwappingModel) -> None:
    """Settings that a mechanism refuses are faults of the file: found before data is read."""
    try:
        model.build()
    except InputError as error:
        found = f"{error.place}: {error.found}" if error.place else error.found
        raise Wrong(found=found, expected=error.expected) from None
    except HeadcountError as error:
        raise Wrong(found=str(error), expected="settings that fit together") from None
