"""A draft as files: a commented config, the list of units, and a schema for a wide table."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from headcount.errors import InputError
from headcount.files import write_text_atomic
from headcount.init.attributes import Chosen
from headcount.init.decide import Draft
from headcount.init.roles import proposed_roles
from headcount.population.formats.kinds import KNOWN
from headcount.population.tables import header_of
from headcount.population.text_files import PLAIN, Beside
from headcount.privacy import Ledger
from headcount.privacy.ledger import declared_total

HEAD = """\
# Written by `headcount init` from a look at {file}. It runs as it is:
#   headcount check {config}
#   headcount protect {config}
#   headcount evaluate {out}
# The choices below were made by looking at the data. What a release publishes because of them
# without noise is marked "read from the data": compare such a list with a public one, then delete
# its mark.
"""

FROM_DATA = "read from the data: which exist is published without noise"


def config_name(file: Path) -> str:
    """The name of a file's config, which no other file in its folder has."""
    whole = file.name
    stem = stem_of(whole)
    beside = file.parent.iterdir() if file.parent.is_dir() else ()
    shared = any(one.name != whole and stem_of(one.name) == stem for one in beside)
    return f"{whole if shared else stem}.toml"


def stem_of(name: str) -> str:
    """The name of a table without its ending; that of another file as it is."""
    ending = next((one for one in sorted(KNOWN, key=len)[::-1] if name.lower().endswith(one)), "")
    return name[: len(name) - len(ending)] or name if ending else name


def write_draft(
    made: Draft, config: Path, *, overwrite: bool = False, keep_account: bool = True
) -> tuple[Path, ...]:
    """Write the config and what it names; files that exist are not overwritten unasked.

    A ledger that is there already stays, with all that was spent. Without ``keep_account`` none
    is made or named: whoever has one adds it to the config.
    """
    stem = config.name.removesuffix(".toml")
    units, schema = config.with_name(f"{stem}.units.csv"), config.with_name(f"{stem}.schema.toml")
    text = _config(made, config, units, schema, keep_account=keep_account)
    files = {config: text} | ({units: _units(made)} if made.places.columns else {})
    if made.cells is not None:
        files[schema] = _schema(made)
    for path in files:
        if path.exists() and not overwrite:
            raise InputError(
                str(path), found="a file of that name", expected="none, or --overwrite"
            )
    config.parent.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        write_text_atomic(path, text)
    return (*files, _ledger(made)) if keep_account else tuple(files)


def _ledger(made: Draft) -> Path:
    """The ledger beside the data, made if there is none, in which they are declared."""
    ledger, dataset = _ledger_of(made)
    book = Ledger.open(ledger) if ledger.exists() else Ledger.create(ledger)
    if dataset not in {one.name for one in book.datasets()}:
        book.declare(dataset, total=declared_total(epsilon=made.epsilon, rho="", unit=_unit(made)))
    return ledger


def _ledger_of(made: Draft) -> tuple[Path, str]:
    """The ledger beside the data, and the name that they have there.

    It is named after the file of data: another config of the same people has the same ledger.
    """
    source = made.look.path
    assert isinstance(source, Path)
    return source.with_name(f"{source.name}.ledger.sqlite"), stem_of(source.name)


def _unit(made: Draft) -> str:
    """Whose loss is stated: one count alone does not move when a record changes."""
    return "change-one" if made.all_attributes else "add-remove"


def _config(made: Draft, config: Path, units: Path, schema: Path, *, keep_account: bool) -> str:
    out = f"runs/{config.name.removesuffix('.toml')}"
    head = HEAD.format(file=made.look.path.name, config=config.name, out=out)
    notes = "".join(f"#   {note}\n" for note in made.notes)
    parts = [
        f"{head}#\n# What was decided:\n{notes}",
        _population(made, config, units, schema),
        _format(made, config),
        _rows(made),
        _geography(made),
        *_attributes(made),
        _cells(made),
        _mechanism(made),
        _roles(made),
        _run(made, config, out, keep_account=keep_account),
    ]
    return "\n".join(part for part in parts if part)


def _roles(made: Draft) -> str:
    """Which attributes are which, and how to say what an attacker knows."""
    lines = []
    for name, role in proposed_roles(tuple(made.all_attributes)):
        codes = f", codes = {_table(dict(role.codes))}" if role.codes else ""
        named = _text(role.attribute)
        lines.append(f"{name} = {{ attribute = {named}{codes} }}" if codes else f"{name} = {named}")
    if not lines:
        return ""
    said = "# [attacker] says what else is known of people, and what is sensitive (docs/attacks.md)"
    return _lines(_said("[roles]", "which is which, for attacks: no count changes"), *lines, said)


