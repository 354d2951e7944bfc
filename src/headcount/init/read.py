"""A population from a table in one call: a data frame, or a file as people have it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from headcount.errors import InputError, did_you_mean
from headcount.fields import Pairs
from headcount.geography.geography import GeographyLike, geography_source
from headcount.init.beside import looked_at_all
from headcount.init.decide import decided
from headcount.init.doubts import refuse_other_size
from headcount.init.proposal import Question, asked, found, number_of, population_of
from headcount.init.told import KINDS, Blank, FileKind, Told, as_arguments
from headcount.population import Population
from headcount.population.columns import AttributeColumn, KeyColumn
from headcount.population.tables import table_of

log = logging.getLogger(__name__)

Missing = Literal["refuse", "level", "drop"]
Attributes: TypeAlias = str | Sequence[str | AttributeColumn] | Mapping[str, object]

HOW = (
    'names of columns, ["sex", "age"], or what to make of each: {"sex": None, "age": '
    'hc.bins(0, 18, 65), "race": hc.levels("white", "black")}'
)


def bins(
    *starts: int | str | Sequence[int],
    column: str = "",
    missing: Missing = "refuse",
    missing_values: Sequence[str] = (),
) -> AttributeColumn:
    """Years gathered into levels: ``bins(0, 18, 65)``, or ``bins("five-year")``.

    where
        starts           where bins begin, or the name of a list of bins
        column           the column, where it is not called like the attribute
        missing          rows without a value: refuse, give them a level, or drop
        missing_values   values that mean that there is none, such as "999"
    """
    given = starts[0] if len(starts) == 1 and not isinstance(starts[0], int) else starts
    return AttributeColumn(
        name="",
        column=column,
        bins=list(given) if isinstance(given, range) else given,
        missing=missing,
        missing_values=tuple(missing_values),
    )


def levels(
    *names: str | Mapping[str, str] | Sequence[str],
    column: str = "",
    missing: Missing = "refuse",
    missing_values: Sequence[str] = (),
) -> AttributeColumn:
    """The public list of an attribute's levels, in their order.

    ``levels("male", "female")`` if the values are the levels, and
    ``levels({"1": "male", "2": "female"})`` if they are codes. ``column``, ``missing`` and
    ``missing_values`` are as for ``bins``.
    """
    mapped: dict[str, str] = {}
    given: Any = names
    if len(names) == 1 and isinstance(names[0], Mapping):
        mapped = {str(value): str(level) for value, level in names[0].items()}
        given = ()
    elif len(names) == 1 and not isinstance(names[0], str):
        (given,) = names
    if not mapped and (not given or not all(isinstance(one, str) for one in given)):
        raise InputError(
            "levels",
            found=", ".join(map(repr, names)) or "nothing",
            expected='texts, levels("male", "female"), or codes: levels({"1": "male"})',
        )
    return AttributeColumn(
        name="",
        column=column,
        levels=None if mapped else tuple(given),
        values=Pairs.of(mapped),
        missing=missing,
        missing_values=tuple(map(str, missing_values)),
    )


def read(
    data: object,
    *,
    geography: GeographyLike | None = None,
    attributes: Attributes | None = None,
    kind: FileKind | None = None,
    count: str = "",
    household: str = "",
    universe: str = "",
    not_counts: Sequence[str] = (),
    only: Mapping[str, Sequence[str]] | None = None,
    leave_out: Mapping[str, Sequence[str]] | None = None,
    blank_counts: Blank = "",
    ages: Literal["", "years", "codes"] = "",
    sheet: str = "",
    units: object = None,
    public: bool = False,
    name: str = "",
    person_id: str = "",
    record_keys: str = "",
    largest_record_key: int = 255,
) -> Population:
    """Read people from a data frame or a file; what is not said is found as by ``headcount init``.

    where
        data         a path, several that belong together (persons and households, counts and
                     places, a codebook), or anything with the Arrow stream interface: a frame of
                     polars, pandas, pyarrow or DuckDB
        geography    columns of places from the top down, or a column of codes with where its
                     levels end: ``{"geoid": {"state": 2, "county": 5}}``; [] for one place
        attributes   names of columns, or for each name what to make of it: ``bins``, ``levels``,
                     or None for what is found
        kind         "people", "dwellings", "long" or "wide", where it is not found rightly
        count        the column that says for how many people a row stands
        household    the column that people of one dwelling share
        universe     of columns that count people, only those with this in their names
        not_counts   columns to leave aside
        only         rows to read, by the values of columns: ``{"year": ["2020"]}``
        leave_out    rows not to read, likewise
        blank_counts "zero" if counts that are not there are 0, "withheld" if somebody took them out
        ages         whether small numbers in a column of ages are "years", or "codes" of groups
        sheet        the sheet of an Excel file with several
        units        the public list of units, a table with the columns of places; without it
                     units are read from the data, and every guarantee says so
        public       whether the data are public
        name         what messages call the data
        person_id    the column of an id that a person has in every edition, for cell keys
        record_keys  the column of keys that an office has given persons, instead
        largest_record_key  the largest of these: 255 or 4095

    What is doubtful is refused, and the message names the argument that decides it.
    What was decided, and why, is logged (logger ``headcount.init.read``, level INFO).
    """
    if kind is not None and kind not in KINDS:
        raise InputError("read", place="kind", found=repr(kind), expected=did_you_mean(kind, KINDS))
    keys = KeyColumn.of(person_id=person_id, record_keys=record_keys, largest=largest_record_key)
    if keys is not None and count:
        keys.refuse_counted(f"it beside counts in {count!r}")
    given = _given(attributes)
    told = Told(
        places=() if geography is None else _places(geography),
        kind=kind,
        count=count,
        key=household,
        attributes=None if given is None else {one: spec.column for one, spec in given.items()},
        coded=[one for one, spec in (given or {}).items() if _says(spec)],
        universe=universe,
        not_counts=tuple(not_counts),
        only=only or {},
        leave_out=leave_out or {},
        blank_counts=blank_counts,
        ages=ages,
        sheet=sheet,
    )
    several = isinstance(data, list | tuple)
    tables = [table_of(one, name=name) for one in (data if several else [data])]  # type: ignore[attr-defined]
    if not tables:
        raise InputError("read", found="no table", expected="a path, or a data frame")
    with _naming_arguments():
        with asked(None, told, tables):
            looked = looked_at_all(tables, told)
        with asked(looked, told, tables):
            made = decided(looked, told)
    for note in made.notes:
        log.info("%s", note)
    known = given or {}
    columns = [
        known[one.name] if _says(known.get(one.name)) else found(one)
        for one in made.attributes
        if given is not None or keys is None or one.column != keys.column
    ]
    if keys is not None:
        keys.refuse_shared(*made.geography.columns, *(one.column for one in columns))
    if made.kind == "wide" and given is not None:
        raise InputError(
            str(made.look.path),
            place="attributes",
            found="attributes of a table with a column of counts for each group",
            expected="none: they come from the names of its columns (or kind=, if it is no such "
            "table, or read_counts with a schema)",
        )
    listed = None if units is None else table_of(units)
    population = population_of(made, columns, listed, keys, public=public)
    with _naming_arguments(), asked(looked, told, tables):
        refuse_other_size(made, number_of(population), told)
    return population


@contextmanager
def _naming_arguments() -> Iterator[None]:
    """Name arguments in a message, in place of the options of the command."""
    try:
        yield
    except Question as question:
        raise Question(question, question.ways, arguments=True) from None
    except InputError as error:
        expected = as_arguments(error.expected)
        error.args = (str(error).removesuffix(error.expected) + expected,)
        error.expected = expected
        raise


def _places(geography: GeographyLike) -> Any:
    """Plain columns are looked at as ``init`` does; a geography in full is taken as it is."""
    if isinstance(geography, list | tuple) and all(isinstance(one, str) for one in geography):
        return tuple(geography) or geography_source(())
    return (geography,) if isinstance(geography, str) else geography_source(geography)


def _given(attributes: Attributes | None) -> dict[str, AttributeColumn] | None:
    """What is said of each attribute, by its name; None where nothing is."""
    if attributes is None:
        return None
    if isinstance(attributes, str):
        attributes = [attributes]
    if isinstance(attributes, Mapping):
        pairs = [(str(one), _said(str(one), spec)) for one, spec in attributes.items()]
    elif isinstance(attributes, Sequence):
        pairs = [_named(one) for one in attributes]
    else:
        raise InputError("read", place="attributes", found=repr(attributes), expected=HOW)
    return {one: replace(spec, name=one) for one, spec in pairs}


def _named(one: object) -> tuple[str, AttributeColumn]:
    if isinstance(one, str):
        return one, AttributeColumn(name=one)
    if isinstance(one, AttributeColumn) and one.name:
        return one.name, one
    raise InputError("read", place="attributes", found=repr(one), expected=HOW)


def _said(name: str, spec: object) -> AttributeColumn:
    if spec is None:
        return AttributeColumn(name=name)
    if isinstance(spec, AttributeColumn):
        return spec
    if isinstance(spec, Mapping) or (isinstance(spec, list | tuple) and spec):
        whole = isinstance(spec, list | tuple) and all(type(one) is int for one in spec)
        return bins(spec) if whole else levels(spec)  # type: ignore[arg-type]
    raise InputError(
        "read", place=f"attributes, {name!r}", found=repr(spec), expected=f"None, or {HOW}"
    )


def _says(spec: AttributeColumn | None) -> bool:
    """Whether a specification says how values become levels."""
    return spec is not None and spec.known_levels is not None
