"""``kind = "households"``: people in dwellings, with keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from headcount.errors import ConfigError
from headcount.fields import FilePath
from headcount.geography import Geography
from headcount.population.attribute_column import AttributeColumn
from headcount.population.household_readers import KINDS, read_households
from headcount.population.households import Households
from headcount.population.people_table import left_out_by
from headcount.population.population import Population
from headcount.population.sources._base import (
    FromTables,
    GeographyTable,
    InDwellings,
    refuse_twice,
)
from headcount.progress import Progress, silent
from headcount.schema import Follows, Schema


@dataclass(frozen=True, kw_only=True)
class HouseholdTables(InDwellings, FromTables):
    """A table of persons, and one of dwellings.

    where
        persons              one row per person
        dwellings            one row per dwelling; without it its columns are read from the persons
        key                  the column of the dwelling's key, in both files
        geography            columns of places, of the dwellings
        attribute            columns of attributes of persons
        dwelling_attribute   columns of attributes of dwellings
        kind_column          the kind of each dwelling
        kinds                its values: household, vacant, then facilities
        size_column          number of people in each dwelling, to be checked
        areas                columns of areas that cut across the tree
        totals               what to do with rows that look like totals
    """

    kind = "households"
    persons: FilePath
    dwellings: FilePath | None = None
    key: str
    geography: GeographyTable
    attribute: tuple[AttributeColumn, ...] = ()
    dwelling_attribute: tuple[AttributeColumn, ...] = ()
    kind_column: str = ""
    kinds: tuple[str, ...] = KINDS
    size_column: str = ""
    areas: tuple[str, ...] = ()
    totals: Literal["refuse", "keep"] = "refuse"

    def __post_init__(self) -> None:
        InDwellings.__post_init__(self)
        FromTables.__post_init__(self)
        refuse_twice(self.known_attributes(), "attribute")
        refuse_twice(self.kinds, "kind")
        refuse_twice(self.areas, "area")
        if len(self.kinds) < 2:
            raise ConfigError(
                "population",
                place="kinds",
                found=str(list(self.kinds)),
                expected="two or more: household, vacant, then facilities",
            )
        own = (*self.attribute, *self.dwelling_attribute)
        if self.keys is not None:
            self.keys.refuse_shared(self.key, *self.geography.columns, *(one.column for one in own))
        for one in self.attribute:
            one.refuse_follows(Follows.PERSON, Follows.MEMBERS)
        for one in self.dwelling_attribute:
            one.refuse_follows(Follows.DWELLING, Follows.SIZE, Follows.MEMBERS)
        for one in own:
            one.refuse_size(size_column=self.size_column)

    @property
    def data_file(self) -> Path:
        """The table of persons."""
        return self.persons

    def known_attributes(self) -> tuple[str, ...]:
        """Names that may be chosen, beside the kind of dwelling."""
        return tuple(a.name for a in (*self.attribute, *self.dwelling_attribute))

    def domain(self) -> tuple[Schema, Geography]:
        """The cells that the attributes make up, and the places of the list of units."""
        columns = {"attribute": self.attribute, "dwelling_attribute": self.dwelling_attribute}
        for key, those in columns.items():
            for one in those:
                if one.known_levels is None:
                    raise ConfigError(
                        "population",
                        place=f"{key} {one.name!r}",
                        found="no levels",
                        expected="levels = [...]: without a list they are known from the people "
                        "alone",
                    )
        places = self.places(self.geography, self.totals)
        return self.chosen(self._without_people(places)).schema, places

    def nobody(self) -> Population:
        """These cells and places with nobody in them, and all that a guarantee says of them."""
        return self.chosen(self._without_people(self.domain()[1]))

    def _without_people(self, places: Geography) -> Households:
        """The attributes and places as they are read, with nobody in them."""
        own = (*self.attribute, *self.dwelling_attribute)
        levels = (said for one in own for said in one.read_off)
        persons, dwellings = (
            tuple(one.attribute(one.known_levels or ()) for one in those)
            for those in (self.attribute, self.dwelling_attribute)
        )
        none = np.empty(0, dtype=np.int32)
        return Households(
            str(self.persons),
            places,
            persons,
            dwellings,
            self.kinds,
            block=none,
            kind=none.astype(np.int8),
            first=np.zeros(1, dtype=np.int64),
            persons={one.name: none for one in persons},
            dwellings={one.name: none for one in dwellings},
            public=self.public,
            read_off=(*self.places_read_off, *levels),
            left_out=left_out_by(self.choice, own),
        )

    def read(self, progress: Progress = silent) -> Population:
        """Read the people in their dwellings."""
        households = read_households(
            self.persons,
            self.dwellings,
            key=self.key,
            geography=self.geography,
            attributes=self.attribute,
            dwelling_attributes=self.dwelling_attribute,
            kind=self.kind_column,
            kinds=self.kinds,
            size=self.size_column,
            areas=self.areas,
            units=self.units,
            units_from_data=self.units_from_data,
            public=self.public,
            totals=self.totals,
            keys=self.keys,
            choice=self.choice,
            form=self.format,
        )
        return self.chosen(households)
