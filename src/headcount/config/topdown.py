"""The table ``[mechanism]`` of a TopDown run: the seven choices, spelled out or from a preset."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationError, model_validator

from headcount.config.values import PositiveFraction, Share, Strict, Whole, Wrong, fraction
from headcount.errors import ConfigError, HeadcountError
from headcount.mechanisms import Context, protect
from headcount.mechanisms.presets import load_preset
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.mechanisms.topdown.settings import Invariant, QuartersBounds, Shares
from headcount.noise import Noise
from headcount.population import Population
from headcount.privacy import PureLoss, UnitOfPrivacy, ZCDPLoss
from headcount.release import Release
from headcount.tabulate import CELLS, Counts, Query


def _epsilon(value: Any) -> Any:
    return value if value is None or value == "inf" else fraction(value)


Epsilon = Annotated[Any, BeforeValidator(_epsilon), PlainSerializer(lambda e: e and str(e))]
"""An exact number above 0, or "inf" for no noise at all."""


def _report(value: Any) -> Any:
    return None if value is None or value in (0, "0") else fraction(value)


Report = Annotated[Any, BeforeValidator(_report), PlainSerializer(lambda e: e and str(e))]
"""An exact number above 0, or 0 for no report."""


class QueryModel(Strict):
    """A marginal by attribute names; with a share it is measured. ``cells`` has a share only."""

    by: tuple[str, ...] | None = None
    share: Share | None = None


class InvariantModel(Strict):
    """A query published exactly at a level."""

    query: str
    level: str


class BoundsModel(Strict):
    """Bounds from the number of living quarters of each type."""

    query: str
    caps: tuple[Whole, ...]
    total_level: str = ""
    unions: bool = False


class TopDownModel(Strict):
    """TopDown; keys of a preset stand unless they are given."""

    name: Literal["topdown"]
    preset: str = ""
    epsilon: Epsilon = None
    rho: PositiveFraction | None = None
    unit: UnitOfPrivacy = UnitOfPrivacy.CHANGE_ONE
    levels: dict[str, Share] | Literal["equal"] = "equal"
    queries: dict[str, QueryModel] = Field(default_factory=dict)
    level_queries: dict[str, dict[str, Share]] = Field(default_factory=dict)
    invariant: tuple[InvariantModel, ...] = ()
    bounds: tuple[BoundsModel, ...] = ()
    failsafe_over: tuple[str, ...] = ()
    report_epsilon: Report = None

    @model_validator(mode="before")
    @classmethod
    def _on_top_of_the_preset(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(name := data.get("preset"), str) and name:
            try:
                return {**load_preset(name), **data}
            except HeadcountError as error:
                raise ValueError(str(error)) from None
        return data

    @model_validator(mode="after")
    def _sound(self) -> TopDownModel:
        if (self.epsilon is None) == (self.rho is None):
            raise Wrong(found="both or none of epsilon and rho", expected="one of the two")
        for name, query in self.queries.items():
            if (query.by is None) != (name == CELLS):
                raise Wrong(
                    found=f"query {name!r} {'without' if query.by is None else 'with'} by",
                    expected=f"by = [...] for every query but {CELLS!r}",
                )
        try:
            self.build()
        except HeadcountError as error:
            raise Wrong(found=str(error), expected="settings that fit together") from None
        return self

    def build(self) -> TopDown:
        """The mechanism that this table describes."""
        loss: PureLoss | ZCDPLoss | None = None
        if self.rho is not None:
            loss = ZCDPLoss(rho=self.rho, unit=self.unit)
        elif isinstance(self.epsilon, Fraction):
            loss = PureLoss(epsilon=self.epsilon, unit=self.unit)
        return TopDown(
            loss=loss,
            level_shares=None if self.levels == "equal" else _pairs(self.levels),
            query_shares=tuple(
                (name, query.share) for name, query in self.queries.items() if query.share
            ),
            level_queries=tuple((lv, _pairs(q)) for lv, q in self.level_queries.items()),
            queries=tuple(
                Query(name, query.by)
                for name, query in self.queries.items()
                if query.by is not None
            ),
            invariants=tuple(Invariant(query=i.query, level=i.level) for i in self.invariant),
            bounds=tuple(QuartersBounds(**bound.model_dump()) for bound in self.bounds),
            failsafe_over=self.failsafe_over,
            report_epsilon=self.report_epsilon or Fraction(0),
        )


def _pairs(shares: Any) -> Shares:
    return tuple(shares.items())


def topdown(
    data: Population | Counts,
    *,
    noise: Noise | None = None,
    context: Context | None = None,
    **settings: Any,
) -> Release:
    """Protect a population by TopDown, with settings named as in the config file.

        topdown(population, preset="e2e-2018", epsilon="1")

    Without ``noise`` a fresh key comes from the operating system.
    """
    try:
        mechanism = TopDownModel.model_validate({"name": "topdown", **settings}).build()
    except ValidationError as error:
        fault = error.errors()[0]
        wrong = fault.get("ctx", {}).get("error")
        found = wrong.found if isinstance(wrong, Wrong) else repr(fault["input"])
        place = ".".join(str(part) for part in fault["loc"])
        expected = fault["msg"].removeprefix("Value error, ")
        raise ConfigError("topdown", place=place, found=found, expected=expected) from None
    return protect(data, mechanism, noise, context=context)
