"""The table ``[mechanism]`` of a TopDown run: the seven choices, spelled out or from a preset."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationError, model_validator

from headcount.config.values import (
    Flag,
    Place,
    PositiveFraction,
    Share,
    Strict,
    Whole,
    Wrong,
    fraction,
    wrong_from,
)
from headcount.errors import ConfigError, HeadcountError
from headcount.mechanisms import Context, protect
from headcount.mechanisms.presets import load_preset
from headcount.mechanisms.topdown.bounds_table import file_digest
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.mechanisms.topdown.recoded import Grouping, RecodedQuery
from headcount.mechanisms.topdown.settings import (
    NURSE_NVA_0,
    Invariant,
    QuartersBounds,
    Shares,
    TableBounds,
)
from headcount.noise import Noise
from headcount.population import Population
from headcount.privacy import DEFAULT_UNIT, PureLoss, UnitOfPrivacy, ZCDPLoss
from headcount.release import Release
from headcount.tabulate import CELLS, Counts, Query

E2E_2018 = "e2e-2018"
"""The preset of the 2018 end-to-end test."""


def _epsilon(value: Any) -> Any:
    return value if value is None or value == "inf" else fraction(value)


Epsilon = Annotated[Any, BeforeValidator(_epsilon), PlainSerializer(lambda e: e and str(e))]
"""An exact number above 0, or "inf" for no noise at all."""


def _report(value: Any) -> Any:
    return None if value is None or value in (0, "0") else fraction(value)


Report = Annotated[Any, BeforeValidator(_report), PlainSerializer(lambda e: e and str(e))]
"""An exact number above 0, or 0 for no report."""


class QueryModel(Strict):
    """A marginal by attributes and recodes; with a share it is measured. ``cells`` has no by."""

    by: tuple[str, ...] | None = None
    share: Share | None = None


class InvariantModel(Strict):
    """A query published exactly at a level."""

    query: str
    level: str


class RecodeModel(Strict):
    """A coarser view of an attribute, for queries: each of its levels in one group."""

    of: str
    groups: dict[str, tuple[str, ...]]


class BoundsModel(Strict):
    """Bounds from the number of living quarters of each type (caps), or from a table (file)."""

    query: str
    caps: tuple[Whole, ...] | None = None
    total_level: str = ""
    unions: Flag = False
    file: Place | None = None
    level: str = ""
    public: Flag | None = None
    sha256: str = ""

    @model_validator(mode="after")
    def _one_form(self) -> BoundsModel:
        if (self.caps is None) == (self.file is None):
            raise Wrong(
                found="both or none of caps and file",
                expected="caps (bounds from living quarters) or file (bounds from a table)",
            )
        if self.file is None and (self.level or self.public is not None or self.sha256):
            raise Wrong(
                found="level, public or sha256 without file", expected="these with file only"
            )
        if self.file is not None and (self.total_level or self.unions):
            raise Wrong(found="total_level or unions with file", expected="these with caps only")
        if self.file is not None and (not self.level or self.public is None):
            raise Wrong(
                found="a file without level or without public",
                expected="the level of its units, and whether the table is public (true) or worked "
                "out from the confidential data (false)",
            )
        return self

    def build(self) -> QuartersBounds | TableBounds:
        """The bounds that this table describes."""
        if self.file is None:
            return QuartersBounds(
                query=self.query,
                caps=self.caps or (),
                total_level=self.total_level,
                unions=self.unions,
            )
        return TableBounds(
            query=self.query,
            level=self.level,
            file=self.file.name,
            public=bool(self.public),
            sha256=self.sha256,
            folder=self.file.parent,
        )

    def located(self, folder: Path) -> BoundsModel:
        """The same with its file found from ``folder`` and bound to its content."""
        if self.file is None:
            return self
        path = folder / self.file
        digest = file_digest(path)
        if self.sha256 and self.sha256 != digest:
            raise ConfigError(
                str(path), found=f"sha256 {digest}", expected=f"sha256 {self.sha256}, as configured"
            )
        return self.model_copy(update={"file": path, "sha256": digest})


class TopDownModel(Strict):
    """TopDown; keys of a preset stand unless they are given."""

    name: Literal["topdown"]
    preset: Literal["", "e2e-2018"] = ""
    epsilon: Epsilon = None
    rho: PositiveFraction | None = None
    unit: UnitOfPrivacy = DEFAULT_UNIT
    count_housemates: Flag = False
    largest_household: Whole | None = None
    levels: dict[str, Share] | Literal["equal"] = "equal"
    queries: dict[str, QueryModel] = Field(default_factory=dict)
    recodes: dict[str, RecodeModel] = Field(default_factory=dict)
    level_queries: dict[str, dict[str, Share]] = Field(default_factory=dict)
    invariant: tuple[InvariantModel, ...] = ()
    bounds: tuple[BoundsModel, ...] = ()
    failsafe_over: tuple[str, ...] = ()
    report_epsilon: Report = None
    nurse_nva_0: Flag = False

    @model_validator(mode="before")
    @classmethod
    def _on_top_of_the_preset(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("preset") == E2E_2018:
            return {**load_preset(E2E_2018), **data}
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
        asked = {name for query in self.queries.values() for name in query.by or ()}
        if unused := sorted(set(self.recodes) - asked):
            raise Wrong(
                found=f"recode {unused[0]!r}, which no query is by",
                expected="recodes that some query has in its by = [...]",
            )
        try:
            self.build()
        except HeadcountError as error:
            raise wrong_from(error, source="topdown") from None
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
                self._query(name, query.by)
                for name, query in self.queries.items()
                if query.by is not None
            ),
            invariants=tuple(Invariant(query=i.query, level=i.level) for i in self.invariant),
            bounds=tuple(bound.build() for bound in self.bounds),
            failsafe_over=self.failsafe_over,
            report_epsilon=self.report_epsilon or Fraction(0),
            structural_zeros=(NURSE_NVA_0,) if self.nurse_nva_0 else (),
            count_housemates=self.count_housemates,
            largest_household=self.largest_household,
        )

    def _query(self, name: str, by: tuple[str, ...]) -> Query:
        recodes = {one: self.recodes[one] for one in by if one in self.recodes}
        if not recodes:
            return Query(name, by)
        groupings = tuple(
            Grouping(recode, model.of, tuple(model.groups.items()))
            for recode, model in recodes.items()
        )
        return RecodedQuery(name, by, groupings)

    @property
    def places_people(self) -> bool:
        """Whether living quarters are published, so that people can be placed in them."""
        return any(bound.caps is not None for bound in self.bounds)

    def located(self, folder: Path) -> TopDownModel:
        """The same with files found from ``folder`` and bound to their content."""
        found = tuple(bound.located(folder) for bound in self.bounds)
        return self.model_copy(update={"bounds": found})


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
        model = TopDownModel.model_validate({"name": "topdown", **settings})
    except ValidationError as error:
        raise _as_in_a_file(error) from None
    return protect(data, model.located(Path()).build(), noise, context=context)


def _as_in_a_file(error: ValidationError) -> ConfigError:
    """The first fault in the words of a config file, less the table it would stand in."""
    from headcount.config.load import located

    fault = error.errors()[0]
    fault["loc"] = ("mechanism", "topdown", *fault["loc"])
    said = located("topdown", fault)
    place = said.place.removeprefix("mechanism").lstrip(".: ")
    return ConfigError("topdown", place=place, found=said.found, expected=said.expected)
