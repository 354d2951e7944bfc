"""What the kinds of population have in common: reading, and knowing the same people again.

Each kind of ``[population]`` is a class with its keys as fields. A kind of one's own has ``kind``,
``read(progress)``, ``data_file`` and ``source_digest``; ``Generated`` and ``FromFile`` give all but
the first two.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Annotated, ClassVar

from headcount.domain import Domain
from headcount.engines import Engine
from headcount.errors import ConfigError, one_of
from headcount.fields import APART, VIEW, ByKey, FilePath, Named, Pairs
from headcount.geography import Geography
from headcount.geography.geography import ONE_PLACE, CodeColumns, Prefixes, geography_of
from headcount.population.columns import KeyColumn
from headcount.population.from_households import KIND, to_population
from headcount.population.people_table import UNITS_READ_OFF, RowChoice, Values, listed_geography
from headcount.population.pieces import table_digest
from headcount.population.population import Households, Population
from headcount.population.suspicious import Totals
from headcount.population.text_files import PLAIN, Format
from headcount.processes import Progress, silent
from headcount.schema import load_schema
from headcount.schema.load import SchemaFile
from headcount.schema.schema import first_repeated
from headcount.typed import making

GeographyTable = Annotated[CodeColumns | Prefixes, ByKey(columns=CodeColumns, column=Prefixes)]
"""``[population.geography]``: one column for each level, or one code with nested prefixes."""


def alias_of_leaf(geography: CodeColumns | Prefixes) -> dict[str, str]:
    """The lowest level by the name of the column that holds the codes of all levels."""
    if isinstance(geography, CodeColumns):
        return {}
    return {geography.column: geography.prefixes[-1][0]}


class Source(ABC):
    """A population that can be read. The fields of the class are the keys of ``[population]``."""

    kind: ClassVar[str]

    @abstractmethod
    def read(self, progress: Progress = silent) -> Population:
        """Read or generate the people."""

    def read_counts(self, engine: Engine, progress: Progress = silent) -> Population:
        """The same people for methods that need no more than how many there are in each cell."""
        return self.read(progress)

    def domain(self) -> Domain:
        """What is public, as far as it is known without looking at any person."""
        raise ConfigError(
            "population",
            place="kind",
            found=f"{self.kind!r}, whose places are read with its people",
            expected="a kind with a public list of units, or a generated one",
        )

    @property
    def places_from(self) -> Path | None:
        """The file of people or of their homes that ``domain`` reads places from, if it does."""
        return None

    @property
    @abstractmethod
    def data_file(self) -> Path | None:
        """The file with the people; None for a generated population."""

    @property
    def aliases(self) -> dict[str, str]:
        """Levels and attributes by the names of their columns, where a table has other names."""
        return {}

    @abstractmethod
    def source_digest(self) -> str:
        """A digest of the people's records, or of the recipe that makes them, for a ledger.

        It is the same whatever is chosen from the records.
        """


class Generated(Source):
    """People who are made up from a seed."""

    def domain(self) -> Domain:
        """That of people who do not exist, so that all of it is public."""
        return self.read().domain

    @property
    def data_file(self) -> Path | None:
        """None: there is no file."""
        return None

    def source_digest(self) -> str:
        """The digest of the recipe: all that makes the people, and nothing that chooses."""
        recipe = {"kind": self.kind, **making(self)}
        return sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()


class FromFile(Source):
    """People in a table, CSV or Parquet, in the field ``file``."""

    file: FilePath

    @property
    def data_file(self) -> Path:
        """The table of people."""
        return self.file

    def source_digest(self) -> str:
        """The digest of the table's rows in any order, over all columns."""
        return table_digest(self.data_file)


