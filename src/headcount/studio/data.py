"""The screen of the data: what ``headcount init`` proposes, and the config beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from starlette.responses import Response
from tomlkit.items import AoT, Item, Table

from headcount.errors import ConfigError, HeadcountError, InputError, one_of
from headcount.init.attributes import attribute_name, chosen
from headcount.init.decide import KINDS, Draft, FileKind, Told, draft
from headcount.init.look import look
from headcount.init.write import write_draft
from headcount.population.format import Format
from headcount.population.tables import header_of
from headcount.schema.bins import NAMED
from headcount.studio.app import Asked, Studio, require
from headcount.toml_files import parse_toml
from headcount.typed import from_table

MISSING = {
    "refuse": "refuse the file",
    "level": "give them a level of their own",
    "drop": "leave them out",
}
ROLES = {
    "": "left out",
    "place": "a place",
    "attribute": "an attribute",
    "count": "for how many people a row stands",
    "key": "which dwelling somebody lives in",
    "person_id": "an id that a person has in every edition",
}
"""What a column of the file may be. Those that are keys of [population] have the key's name."""

FILES = ("file", "persons")
"""Keys of the table of people, by kind of population."""


def propose(studio: Studio, asked: Asked) -> Response:
    """What a file looks like, before anything is written."""
    name = require(asked.query.get("file", ""), "file")
    path = studio.folder.inside(name)
    told = {one: asked.query.get(one, "") for one in ("kind", "places", "count", "key")}
    made: Draft | None = None
    fault = ""
    try:
        made = draft(path, told=_told(told))
    except HeadcountError as error:
        fault = str(error)
    if made is not None:
        told = {
            "kind": made.kind,
            "places": ", ".join(made.places.columns),
            "count": made.count,
            "key": made.key,
        }
    return studio.page(
        "look.html.j2",
        here="data",
        file=name,
        told=told,
        made=made,
        fault=fault,
        kinds=KINDS,
        header=header_of(path) if path.is_file() and made is None else [],
        config_name=_new_name(studio, name),
        command=f"headcount init {name}",
    )


def write(studio: Studio, asked: Asked) -> Response:
    """Write what was proposed, exactly as ``headcount init`` does."""
    path = studio.folder.inside(require(asked.field("file"), "file"))
    config = require(asked.field("name"), "name")
    if not config.endswith(".toml"):
        config += ".toml"
    told = _told({one: asked.field(one) for one in ("kind", "places", "count", "key")})
    write_draft(draft(path, told=told), studio.folder.inside(config))
    return studio.go("/data", config=config)


def _told(said: Mapping[str, str]) -> Told:
    """What somebody has said of a file; an empty field leaves it to the look."""
    kinds: dict[str, FileKind] = {one: one for one in KINDS}
    kind = said["kind"]
    if kind and kind not in kinds:
        raise InputError("kind", found=repr(kind), expected=one_of(KINDS))
    places = tuple(one.strip() for one in said["places"].split(",") if one.strip())
    return Told(
        places=places,
        kind=kinds.get(kind),
        count=said["count"] if kind in ("long", "") else "",
        key=said["key"] if kind in ("dwellings", "") else "",
    )


def _new_name(studio: Studio, file: str) -> str:
    """A name for the config that no file has yet."""
    folder, slash, last = file.rpartition("/")
    stem = f"{folder}{slash}{last.partition('.')[0] or 'config'}"
    names = (f"{stem}{'' if number == 1 else f'-{number}'}.toml" for number in range(1, 1000))
    return next(one for one in names if not studio.folder.inside(one).exists())


def show(studio: Studio, asked: Asked, *, fault: str = "", typed: str | None = None) -> Response:
    """The config as a form and as text."""
    text = studio.texts.read(asked.config)
    people: dict[str, Any] = {}  # where the text is no config there is no form to it
    try:
        studio.texts.load(text.name)
        people = parse_toml(text.text, source=text.name)["population"]
    except HeadcountError as error:
        fault = fault or str(error)
    return studio.page(
        "data.html.j2",
        here="data",
        config=text.name,
        command=f"headcount check {text.name}",
        text=text,
        typed=text.text if typed is None else typed,
        undo=studio.texts.can_undo(text),
        fault=fault,
        people=people,
        attributes=_attributes(people),
        geography=_geography(people),
        columns=_roles(studio, text.name, people),
        roles=ROLES,
        lists=_lists(studio, text.path.parent),
        missing=MISSING,
        bins=list(NAMED),
        status=422 if fault else 200,
    )


def save(studio: Studio, asked: Asked) -> Response:
    """The text as it was typed."""
    typed = asked.form.get("text", "").replace("\r\n", "\n")
    studio.jobs.refuse_busy(f"protect {asked.config}", asked.config)
    try:
        studio.texts.save(asked.config, typed, based_on=asked.field("version"))
    except HeadcountError as error:
        return show(studio, asked, fault=str(error), typed=typed)
    return studio.go("/data", config=asked.config)


def undo(studio: Studio, asked: Asked) -> Response:
    """The text as it was before the last edit."""
    studio.jobs.refuse_busy(f"protect {asked.config}", asked.config)
    studio.texts.undo(asked.config, based_on=asked.field("version"))
    return studio.go(asked.field("back") or "/data", config=asked.config)


