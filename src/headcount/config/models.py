"""The config file as typed data: every key, its kind and its limits."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    field_validator,
    model_validator,
)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


def _fraction(value: object) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal | Fraction):
        raise ValueError('a number above 0 such as 1, 0.1 or "1/8"')
    try:
        number = Fraction(value)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError('a finite number above 0 such as 1, 0.1 or "1/8"') from None
    if number <= 0:
        raise ValueError("a number above 0")
    return number


PositiveFraction = Annotated[Fraction, BeforeValidator(_fraction), PlainSerializer(str)]
"""An exact number above 0; decimals in the file are read digit by digit, never as floats."""


class GeographyModel(_Model):
    """Either one code column per level, or one column whose prefixes name the upper units."""

    columns: tuple[str, ...] = ()
    local_codes: bool = False
    column: str = ""
    prefixes: dict[str, int] = {}
    root: str = "whole"

    @model_validator(mode="after")
    def _one_way(self) -> GeographyModel:
        if bool(self.columns) == bool(self.column):
            raise ValueError("either columns = [...] or column = ... with prefixes = {...}")
        if bool(self.column) != bool(self.prefixes):
            raise ValueError("column and prefixes together")
        if self.local_codes and self.column:
            raise ValueError("local_codes only with columns = [...]")
        return self


class AttributeModel(_Model):
    """One attribute of a microdata file; without levels they are read off the data."""

    name: str
    column: str = ""
    levels: tuple[str, ...] | None = None


class MicrodataModel(_Model):
    """One row a person."""

    kind: Literal["microdata"]
    file: Path
    geography: GeographyModel
    attribute: tuple[AttributeModel, ...] = ()
    structural_zero: tuple[dict[str, tuple[str, ...]], ...] = ()
    units: Path | None = None
    public: bool = False


class CountsModel(_Model):
    """A wide table of counts: one row a unit, one column a cell."""

    kind: Literal["counts"]
    file: Path
    geography: GeographyModel
    schema_: str = Field(alias="schema")
    cells: dict[str, dict[str, str]] | None = None
    units: Path | None = None
    public: bool = False


class UniformModel(_Model):
    """The generated population of Flaxman (2019)."""

    kind: Literal["uniform"]
    people: int = Field(1_000_000, ge=1)
    depth: int = Field(3, ge=1)
    mean: int = Field(100, ge=1)
    seed: int = Field(0, ge=0)


class IdentityModel(_Model):
    """The true counts."""

    name: Literal["identity"]


class GeometricModel(_Model):
    """Two-sided geometric noise on the leaf counts."""

    name: Literal["geometric"]
    epsilon: PositiveFraction


class RakedModel(_Model):
    """Geometric noise at every level, raked from the top."""

    name: Literal["raked"]
    epsilon: PositiveFraction


class AveragedModel(_Model):
    """The mean of several geometric releases."""

    name: Literal["averaged"]
    epsilon: PositiveFraction
    parts: int = Field(4, ge=1)


class RunModel(_Model):
    """Where the run goes, and where its noise comes from."""

    out: Path
    noise: Literal["table", "opendp"] = "table"
    seed: int | None = Field(None, ge=0)
    ledger: Path | None = None
    dataset: str = ""
    new_content: bool = False

    @field_validator("noise", mode="before")
    @classmethod
    def _no_published_variant(cls, value: Any) -> Any:
        if value == "published":
            raise ValueError(
                "'table' or 'opendp' (the published variant of Flaxman's code draws with success "
                "probability epsilon, so its true loss is -ln(1 - epsilon), more than epsilon; it "
                "exists only inside the study flaxman-2019)"
            )
        return value

    @model_validator(mode="after")
    def _go_together(self) -> RunModel:
        if self.seed is not None and self.noise == "opendp":
            raise ValueError("no seed with noise = 'opendp', whose draws cannot be keyed")
        if (self.ledger is None) != (not self.dataset):
            raise ValueError("ledger and dataset together: which ledger, and which name in it")
        return self


class Config(_Model):
    """One run of ``headcount protect``."""

    population: Annotated[MicrodataModel | CountsModel | UniformModel, Field(discriminator="kind")]
    mechanism: Annotated[
        IdentityModel | GeometricModel | RakedModel | AveragedModel, Field(discriminator="name")
    ]
    run: RunModel
