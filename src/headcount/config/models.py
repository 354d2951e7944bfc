"""The config file as typed data: every key, its kind and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from headcount.config.suppression import SuppressionModel
from headcount.config.swapping import (
    PersonSwappingModel,
    SwappingModel,
    TargetedSwappingModel,
)
from headcount.config.topdown import TopDownModel
from headcount.config.values import (
    Flag,
    Place,
    PositiveFraction,
    Share,
    Strict,
    Whole,
    Wrong,
    wrong_from,
)
from headcount.errors import InputError, PrivacyError
from headcount.geography.build import LONGEST_CODE
from headcount.mechanisms._units import Neighbours
from headcount.population.from_households import KIND
from headcount.population.suspicious import Totals
from headcount.population.towns.generate import FEWEST_PEOPLE, MOST_PEOPLE, most_counties
from headcount.population.uniform import refuse_sizes
from headcount.population.workload_s import MOST_HOUSEHOLDS
from headcount.privacy import DEFAULT_UNIT, UnitOfPrivacy
from headcount.schema import Attribute, Schema, impossible
from headcount.schema.attribute import first_repeated, one_of
from headcount.schema.follows import looks_like_size


class GeographyModel(Strict):
    """Either one code column per level, or one column whose prefixes name the upper units."""

    columns: tuple[str, ...] = ()
    local_codes: Flag = False
    column: str = ""
    prefixes: dict[str, Whole] = Field(default_factory=dict)
    longer: Literal["refuse", "cut"] = "refuse"
    root: str = "whole"

    @field_validator("prefixes")
    @classmethod
    def _growing(cls, prefixes: dict[str, int]) -> dict[str, int]:
        cuts = list(prefixes.values())
        if cuts != sorted(set(cuts)) or min(cuts, default=1) < 1:
            raise ValueError("lengths that grow from the top to the leaf, each at least 1")
        if max(cuts, default=1) > LONGEST_CODE:
            raise Wrong(found=f"{max(cuts):,}", expected=f"at most {LONGEST_CODE} characters")
        return prefixes

    @model_validator(mode="after")
    def _one_way(self) -> GeographyModel:
        if bool(self.columns) == bool(self.column):
            raise ValueError("either columns = [...] or column = ... with prefixes = {...}")
        if bool(self.column) != bool(self.prefixes):
            raise ValueError("column and prefixes together")
        if self.local_codes and self.column:
            raise ValueError("local_codes only with columns = [...]")
        if self.longer != "refuse" and self.columns:
            raise ValueError("longer only with prefixes = {...}")
        levels = [self.root, *self.columns, *self.prefixes]
        if "" in levels:
            raise Wrong(found="a level without a name", expected="names of a character or more")
        if (repeated := first_repeated(levels)) is not None:
            raise Wrong(found=f"level {repeated!r} twice", expected="distinct names, root included")
        return self


class AttributeModel(Strict):
    """One attribute of a microdata file; without levels they are read off the data."""

    name: str
    column: str = ""
    levels: tuple[str, ...] | None = None
    real_levels: tuple[str, ...] = ()
    follows: Literal["person", "dwelling", "size", "members"] | None = None

    @model_validator(mode="after")
    def _one_list(self) -> AttributeModel:
        if self.levels is not None and self.real_levels:
            raise Wrong(
                found="levels and real_levels",
                expected="real_levels only where levels are read off the data",
            )
        return self

    def refuse_follows(self, *known: str) -> None:
        """Refuse what an attribute of this table cannot follow."""
        if self.follows is not None and self.follows not in known:
            expected = " or ".join(repr(one) for one in known)
            raise Wrong(
                found=f"attribute {self.name!r} with follows = {self.follows!r}",
                expected=f"{expected} for an attribute of this table",
            )

    def refuse_size(self, *, size_column: str) -> None:
        """Refuse the number of people in the household under another flag."""
        if self.follows not in ("person", "dwelling"):
            return
        column = self.column or self.name
        if column == size_column or looks_like_size(self.name, column):
            raise Wrong(
                found=f"attribute {self.name!r}, by its name the number of people in the "
                f"household, with follows = {self.follows!r}",
                expected="a [[population.dwelling_attribute]] with follows = 'size' or 'members'",
            )


class QuartersModel(Strict):
    """A table of living quarters: one row a leaf unit, one column for each type."""

    file: Place
    attribute: str
    columns: dict[str, str] = Field(default_factory=dict)
    vacant: str = ""


class MicrodataModel(Strict):
    """One row a person."""

    kind: Literal["microdata"]
    file: Place
    geography: GeographyModel
    attribute: tuple[AttributeModel, ...] = ()
    structural_zero: tuple[dict[str, tuple[str, ...]], ...] = ()
    units: Place | None = None
    quarters: QuartersModel | None = None
    public: Flag = False
    totals: Totals = "refuse"
    not_counts: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _schema_is_sound(self) -> MicrodataModel:
        # With all levels given the schema is known before the data is; else its reader checks.
        names = [attribute.name for attribute in self.attribute]
        if (repeated := first_repeated(names)) is not None:
            raise Wrong(found=f"attribute {repeated!r} twice", expected="distinct attributes")
        for attribute in self.attribute:
            attribute.refuse_follows("person")
        try:
            chosen = [Attribute(a.name, a.levels) for a in self.attribute if a.levels is not None]
            if len(chosen) == len(names):
                Schema(tuple(chosen), tuple(map(impossible, self.structural_zero)))
        except InputError as error:
            where = f"{error.place}: " if error.place else ""
            raise Wrong(found=where + error.found, expected=error.expected) from None
        return self


class CountsModel(Strict):
    """A wide table of counts: one row a unit, one column a cell."""

    kind: Literal["counts"]
    file: Place
    geography: GeographyModel
    schema_: str = Field(alias="schema")
    cells: dict[str, dict[str, str]] | None = None
    units: Place | None = None
    quarters: QuartersModel | None = None
    public: Flag = False
    totals: Totals = "refuse"
    sums: Literal["refuse", "keep"] = "refuse"


class UniformModel(Strict):
    """The generated population of Flaxman (2019)."""

    kind: Literal["uniform"]
    people: Whole = Field(1_000_000, ge=1)
    depth: Whole = Field(3, ge=1)
    mean: Whole = Field(100, ge=1)
    seed: Whole = Field(0, ge=0)

    @model_validator(mode="after")
    def _someone_in_each_leaf(self) -> UniformModel:
        try:
            refuse_sizes(people=self.people, depth=self.depth, mean=self.mean)
        except InputError as error:
            raise Wrong(place=error.place, found=error.found, expected=error.expected) from None
        return self


class Ipums1940Model(Strict):
    """The IPUMS extract of the census of 1940, fixed width."""

    kind: Literal["ipums1940"]
    file: Place
    orphans: Literal["refuse", "drop"] = "refuse"
    nurse_nva_0: Flag = False
    public: Flag = False


class Us1940Model(Strict):
    """The synthetic nation of 1940."""

    kind: Literal["us1940"]
    seed: Whole = Field(1940, ge=0)
    scale: Share = Fraction(1)
    states: tuple[str, ...] = ()
    nurse_nva_0: Flag = False


class _ChosenModel(Strict):
    """Which attributes of people in dwellings make up the schema: by name, or as a schema."""

    attributes: tuple[str, ...] = ()
    schema_: str | None = Field(None, alias="schema")

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        if self.attributes and self.schema_ is not None:
            raise Wrong(found="attributes and schema", expected="one or the other")
        if (repeated := first_repeated(self.attributes)) is not None:
            raise Wrong(found=f"attribute {repeated!r} twice", expected="distinct attributes")
        known = {*self.known_attributes(), KIND}
        for name in self.attributes:
            if name not in known:
                raise Wrong(found=f"attribute {name!r}", expected=one_of(sorted(known)))
        return self

    def known_attributes(self) -> tuple[str, ...]:
        """Names that may be chosen, beside the kind of dwelling."""
        return ("age", "sex", "race", "hispanic", "tenure", "household_size")


class TownsModel(_ChosenModel):
    """A synthetic state of people in dwellings."""

    kind: Literal["towns"]
    seed: Whole = Field(2010, ge=0)
    people: Whole = Field(40_000, ge=FEWEST_PEOPLE, le=MOST_PEOPLE)
    counties: Whole | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _counties_have_people(self) -> TownsModel:
        if (self.counties or 1) > (most := most_counties(self.people)):
            raise Wrong(
                found=f"counties {self.counties}", expected=f"at most {most} for the people"
            )
        return self


class WorkloadSModel(_ChosenModel):
    """A plain made-up state on which swappers are timed."""

    kind: Literal["workload-s"]
    seed: Whole = Field(20261115, ge=0)
    households: Whole = Field(1_000_000, ge=1, le=MOST_HOUSEHOLDS)


class HouseholdsModel(_ChosenModel):
    """A table of persons, and one of dwellings, with keys."""

    kind: Literal["households"]
    persons: Place
    dwellings: Place | None = None
    key: str
    geography: GeographyModel
    attribute: tuple[AttributeModel, ...] = ()
    dwelling_attribute: tuple[AttributeModel, ...] = ()
    kind_column: str = ""
    kinds: tuple[str, ...] = Field(("household", "vacant"), min_length=2)
    size_column: str = ""
    areas: tuple[str, ...] = ()
    units: Place | None = None
    public: Flag = False
    totals: Literal["refuse", "keep"] = "refuse"

    def known_attributes(self) -> tuple[str, ...]:
        """Names that may be chosen, beside the kind of dwelling."""
        return tuple(a.name for a in (*self.attribute, *self.dwelling_attribute))

    @model_validator(mode="after")
    def _distinct(self) -> HouseholdsModel:
        for names, what in (
            (self.known_attributes(), "attribute"),
            (self.kinds, "kind"),
            (self.areas, "area"),
        ):
            if (repeated := first_repeated(names)) is not None:
                raise Wrong(found=f"{what} {repeated!r} twice", expected=f"distinct {what}s")
        for attribute in self.attribute:
            attribute.refuse_follows("person", "members")
        for attribute in self.dwelling_attribute:
            attribute.refuse_follows("dwelling", "size", "members")
        for attribute in (*self.attribute, *self.dwelling_attribute):
            attribute.refuse_size(size_column=self.size_column)
        return self


class IdentityModel(Strict):
    """The true counts."""

    name: Literal["identity"]


class NoisyModel(Strict):
    """A loss, and the unit of privacy that it is for."""

    epsilon: PositiveFraction
    unit: UnitOfPrivacy = DEFAULT_UNIT
    count_housemates: Flag = False
    largest_household: Whole | None = None

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        try:
            self.neighbours().checked(name="unit")
        except PrivacyError as error:
            raise wrong_from(error, source="unit") from None
        return self

    def neighbours(self) -> Neighbours:
        """Which databases the loss compares."""
        return Neighbours(
            unit=self.unit,
            count_housemates=self.count_housemates,
            largest_household=self.largest_household,
        )


class GeometricModel(NoisyModel):
    """Two-sided geometric noise on the leaf counts."""

    name: Literal["geometric"]


class RakedModel(NoisyModel):
    """Geometric noise at every level, raked from the top."""

    name: Literal["raked"]


class AveragedModel(NoisyModel):
    """The mean of several geometric releases."""

    name: Literal["averaged"]
    parts: Whole = Field(4, ge=1)


class HistogramModel(NoisyModel):
    """Geometric noise on the leaf cells, with negative counts set to 0 in a way that is said."""

    name: Literal["histogram"]
    clip: Literal["query", "cell"] = "query"


class SamplingModel(Strict):
    """A simple random sample, weighted."""

    name: Literal["sampling"]
    fraction: Share


class RunModel(Strict):
    """Where the run goes, and where its noise comes from."""

    out: Place
    noise: Literal["table", "opendp"] = "table"
    seed: Whole | None = Field(None, ge=0)
    ledger: Place | None = None
    dataset: str = ""
    new_content: Flag = False
    publish: tuple[Literal["microdata", "mdf", "measurements"], ...] = ()

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


class Config(Strict):
    """One run of ``headcount protect``. Counts are always published, more on request."""

    population: Annotated[
        MicrodataModel
        | CountsModel
        | UniformModel
        | Ipums1940Model
        | Us1940Model
        | TownsModel
        | WorkloadSModel
        | HouseholdsModel,
        Field(discriminator="kind"),
    ]
    mechanism: Annotated[
        IdentityModel
        | GeometricModel
        | RakedModel
        | AveragedModel
        | HistogramModel
        | SamplingModel
        | TopDownModel
        | SwappingModel
        | TargetedSwappingModel
        | PersonSwappingModel
        | SuppressionModel,
        Field(discriminator="name"),
    ]
    run: RunModel

    @model_validator(mode="after")
    def _more_needs_people(self) -> Config:
        sample = isinstance(self.mechanism, SamplingModel) and self.run.publish == ("microdata",)
        if self.run.publish and not (sample or isinstance(self.mechanism, TopDownModel)):
            raise Wrong(
                found=f"run.publish = {list(self.run.publish)} with {self.mechanism.name!r}",
                expected="publish only with mechanism 'topdown', whose counts are whole people, or "
                "['microdata'] with 'sampling'",
            )
        places = {"microdata", "mdf"} & set(self.run.publish)
        topdown = self.mechanism if isinstance(self.mechanism, TopDownModel) else None
        if places and topdown is not None and not topdown.places_people:
            raise Wrong(
                found=f"run.publish = {sorted(places)} without bounds from living quarters",
                expected="[[mechanism.bounds]] with caps: people are placed in living quarters, "
                "which are then published exactly and must fit",
            )
        return self


UNIONS: Mapping[str, Mapping[str, type[BaseModel]]] = {
    "population": {
        "microdata": MicrodataModel,
        "counts": CountsModel,
        "uniform": UniformModel,
        "ipums1940": Ipums1940Model,
        "us1940": Us1940Model,
        "towns": TownsModel,
        "workload-s": WorkloadSModel,
        "households": HouseholdsModel,
    },
    "mechanism": {
        "identity": IdentityModel,
        "geometric": GeometricModel,
        "raked": RakedModel,
        "averaged": AveragedModel,
        "histogram": HistogramModel,
        "sampling": SamplingModel,
        "topdown": TopDownModel,
        "swapping": SwappingModel,
        "targeted-swapping": TargetedSwappingModel,
        "person-swapping": PersonSwappingModel,
        "suppression": SuppressionModel,
    },
}
"""Tables whose keys depend on their kind or name."""
