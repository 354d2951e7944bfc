"""The screen of the data: what ``headcount init`` proposes, and the config beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tomlkit
from starlette.responses import Response

from headcount.config.edit import change_role, edited, roles_of, set_said, table_of
from headcount.errors import HeadcountError
from headcount.files import parse_toml
from headcount.init.proposal import Proposal, Question, Way, proposal_of
from headcount.init.told import KINDS, Told
from headcount.init.write import config_name, write_draft
from headcount.population.population import is_it_right
from headcount.population.suspicious import refuse_values_as_names
from headcount.population.tables import AnyTable, header_of
from headcount.population.text_files import PLAIN, Format
from headcount.privacy import Ledger, UnitOfPrivacy
from headcount.privacy.ledger import declared_total
from headcount.schema.schema import NAMED
from headcount.studio.app import Asked, Studio, require
from headcount.studio.start import ledgers_among, plain_files
from headcount.typed import from_table

MISSING = {
    "refuse": "refuse the file",
    "level": "give them a level of their own",
    "drop": "leave them out",
}
ROLE_WORDS = {
    "": "left out",
    "place": "a place",
    "attribute": "an attribute",
    "count": "the number of people in each row",
    "key": "the dwelling that somebody lives in",
    "person_id": "an id that a person keeps in every edition",
}
FILES = ("file", "persons")
"""Keys of the table of people, by kind of population."""

UNITS = {one.value: one.value for one in UnitOfPrivacy}
"""Units of privacy by name."""

ASKED = (
    *("kind", "places", "count", "key", "attributes", "universe", "not_counts", "only"),
    *("leave_out", "blank_counts", "ages", "sheet", "no_places", "beside"),
)
"""What can be said of a file before a config is written; ``beside`` names what belongs to it."""

BLANK_COUNTS = {"": "refused", "zero": "0: nobody", "withheld": "withheld, and not counted"}
AGES = {"": "not said", "years": "years", "codes": "codes of age groups"}


def propose(studio: Studio, asked: Asked) -> Response:
    """What a file looks like, before anything is written."""
    path = studio.folder.inside(require(asked.query.get("file", ""), "file"))
    name = studio.folder.name_of(path)
    told = {one: asked.query.get(one, "") for one in ASKED}
    found: Proposal | None = None
    fault, named, answers = "", False, list[tuple[str, str]]()
    try:
        _refuse_bare(studio, path)
        named = True
        found = _proposed(studio, path, told)
    except HeadcountError as error:
        fault = studio.said(error)
        if isinstance(error, Question) and studio.accepted:
            answers = [(one.said, _asked_again(studio, name, told, one)) for one in error.ways]
    made = found.made if found else None
    return studio.page(
        "look.html.j2",
        here="data",
        again=asked.again,
        file=name,
        told=told,
        made=made,
        preview=found.preview if found and studio.accepted else None,
        question=is_it_right(*found.size) if found and studio.accepted else "",
        fault=fault,
        answers=answers,
        kinds={"": f"found by looking{f': {KINDS[made.kind]}' if made else ''}", **KINDS},
        blank_counts=BLANK_COUNTS,
        ages=AGES,
        header=header_of(path) if named and path.is_file() and made is None else [],
        config_name=_new_name(studio, name),
        command=studio.command("init", name),
    )


def write(studio: Studio, asked: Asked) -> Response:
    """Write what was proposed, exactly as ``headcount init`` does."""
    path = studio.folder.inside(require(asked.field("file"), "file"))
    config = studio.folder.inside(
        require(asked.field("name"), "name").removesuffix(".toml") + ".toml"
    )
    said = {one: asked.field(one) for one in ASKED}
    _refuse_bare(studio, path)
    write_draft(_proposed(studio, path, said).made, config)
    return studio.go("/data", config=studio.folder.name_of(config))


def _proposed(studio: Studio, path: Path, said: Mapping[str, str]) -> Proposal:
    """What ``headcount init`` proposes."""
    told = _told(said)
    found = proposal_of(_files(studio, path, said["beside"]), told=told)
    return found.without_hopeless_levels(told)


def _told(said: Mapping[str, str]) -> Told:
    """What was typed; each line of rows to take or leave out is COLUMN=VALUE."""
    lines = {one: said[one].splitlines() for one in ("only", "leave_out")}
    rows = {one: [line for line in typed if line.strip()] for one, typed in lines.items()}
    words: dict[str, Any] = {**said, **rows, "no_places": bool(said["no_places"])}
    del words["beside"]
    return Told.by_words(**words)


def _files(studio: Studio, path: Path, beside: str) -> list[AnyTable]:
    """The file that is looked at, and those that belong to it."""
    named = [one.strip() for one in beside.split(",") if one.strip()]
    return [path, *(studio.folder.inside(one) for one in named)]


def _asked_again(studio: Studio, name: str, told: Mapping[str, str], way: Way) -> str:
    """Where the file is looked at with one more answer."""
    again = dict(told)
    for option, value in way.options:
        key = option.replace("-", "_")
        sign = {"only": "\n", "leave_out": "\n", "not_counts": ","}.get(key, "")
        again[key] = f"{again[key]}{sign}{value}" if sign and again[key] else value or "yes"
    return studio.at("/look", file=name, **again)


def _refuse_bare(studio: Studio, path: Path, form: Format = PLAIN) -> None:
    """Refuse a file whose names of columns may be somebody's values, until these may be shown."""
    if not studio.accepted:
        refuse_values_as_names(path, form)


def _new_name(studio: Studio, file: str) -> str:
    """A name for the config that no file has yet."""
    folder, slash, _ = file.rpartition("/")
    named = config_name(studio.folder.inside(file)).removesuffix(".toml")
    stem = f"{folder}{slash}{named}"
    names = (f"{stem}{'' if number == 1 else f'-{number}'}.toml" for number in range(1, 1000))
    return next(one for one in names if not studio.folder.inside(one).exists())


