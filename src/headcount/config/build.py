"""From a typed config to the objects it describes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headcount.config.models import (
    AttributeModel,
    AveragedModel,
    Config,
    CountsModel,
    GeographyModel,
    GeometricModel,
    HistogramModel,
    HouseholdsModel,
    IdentityModel,
    Ipums1940Model,
    MicrodataModel,
    NoisyModel,
    RakedModel,
    SamplingModel,
    TownsModel,
    UniformModel,
    Us1940Model,
    WorkloadSModel,
)
from headcount.config.suppression import SuppressionModel
from headcount.config.swapping import (
    PersonSwappingModel,
    SwappingModel,
    TargetedSwappingModel,
)
from headcount.config.topdown import TopDownModel
from headcount.geography.build import CodeColumns, GeographySource, Prefixes
from headcount.mechanisms import Averaged, Geometric, Identity, Mechanism, Raked, Sampling
from headcount.mechanisms.histogram import Histogram
from headcount.population import Households, Population, uniform
from headcount.population.from_households import to_population
from headcount.population.household_readers import read_households
from headcount.population.ipums1940 import read_ipums1940
from headcount.population.readers import (
    AttributeColumn,
    read_counts,
    read_microdata,
    read_quarters,
)
from headcount.population.towns import towns
from headcount.population.us1940 import us1940
from headcount.population.workload_s import workload_s
from headcount.progress import Progress, silent
from headcount.schema import Follows, impossible, load_schema


def build_mechanism(config: Config) -> Mechanism:
    """The mechanism a config names."""
    match config.mechanism:
        case IdentityModel():
            return Identity()
        case GeometricModel() as model:
            return Geometric(**_noisy(model))
        case RakedModel() as model:
            return Raked(**_noisy(model))
        case AveragedModel() as model:
            return Averaged(parts=model.parts, **_noisy(model))
        case HistogramModel() as model:
            return Histogram(clip=model.clip, **_noisy(model))
        case SamplingModel(fraction=fraction):
            return Sampling(fraction=fraction)
        case TopDownModel() | SwappingModel() as model:
            return model.build()
        case TargetedSwappingModel() | PersonSwappingModel() | SuppressionModel() as model:
            return model.build()


def _noisy(model: NoisyModel) -> dict[str, Any]:
    return {"epsilon": model.epsilon, **vars(model.neighbours())}


def build_population(config: Config, *, progress: Progress = silent) -> Population:
    """Read or generate the population a config describes."""
    match config.population:
        case UniformModel() as model:
            return uniform(people=model.people, depth=model.depth, mean=model.mean, seed=model.seed)
        case Us1940Model() as model:
            people, quarters = us1940(
                seed=model.seed,
                scale=float(model.scale),
                states=model.states or None,
                nurse_nva_0=_nurse(config),
            )
            return replace(people, quarters=quarters)
        case Ipums1940Model() as model:
            people, quarters = read_ipums1940(
                model.file,
                orphans=model.orphans,
                nurse_nva_0=_nurse(config),
                public=model.public,
                progress=progress,
            )
            return replace(people, quarters=quarters)
        case TownsModel() as model:
            state = towns(seed=model.seed, people=model.people, counties=model.counties)
            return _chosen(state, model)
        case WorkloadSModel() as model:
            return _chosen(workload_s(seed=model.seed, households=model.households), model)
        case HouseholdsModel() as model:
            return _chosen(_households(model), model)
        case MicrodataModel() as model:
            return _with_quarters(_microdata(model), model)
        case CountsModel() as model:
            return _with_quarters(_counts(model), model)


def _nurse(config: Config) -> bool:
    """Whether the schema of 1940 has the structural zero nurse_nva_0: either table may say so."""
    return any(
        getattr(table, "nurse_nva_0", False) for table in (config.population, config.mechanism)
    )


def _with_quarters(people: Population, model: MicrodataModel | CountsModel) -> Population:
    if (table := model.quarters) is None:
        return people
    quarters = read_quarters(
        table.file,
        population=people,
        geography=_geography(model.geography),
        attribute=table.attribute,
        columns=table.columns,
        vacant=table.vacant,
    )
    return replace(people, quarters=quarters)


def _chosen(
    households: Households, model: TownsModel | WorkloadSModel | HouseholdsModel
) -> Population:
    schema = None if model.schema_ is None else load_schema(model.schema_)
    return to_population(households, model.attributes or None, schema=schema)


def _households(model: HouseholdsModel) -> Households:
    return read_households(
        model.persons,
        model.dwellings,
        key=model.key,
        geography=_geography(model.geography),
        attributes=_columns(model.attribute),
        dwelling_attributes=_columns(model.dwelling_attribute),
        kind=model.kind_column,
        kinds=model.kinds,
        size=model.size_column,
        areas=model.areas,
        units=model.units,
        public=model.public,
        totals=model.totals,
    )


def _counts(model: CountsModel) -> Population:
    return read_counts(
        model.file,
        schema=load_schema(model.schema_),
        geography=_geography(model.geography),
        columns=model.cells,
        units=model.units,
        public=model.public,
        totals=model.totals,
        sums=model.sums,
    )


def _microdata(model: MicrodataModel) -> Population:
    return read_microdata(
        model.file,
        attributes=_columns(model.attribute),
        geography=_geography(model.geography),
        structural_zeros=tuple(impossible(zero) for zero in model.structural_zero),
        units=model.units,
        public=model.public,
        totals=model.totals,
        not_counts=model.not_counts,
    )


def _columns(attributes: Sequence[AttributeModel]) -> list[AttributeColumn]:
    return [
        AttributeColumn(
            name=a.name,
            column=a.column or a.name,
            levels=a.levels,
            real_levels=a.real_levels,
            follows=None if a.follows is None else Follows(a.follows),
        )
        for a in attributes
    ]


def _geography(model: GeographyModel) -> GeographySource:
    if model.columns:
        return CodeColumns(columns=model.columns, root=model.root, local_codes=model.local_codes)
    return Prefixes(
        column=model.column,
        lengths=tuple(model.prefixes.items()),
        root=model.root,
        longer=model.longer,
    )
