"""From a typed config to the objects it describes."""

from __future__ import annotations

from dataclasses import replace

from headcount.config.models import (
    AveragedModel,
    Config,
    CountsModel,
    GeographyModel,
    GeometricModel,
    IdentityModel,
    Ipums1940Model,
    MicrodataModel,
    RakedModel,
    SamplingModel,
    UniformModel,
    Us1940Model,
)
from headcount.config.swapping import PersonSwappingModel, SwappingModel
from headcount.config.topdown import TopDownModel
from headcount.geography.build import CodeColumns, GeographySource, Prefixes
from headcount.mechanisms import Averaged, Geometric, Identity, Mechanism, Raked, Sampling
from headcount.population import Population, uniform
from headcount.population.ipums1940 import read_ipums1940
from headcount.population.readers import (
    AttributeColumn,
    read_counts,
    read_microdata,
    read_quarters,
)
from headcount.population.us1940 import us1940
from headcount.progress import Progress, silent
from headcount.schema import impossible, load_schema


def build_mechanism(config: Config) -> Mechanism:
    """The mechanism a config names."""
    match config.mechanism:
        case IdentityModel():
            return Identity()
        case GeometricModel(epsilon=epsilon):
            return Geometric(epsilon=epsilon)
        case RakedModel(epsilon=epsilon):
            return Raked(epsilon=epsilon)
        case AveragedModel(epsilon=epsilon, parts=parts):
            return Averaged(epsilon=epsilon, parts=parts)
        case SamplingModel(fraction=fraction):
            return Sampling(fraction=fraction)
        case TopDownModel() | SwappingModel() | PersonSwappingModel() as model:
            return model.build()


def build_population(config: Config, *, progress: Progress = silent) -> Population:
    """Read or generate the population a config describes."""
    match config.population:
        case UniformModel() as model:
            return uniform(people=model.people, depth=model.depth, mean=model.mean, seed=model.seed)
        case Us1940Model() as model:
            people, quarters = us1940(
                seed=model.seed, scale=float(model.scale), states=model.states or None
            )
            return replace(people, quarters=quarters)
        case Ipums1940Model() as model:
            people, quarters = read_ipums1940(
                model.file, orphans=model.orphans, public=model.public, progress=progress
            )
            return replace(people, quarters=quarters)
        case MicrodataModel() as model:
            return _with_quarters(_microdata(model), model)
        case CountsModel() as model:
            return _with_quarters(_counts(model), model)


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


def _counts(model: CountsModel) -> Population:
    return read_counts(
        model.file,
        schema=load_schema(model.schema_),
        geography=_geography(model.geography),
        columns=model.cells,
        units=model.units,
        public=model.public,
    )


def _microdata(model: MicrodataModel) -> Population:
    return read_microdata(
        model.file,
        attributes=[
            AttributeColumn(name=a.name, column=a.column or a.name, levels=a.levels)
            for a in model.attribute
        ],
        geography=_geography(model.geography),
        structural_zeros=tuple(impossible(zero) for zero in model.structural_zero),
        units=model.units,
        public=model.public,
    )


def _geography(model: GeographyModel) -> GeographySource:
    if model.columns:
        return CodeColumns(columns=model.columns, root=model.root, local_codes=model.local_codes)
    return Prefixes(column=model.column, lengths=tuple(model.prefixes.items()), root=model.root)