def _run(made: Draft, config: Path, out: str, *, keep_account: bool) -> str:
    where = [_said(f"out = {_text(out)}", "publish release/ in it, never internal/")]
    if made.lowest:
        lowest = f"lowest = {_text(made.lowest)}"
        where.append(_said(lowest, "smaller places are not published: too few people there"))
    if not keep_account:
        return _lines("[run]", *where)
    ledger, dataset = _ledger_of(made)
    return _lines(
        "[run]",
        *where,
        _said(f"ledger = {_path(ledger, config)}", "adds up what all releases of these data lose"),
        _said(f"dataset = {_text(dataset)}", "headcount ledger show says what is left"),
    )


def _population(made: Draft, config: Path, units: Path, schema: Path) -> str:
    kinds = {"dwellings": "households", "wide": "counts"}
    source = made.look.path
    assert isinstance(source, Path)  # what is in memory has no config
    lines = ["[population]", f'kind = "{kinds.get(made.kind, "microdata")}"']
    lines.append(f"{'persons' if made.kind == 'dwellings' else 'file'} = {_path(source, config)}")
    if (homes := _homes(made)) is not None:
        lines.append(f"dwellings = {_path(homes.file, config)}")
    if made.key:
        lines.append(_said(f"key = {_text(made.key)}", "who shares it lives together"))
    if made.count:
        lines.append(_said(f"count = {_text(made.count)}", "for how many people a row stands"))
    if made.cells is not None:
        lines.append(f"schema = {_text(schema.name)}")
        lines.append(_said("overlap = 1", "everybody is counted in one column"))
    if made.blank_counts:
        said = f"blank_counts = {_text(made.blank_counts)}"
        lines.append(_said(said, "a count that is not there is read as 0"))
    if made.keep_sums:
        lines.append(_said('sums = "keep"', "a place with the people of all others is no total"))
    if made.places.totals and made.kind != "dwellings":
        lines.append(_said('totals = "drop"', "rows of totals are left out"))
    if made.not_counts and made.kind == "people":
        lines.append(f"not_counts = {_list(made.not_counts)}")
    if made.places.columns:
        lines.append(f"units = {_text(units.name)}")
        lines.append(_said("units_from_data = true", FROM_DATA))
    lines.append(_said("public = false", "true if everybody may see the file"))
    return _lines(*lines)


def _format(made: Draft, config: Path) -> str:
    """All that is said of how files are written, where it is not what is said of none."""
    form, homes = made.look.form, _homes(made)
    lines = []
    # Each of several texts is parted by its own sign, which is found again.
    if form.delimiter or (made.look.delimiter_found not in ("", ",") and not form.beside):
        lines.append(f"delimiter = {_text(made.look.delimiter_found)}")
    for key in ("encoding", "decimal", "thousands", "sheet"):
        if (value := getattr(form, key)) != getattr(PLAIN, key):
            lines.append(f"{key} = {_text(value)}")
    for key in ("lines_above", "heading_lines", "lines_after_heading", "lines_below"):
        if (number := getattr(form, key)) != getattr(PLAIN, key):
            lines.append(f"{key} = {number}")
    if form.sheets:
        lines.append(_said(f"sheets = {_list(form.sheets)}", "a column has their names"))
    if form.number_names:
        lines.append(_said("number_names = true", "some names stand twice"))
    if form.fill_down:
        lines.append(_said(f"fill_down = {_list(form.fill_down)}", "blanks mean what is above"))
    if form.layout is not None:
        lines.append(_said(f"layout = {_path(form.layout, config)}", "says where columns are"))
    tables = [_lines("[population.format]", *lines)] if lines else []
    return "\n".join([*tables, *(_beside(one, config) for one in form.beside if one is not homes)])


def _beside(one: Beside, config: Path) -> str:
    lines = ["[[population.format.beside]]", f"file = {_path(one.file, config)}"]
    lines.append(_said(f"key = {_text(one.key)}", "finds the row of a person or place there"))
    if one.other_key:
        lines.append(f"other_key = {_text(one.other_key)}")
    for key in ("encoding", "sheet"):
        if value := getattr(one, key):
            lines.append(f"{key} = {_text(value)}")
    if one.columns:
        lines.append(f"columns = {_list(one.columns)}")
    return _lines(*lines)


def _homes(made: Draft) -> Beside | None:
    """The table of dwellings, where it is read as one: its key has one name in both tables."""
    return next(
        (
            one
            for one in made.look.form.beside
            if made.kind == "dwellings"
            and one.key == made.key
            and not (one.other_key or one.encoding or one.sheet)
        ),
        None,
    )


def _of_dwellings(made: Draft) -> set[str]:
    """The columns that the table of dwellings has."""
    homes = _homes(made)
    return set() if homes is None else {*header_of(homes.file, made.look.form.of_table(homes))}


def _path(file: Path, config: Path) -> str:
    """A file from where the config is."""
    return _text(Path(os.path.relpath(file.absolute(), config.absolute().parent)).as_posix())