def show(
    studio: Studio, asked: Asked, *, fault: str = "", typed: str | None = None, form: str = ""
) -> Response:
    """The config as a form and as text; the form by ``form``, a text that was refused."""
    text = studio.texts.read(asked.config)
    tables: dict[str, Any] = {}  # where the text is no config there is no form to it
    try:
        studio.texts.load(text.name)
        tables = parse_toml(form or text.text, source=text.name)
    except HeadcountError as error:
        fault = fault or studio.said(error)
    people = tables.get("population", {})
    run = tables.get("run", {})
    files = plain_files(studio.folder.root).files
    lists = [path for name, path in files.items() if name.endswith((".csv", ".parquet"))]
    ledgers = [files[name] for name in ledgers_among(files)]
    return studio.page(
        "data.html.j2",
        here="data",
        again=asked.again,
        config=text.name,
        command=studio.command("check", text.name),
        text=text,
        typed=text.text if typed is None else typed,
        undo=studio.texts.can_undo(text),
        overtaken=studio.texts.overtaken(text),
        fault=fault,
        people=people,
        run=run,
        columns=_roles(studio, text.name, people),
        roles=ROLE_WORDS,
        lists=_beside(text.path, lists, people.get("units", ""), "none: read them from the data"),
        ledgers=_beside(text.path, ledgers, run.get("ledger", ""), "none"),
        units_of_privacy=UNITS,
        missing=MISSING,
        bins=list(NAMED),
        status=422 if fault else 200,
    )


def _beside(config: Path, paths: list[Path], chosen: str, none: str) -> dict[str, str]:
    """Files as a config in that place names them, the chosen one among them, to choose from."""
    names = (Path(os.path.relpath(path, config.parent)).as_posix() for path in paths)
    return {"": none} | {one: one for one in (chosen, *names) if one}


def save(studio: Studio, asked: Asked) -> Response:
    """The text as it was typed."""
    typed = asked.form.get("text", "").replace("\r\n", "\n")
    studio.jobs.refuse_busy(f"protect {asked.config}", asked.config)
    try:
        studio.texts.save(asked.config, typed, based_on=asked.field("version"))
    except HeadcountError as error:
        return show(studio, asked, fault=studio.said(error), typed=typed)
    return studio.go("/data", config=asked.config)


def undo(studio: Studio, asked: Asked) -> Response:
    """The text as it was before the last edit."""
    studio.jobs.refuse_busy(f"protect {asked.config}", asked.config)
    studio.texts.undo(asked.config, based_on=asked.field("version"))
    return studio.go(asked.field("back") or "/data", config=asked.config)


def edit(studio: Studio, asked: Asked) -> Response:
    """The form, whose fields are called like the keys of the config: what differs is written."""

    def change(document: tomlkit.TOMLDocument) -> None:
        people = table_of(document, "population")
        roles = _roles(studio, asked.config, people)
        for path, said in asked.form.items():
            set_said(document, path, said)
        for column, old in roles.items():
            new = asked.form.get(f"role.{column}", old)
            if new != old and new in ROLE_WORDS:
                file = _data_file(studio, asked.config, people)
                change_role(people, column, old=old, new=new, file=file)

    try:
        return studio.edit(asked, change, back="/data")
    except HeadcountError as error:
        kept = _as_typed(studio, asked, change)
        return show(studio, asked, fault=studio.said(error), form=kept)


def _as_typed(studio: Studio, asked: Asked, change: Callable[[tomlkit.TOMLDocument], None]) -> str:
    """The text that an edit would have made; "" where it began with another one than there is."""
    try:
        old = studio.texts.unchanged(asked.config, asked.field("version"))
        return edited(old.text, change, source=asked.config)
    except HeadcountError:  # of which the page says why
        return ""


def declare(studio: Studio, asked: Asked) -> Response:
    """Declare on a ledger what may be lost on a dataset in all; the config's run then uses it."""
    config = studio.texts.read(asked.config)
    ledger, dataset = (require(asked.field(one), one) for one in ("ledger", "dataset"))
    path = studio.folder.inside(studio.folder.name_of(config.path.parent / ledger))
    rho, amount = asked.field("currency") == "rho", asked.field("total")
    total = declared_total(
        epsilon="" if rho else amount, rho=amount if rho else "", unit=asked.field("unit")
    )

    def change(document: tomlkit.TOMLDocument) -> None:
        set_said(document, "run.ledger", ledger)
        set_said(document, "run.dataset", dataset)

    def first() -> None:
        book = Ledger.open(path) if path.exists() else Ledger.create(path)
        book.declare(dataset, total=total)

    return studio.edit(asked, change, back="/data", first=first)


def _data_file(studio: Studio, config: str, people: Mapping[str, Any]) -> Path:
    """The table of people that a config names, inside the folder."""
    named = next((str(people[key]) for key in FILES if key in people), "")
    here = studio.folder.inside(config).parent
    return studio.folder.inside(studio.folder.name_of(here / require(named, "population.file")))


def _roles(studio: Studio, config: str, people: Mapping[str, Any]) -> dict[str, str]:
    """What each column of the file is; nothing where columns are counts."""
    if people.get("kind") not in ("microdata", "households"):
        return {}
    try:
        form = from_table(Format, people.get("format", {}), source=config)
        file = _data_file(studio, config, people)
        roles = roles_of(people, header_of(file, form))
    except (HeadcountError, OSError):  # the check of the config says what is wrong
        return {}
    try:
        _refuse_bare(studio, file, form)
    except HeadcountError:  # then only names that stand in the text too
        return {column: role for column, role in roles.items() if role}
    return roles