@dataclass(frozen=True, kw_only=True)
class FromTables(Source):
    """People in tables of any known format, of which some rows may be chosen.

    where
        format            how the files are written, where headcount must be told
        include           only rows with one of these values, for each column
        exclude           no rows with one of these values, for any column
        units             the public list of units
        units_from_data   that the list was itself read from the data: the guarantee says so
        public            whether the data are public: no "do not publish" banner
        person_id         column of an id that a person has in every edition of the data: words of
                          persons are made from it, for cell keys. It is no attribute
        record_keys       column of keys that an office has given persons, instead
        largest_record_key  the largest of these: 255 or 4095
    """

    format: Annotated[Format, APART] = PLAIN
    include: Annotated[Values, Named(tuple[str, ...])] = field(default_factory=Pairs)
    exclude: Annotated[Values, Named(tuple[str, ...])] = field(default_factory=Pairs)
    units: FilePath | None = None
    units_from_data: bool = False
    public: bool = False
    person_id: str = ""
    record_keys: str = ""
    largest_record_key: int = 255

    def __post_init__(self) -> None:
        _ = self.keys  # refuses settings that contradict each other
        if self.units_from_data and self.units is None:
            raise ConfigError(
                "population",
                place="units_from_data",
                found="true without units",
                expected="a list that it is about",
            )

    def places(self, source: CodeColumns | Prefixes, totals: Totals) -> Geography:
        """The places of the list of units; where no column says any, everybody is in the whole."""
        if self.units is None and not source.columns:
            return geography_of(ONE_PLACE, source, name="population")
        if self.units is None:
            raise ConfigError(
                "population",
                place="units",
                found="no list",
                expected='units = "FILE", a list of all units: without it the places are '
                "known from the people alone",
            )
        return listed_geography(self.units, source, totals, self.format)

    def places_read_off(self, source: CodeColumns | Prefixes) -> tuple[str, ...]:
        """That the list of units was read from the data, if it was."""
        from_data = self.units is None or self.units_from_data
        return UNITS_READ_OFF if from_data and source.columns else ()

    @property
    def keys(self) -> KeyColumn | None:
        """The column that words of persons are made from, if there is one."""
        return KeyColumn.of(
            person_id=self.person_id,
            record_keys=self.record_keys,
            largest=self.largest_record_key,
        )

    @property
    def choice(self) -> RowChoice:
        """Which rows are read."""
        return RowChoice(self.include, self.exclude)

    @property
    @abstractmethod
    def data_file(self) -> Path:
        """The table of people."""

    def source_digest(self) -> str:
        """The digest of the table's rows in any order, over all columns."""
        return table_digest(self.data_file, self.format)


@dataclass(frozen=True, kw_only=True)
class InDwellings:
    """People in dwellings, and which of their attributes make up the schema.

    where
        attributes   by name; by default all of the persons
        schema       instead: a schema, shipped or a file, into which they are recoded
    """

    attributes: Annotated[tuple[str, ...], VIEW] = ()
    schema: Annotated[str | None, SchemaFile()] = None

    def __post_init__(self) -> None:
        if self.attributes and self.schema is not None:
            raise ConfigError(
                "population", found="attributes and schema", expected="one or the other"
            )
        refuse_twice(self.attributes, "attribute")
        known = sorted({*self.known_attributes(), KIND})
        for name in self.attributes:
            if name not in known:
                raise ConfigError("population", found=f"attribute {name!r}", expected=one_of(known))

    def known_attributes(self) -> tuple[str, ...]:
        """Names that may be chosen, beside the kind of dwelling."""
        return ("age", "sex", "race", "hispanic", "tenure", "household_size")

    def chosen(self, households: Households) -> Population:
        """The people with the attributes that were chosen."""
        schema = None if self.schema is None else load_schema(self.schema)
        return to_population(households, self.attributes or None, schema=schema)


def refuse_overlap(overlap: int | None) -> None:
    """Refuse a number of times that a person cannot be counted."""
    if overlap is not None and overlap < 1:
        raise ConfigError(
            "population",
            place="overlap",
            found=str(overlap),
            expected="in how many cells or rows a person may be counted: 1 or more",
        )


def refuse_twice(names: tuple[str, ...], what: str) -> None:
    """Refuse a name that stands twice."""
    if (repeated := first_repeated(names)) is not None:
        raise ConfigError(
            "population", found=f"{what} {repeated!r} twice", expected=f"distinct {what}s"
        )
