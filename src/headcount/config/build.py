"""From a typed config to the objects it describes."""

from __future__ import annotations

from headcount.config.models import (
    AveragedModel,
    Config,
    CountsModel,
    GeographyModel,
    GeometricModel,
    IdentityModel,
    MicrodataModel,
    RakedModel,
    UniformModel,
)
from headcount.config.topdown import TopDownModel
from headcount.geography.build import CodeColumns, GeographySource, Prefixes
from headcount.mechanisms import Averaged, Geometric, Identity, Mechanism, Raked
from headcount.population import Population, uniform
from headcount.population.readers import AttributeColumn, read_counts, read_microdata
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
        case TopDownModel() as model:
            return model.build()


def build_population(config: Config) -> Population:
    """Read or generate the population a config describes."""
    match config.population:
        case UniformModel(people=people, depth=depth, mean=mean, seed=seed):
            return uniform(people=people, depth=depth, mean=mean, seed=seed)
        case MicrodataModel() as model:
            return _microdata(model)
        case CountsModel() as model:
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