def _rows(made: Draft) -> str:
    tables = []
    for key, values_of in (("include", made.include), ("exclude", made.exclude)):
        if values_of:
            lines = [f"{_key(column)} = {_list(values)}" for column, values in values_of.items()]
            tables.append(_lines(f"[population.{key}]", *lines))
    return "\n".join(tables)


def _geography(made: Draft) -> str:
    places = made.places
    lines = ["[population.geography]"]
    if places.prefixes:
        inside = ", ".join(f"{_key(level)} = {length}" for level, length in places.prefixes)
        lines += [f"column = {_text(places.columns[0])}", f"prefixes = {{ {inside} }}"]
    else:
        said = "from the top to the leaf" if places.columns else "everybody is in one place"
        lines.append(_said(f"columns = {_list(places.columns)}", said))
    if places.root != "whole":
        lines.append(_said(f"root = {_text(places.root)}", "there is one only: the whole"))
    if places.local_codes:
        lines.append(_said("local_codes = true", "codes repeat between parents"))
    if places.fill_zeros:
        lines.append(_said("fill_zeros = true", "zeros that codes lost are put back"))
    return _lines(*lines)


def _attributes(made: Draft) -> list[str]:
    theirs = _of_dwellings(made)
    own = [one for one in made.attributes if one.column not in theirs]
    of_homes = [one for one in made.attributes if one.column in theirs]
    return [
        *(_attribute(one, "attribute") for one in own),
        *(_attribute(one, "dwelling_attribute") for one in of_homes),
    ]


def _attribute(one: Chosen, kind: str) -> str:
    lines = [f"[[population.{kind}]]", f"name = {_text(one.name)}"]
    if one.column != one.name:
        lines.append(f"column = {_text(one.column)}")
    if one.bins:
        lines.append(_said(f'bins = "{one.bins}"', "or where bins begin: [0, 18, 65]"))
    elif one.values:
        lines.append(_said(f"values = {_table(dict(one.values))}", "as the file names them"))
    else:
        lines.append(f"levels = {_list(one.levels)}")
    if one.levels_from_data:
        lines.append(_said("levels_from_data = true", FROM_DATA))
    if one.missing:
        lines.append(_said(f'missing = "{one.missing}"', 'or "level", "drop", "refuse"'))
    if one.missing_values:
        lines.append(f"missing_values = {_list(one.missing_values)}")
    return _lines(*lines)


def _cells(made: Draft) -> str:
    if made.cells is None or not made.cells.levels_of:
        return ""
    names = [name for name, _ in made.cells.attributes]
    if not names and list(made.cells.levels_of) == ["total"]:
        return ""
    lines = [
        f"{_key(column)} = {_table(dict(zip(names, levels, strict=True)))}"
        for column, levels in made.cells.levels_of.items()
    ]
    return _lines(_said("[population.cells]", "columns that are cells"), *lines)


def _schema(made: Draft) -> str:
    assert made.cells is not None
    tables = [
        f"[[attribute]]\nname = {_text(name)}\nlevels = {_list(levels)}\n"
        for name, levels in made.all_attributes
    ]
    file = made.look.path.name
    return "\n".join([f"# Made by `headcount init` from the columns of {file}.\n", *tables])


def _units(made: Draft) -> str:
    # A delimiter of the config is that of all files; a byte order mark is believed before its
    # encoding.
    return "\ufeff" + made.units.write_csv(separator=made.look.delimiter_found or ",")


def _mechanism(made: Draft) -> str:
    """TopDown with its default queries, as ``by_default`` has it."""
    lines = [
        "[mechanism]",
        _said('name = "topdown"', "noise at every level, then counts that add up"),
        _said(f"epsilon = {_number(made.epsilon)}", "the privacy loss: less protects more"),
        _said("pool = true", "levels help each other, at no loss"),
        _said('shares = "totals"', "more of it for totals, less for the whole"),
    ]
    if not made.all_attributes:
        lines.append(_said('unit = "add-remove"', "one person more or less"))
    lines.append("# Measured are the total, each attribute and all their combinations (cells), at")
    lines.append("# every level; headcount check says how far off each will be, in people.")
    if made.all_attributes:
        lines += [
            _said("[[mechanism.invariant]]", "published exactly, at no loss: nobody comes or goes"),
            'query = "total"',
            f"level = {_text(made.places.root)}",
        ]
    return _lines(*lines)


def _lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def _said(text: str, why: str) -> str:
    """A line with a comment beside it."""
    return f"{text:<35} # {why}"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _number(value: str) -> str:
    return value if value.isascii() and value.isdigit() else _text(value)


def _list(values: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, values))}]"


def _table(pairs: Mapping[str, str]) -> str:
    return f"{{ {', '.join(f'{_key(key)} = {_text(value)}' for key, value in pairs.items())} }}"


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else _text(name)
