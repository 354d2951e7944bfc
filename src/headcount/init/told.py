"""Options by which a user says how a file is to be read, before or after a look at it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from headcount.errors import ConfigError, one_of
from headcount.geography.geography import CodeColumns, GeographySource, Prefixes
from headcount.init.attributes import attribute_name
from headcount.population.columns import MARKS
from headcount.population.text_files import Format

GEOGRAPHY = (CodeColumns, Prefixes)

FileKind = Literal["people", "dwellings", "long", "wide"]

Blank = Literal["", "zero", "withheld"]
"""What counts are that are not there, if somebody says it."""

KINDS: dict[FileKind, str] = {
    "people": "one row for each person",
    "dwellings": "one row for each person, with the key of the dwelling",
    "long": "one row for each place and group, with a number of people",
    "wide": "one row for each place, with a column of counts for each group",
}


OPTIONS = {
    "places": "geography",
    "no-places": "geography",
    "key": "household",
    **{one: one.replace("-", "_") for one in ("kind", "count", "attributes", "universe", "only")},
    **{one: one.replace("-", "_") for one in ("not-counts", "leave-out", "blank-counts", "ages")},
    "sheet": "sheet",
}
"""Options of ``headcount init``, each with the argument of ``read`` that says the same."""

_OPTION = re.compile(
    rf"--({'|'.join(sorted(OPTIONS, key=len)[::-1])})\b(?: (?:\"([^\"]*)\"|"
    r"(people|dwellings|long|wide|zero|withheld|years|codes|[A-Z]{3,})\b))?"
)


def as_arguments(text: str) -> str:
    """A message that names options, with the arguments of ``read`` in their place."""

    def argument(found: re.Match[str]) -> str:
        option, value = found[1], found[2] or found[3]
        name = OPTIONS[option]
        if option == "no-places":
            return f"{name}=[]"
        if value is None:
            return name
        if option in ("places", "attributes", "not-counts"):
            return f"{name}={json.dumps(_names(value), ensure_ascii=False)}"
        if option in ("only", "leave-out"):
            return f"{name}={json.dumps(_values(option, [value]), ensure_ascii=False)}"
        return f"{name}={json.dumps(value, ensure_ascii=False)}"

    return _OPTION.sub(argument, text)


def options_in(text: str) -> list[tuple[tuple[str, str], ...]]:
    """The answers that a message names: options with their values; side by side they are one."""
    found: list[tuple[tuple[str, str], ...]] = []
    end = -1
    for one in _OPTION.finditer(text):
        said = (one[1], one[2] or one[3] or "")
        beside = end >= 0 and not text[end : one.start()].strip()
        found.append((*(found.pop() if beside else ()), said))
        end = one.end()
    return list(dict.fromkeys(found))


@dataclass(frozen=True, kw_only=True)
class Told:
    """What is known before the look; what is not said here is found.

    where
        places       columns that say where, from the top down, or a geography
        kind         what the table is
        count        the column that says for how many people a row stands
        key          the column that people of one dwelling share
        attributes   the column of each attribute, by its name
        coded        those of them whose bins, levels or codes are said too
        universe     which columns of a wide table count the people: those called so, or whose
                     names have it as a part
        not_counts   columns that are left aside
        only         rows that are read, by the values of columns; an empty text is no value
        leave_out    rows that are not
        blank_counts "zero" if counts that are not there are 0, "withheld" if somebody took them out
        sheet        the sheet of a file that has several
        form         how the file is written, as far as that is known
        ages         whether small numbers in a column of ages are "years" or "codes" of groups
    """

    places: Sequence[str] | GeographySource = ()
    kind: FileKind | None = None
    count: str = ""
    key: str = ""
    attributes: Mapping[str, str] | None = None
    coded: Collection[str] = ()
    universe: str = ""
    not_counts: Sequence[str] = ()
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)
    leave_out: Mapping[str, Sequence[str]] = field(default_factory=dict)
    blank_counts: Blank = ""
    ages: str = ""
    sheet: str = ""
    form: Format | None = None

    @classmethod
    def by_words(
        cls,
        *,
        kind: str = "",
        places: str = "",
        no_places: bool = False,
        count: str = "",
        key: str = "",
        attributes: str = "",
        universe: str = "",
        not_counts: str = "",
        only: Sequence[str] = (),
        leave_out: Sequence[str] = (),
        blank_counts: str = "",
        ages: str = "",
        sheet: str = "",
    ) -> Told:
        """What somebody has typed, names separated by commas; what is empty is found."""
        kinds: dict[str, FileKind] = {one: one for one in KINDS}
        if kind and kind not in kinds:
            raise ConfigError("kind", found=repr(kind), expected=one_of(KINDS))
        for name, said, known in (
            ("blank_counts", blank_counts, MARKS),
            ("ages", ages, ("years", "codes")),
        ):
            if said and said not in known:
                raise ConfigError(name, found=repr(said), expected=one_of(known))
        if no_places and places:
            raise ConfigError("no_places", found="it beside places", expected="one or the other")
        columns = _names(attributes)
        return cls(
            places=CodeColumns(columns=()) if no_places else _names(places),
            kind=kinds.get(kind),
            count=count if kind in ("long", "") else "",
            key=key if kind in ("dwellings", "") else "",
            attributes={attribute_name(one, set()): one for one in columns} if columns else None,
            universe=universe,
            not_counts=_names(not_counts),
            only=_values("only", only),
            leave_out=_values("leave_out", leave_out),
            blank_counts=blank_counts,  # type: ignore[arg-type]
            ages=ages,
            sheet=sheet,
        )

    def and_also(self, options: Sequence[tuple[str, str]]) -> Told:
        """The same with what more options say."""
        more: dict[str, Any] = {}
        for option, value in options:
            name = option.replace("-", "_")
            if option == "no-places":
                more["places"] = CodeColumns(columns=())
            elif option == "attributes":
                more[name] = {attribute_name(one, set()): one for one in _names(value)}
            elif option == "not-counts":
                more[name] = (*self.not_counts, *_names(value))
            elif option in ("only", "leave-out"):
                more[name] = {**getattr(self, name), **_values(option, [value])}
            else:
                more[name] = _names(value) if option == "places" else value
        return replace(self, **more)

    def columns(self) -> tuple[str, ...]:
        """The columns that are named, which must exist."""
        places = self.places.columns if isinstance(self.places, GEOGRAPHY) else self.places
        attributes = (self.attributes or {}).values()
        named = (*places, self.count, self.key, *attributes, *self.only, *self.leave_out)
        return tuple(one for one in (*named, *self.not_counts) if one)


def _names(typed: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in typed.split(",") if one.strip())


def _values(option: str, typed: Sequence[str]) -> dict[str, list[str]]:
    """Columns with values, from "year=2020" and the like."""
    found: dict[str, list[str]] = {}
    for one in typed:
        column, sign, value = one.partition("=")
        if not sign:
            raise ConfigError(option, found=repr(one), expected='"COLUMN=VALUE"')
        found.setdefault(column.strip(), []).append(value.strip())
    return found