def edit(studio: Studio, asked: Asked) -> Response:
    """The form: only what differs is written."""

    def change(document: tomlkit.TOMLDocument) -> None:
        people = _table(document, "population")
        # As the page had them: what is changed below must not be taken for another change.
        roles, attributes = _roles(studio, asked.config, people), list(_attributes(people))
        _set(people, "public", asked.form.get("public") == "yes", default=False)
        if "units" in asked.form:
            _set(people, "units", asked.field("units"), default="")
            from_data = asked.form.get("units_from_data") == "yes"
            _set(people, "units_from_data", from_data, default=False)
        if "places" in asked.form:
            places = [one.strip() for one in asked.field("places").split(",") if one.strip()]
            _set(_table(people, "geography"), "columns", places, default=[])
        for column, role in roles.items():
            new = asked.form.get(f"role.{column}", role)
            if new != role and new in ROLES:
                _change_role(studio, asked.config, people, column, role, new)
        for number, one in enumerate(attributes):
            if f"{number}.name" in asked.form:
                _edit_attribute(one, asked, number)

    try:
        return studio.edit(asked, change, back="/data")
    except HeadcountError as error:
        return show(studio, asked, fault=str(error))


def _edit_attribute(one: dict[str, Any], asked: Asked, number: int) -> None:
    """The fields of one attribute; with another name it is still of the same column."""
    name, column = asked.field(f"{number}.name"), one.get("column", one.get("name"))
    _set(one, "name", name, default="")
    _set(one, "column", column, default=name)
    if f"{number}.levels" in asked.form:
        levels = asked.field(f"{number}.levels").splitlines()
        _set(one, "levels", [level.strip() for level in levels if level.strip()], default=[])
    if f"{number}.bins" in asked.form:
        _set(one, "bins", _bins(asked.field(f"{number}.bins")), default=[])
    from_data = asked.form.get(f"{number}.levels_from_data") == "yes"
    _set(one, "levels_from_data", from_data, default=False)
    _set(one, "missing", asked.field(f"{number}.missing"), default="refuse")
    odd = [value.strip() for value in asked.field(f"{number}.missing_values").split(",")]
    _set(one, "missing_values", [value for value in odd if value], default=[])


def _bins(said: str) -> str | list[int]:
    """The name of a list of bins, or where they begin."""
    parts = said.replace(",", " ").split()
    if parts and all(part.isascii() and part.isdigit() and len(part) < 8 for part in parts):
        return [int(part) for part in parts]
    return said


def _change_role(
    studio: Studio, config: str, people: Table, column: str, old: str, new: str
) -> None:
    """A column of the file becomes something else; a new place is the lowest."""
    own = people.get("attribute", [])
    if old == "attribute":
        own.remove(next(one for one in own if one.get("column", one.get("name")) == column))
    elif old and old != "place":
        people.pop(old)
    if "place" in (old, new):
        table = _table(people, "geography")
        if "columns" not in table:
            raise ConfigError(
                config,
                place="population.geography",
                found="a code that is cut into prefixes",
                expected="places as they are, or changed in the text",
            )
        places = [one for one in table["columns"] if one != column]
        _set(table, "columns", [*places, column] if new == "place" else places, default=[])
    if new == "attribute":
        _add_attribute(studio, config, people, column)
    elif new and new != "place":
        people[new] = column


def _add_attribute(studio: Studio, config: str, people: Table, column: str) -> None:
    """A column that was not used, as an attribute with the levels that the look finds."""
    seen = look(_data_file(studio, config, people))
    own = people.setdefault("attribute", tomlkit.aot())
    if not isinstance(own, AoT):
        raise ConfigError(config, place="population.attribute", found="a list", expected="tables")
    taken = {str(one.get("name")) for one in own}
    found = chosen(seen.column(column), attribute_name(column, taken), totals="count" in people)
    table = tomlkit.table()
    for key, value in found.table().items():
        table[key] = value
    own.append(table)


def _set(table: Any, key: str, value: Any, *, default: Any) -> None:
    """A value of a table where it differs; one that is as by default goes."""
    if table.get(key, default) == value:
        return
    if value == default:
        table.pop(key, None)
    elif key in table:
        old, new = table.value.item(key), tomlkit.item(value)
        if isinstance(old, Item):
            new.trivia.comment_ws, new.trivia.comment = old.trivia.comment_ws, old.trivia.comment
        table[key] = new
    else:
        table[key] = value


def _table(within: Any, key: str) -> Table:
    found = within.get(key)
    if not isinstance(found, Table):
        raise ConfigError("config", place=key, found="no table", expected=f"[{key}]")
    return found


def _data_file(studio: Studio, config: str, people: Mapping[str, Any]) -> Any:
    """The table of people that a config names, inside the folder."""
    named = next((str(people[key]) for key in FILES if key in people), "")
    here = studio.folder.inside(config).parent
    return studio.folder.inside(studio.folder.name_of(here / require(named, "population.file")))


def _attributes(people: Mapping[str, Any]) -> list[dict[str, Any]]:
    own: list[dict[str, Any]] = people.get("attribute", [])
    return own


def _geography(people: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = people.get("geography", {})
    return found


def _lists(studio: Studio, here: Path) -> list[str]:
    """Files that may be lists of places, as a config in that folder names them."""
    found = [path for name, path in studio.folder.files() if name.endswith((".csv", ".parquet"))]
    return [Path(os.path.relpath(path, here)).as_posix() for path in found]


def _roles(studio: Studio, config: str, people: Mapping[str, Any]) -> dict[str, str]:
    """What each column of the file is; nothing where columns are counts."""
    places = _geography(people)
    if people.get("kind") not in ("microdata", "households"):
        return {}
    try:
        form = from_table(Format, people.get("format", {}), source=config)
        header = header_of(_data_file(studio, config, people), form)
    except (HeadcountError, OSError):  # the check of the config says what is wrong
        return {}
    used = {one.get("column", one.get("name")): "attribute" for one in _attributes(people)}
    used |= dict.fromkeys([*places.get("columns", []), places.get("column")], "place")
    used |= {people[key]: key for key in ("count", "key", "person_id") if people.get(key)}
    return {column: used.get(column, "") for column in header}
