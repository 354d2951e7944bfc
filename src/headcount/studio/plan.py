"""The screen of the plan: what a loss buys, before anything is spent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from starlette.responses import Response

from headcount.config.load import config_to_json
from headcount.config.settings import Config
from headcount.errors import ConfigError, HeadcountError, did_you_mean
from headcount.files import write_text_atomic
from headcount.geography import Geography
from headcount.mechanisms import Chain
from headcount.privacy import Guarantee, Ledger
from headcount.privacy.loss import decimal, exact
from headcount.privacy.outlook import LedgerOutlook, outlook
from headcount.run.plan import domain_of
from headcount.run.wanted import (
    STEPS,
    Reach,
    amount_for,
    amount_of,
    at_dial,
    currency_of,
    dial_of,
    draw_reaches,
    reaches,
    with_amount,
)
from headcount.schema import Schema
from headcount.studio.app import Asked, Studio
from headcount.studio.methods import (
    OFFERED,
    as_tables,
    parts_of,
    parts_of_chain,
    record_choice,
)

MOST_DOMAINS = 4
OWN = "own"
"""What the method of the config is called among its cases."""
STAND_IN_PEOPLE, STAND_IN_LEAF = 4000, "block"


@dataclass(frozen=True)
class Card:
    """One way to protect: its steps, its promise and its errors; or why it does not fit.

    ``own`` is the one that the config's run uses.
    """

    name: str
    steps: tuple[str, ...]
    own: bool
    guarantee: Guarantee | None
    rows: tuple[Reach, ...] = ()
    fault: str = ""


def show(studio: Studio, asked: Asked) -> Response:
    """The whole screen."""
    config = studio.texts.load(asked.config)
    text = studio.texts.read(asked.config)
    schema, geography = domain(studio, config)
    ways = {
        "own": Chain.of(config.mechanism),
        **{c.name: Chain.of(c.mechanism) for c in config.case},
    }
    return studio.page(
        "plan.html.j2",
        here="plan",
        config=asked.config,
        text=text,
        undo=studio.texts.can_undo(text),
        command=f"headcount plan {asked.config}",
        cards=[_card(name, way, schema, geography) for name, way in ways.items()],
        choice=config.choice,
        offered=list(OFFERED),
        steps=STEPS,
        **_preview(studio, asked, config, schema, geography),
    )


def preview(studio: Studio, asked: Asked) -> Response:
    """The part of the screen that follows the dial."""
    config = studio.texts.load(asked.config)
    found = _preview(studio, asked, config, *domain(studio, config))
    return studio.page("plan_part.html.j2", config=asked.config, steps=STEPS, part=True, **found)


def save(studio: Studio, asked: Asked) -> Response:
    """Write the loss that was dialled into the config."""
    config = studio.texts.load(asked.config)
    chain = Chain.of(config.mechanism)
    currency = currency_of(chain)
    if not currency:
        raise ConfigError(
            asked.config, place="mechanism", found="a method without a loss", expected="one with it"
        )
    amount = exact(asked.field("amount"), name=currency)
    with_amount(chain, amount)  # refuses what the method refuses

    def change(document: tomlkit.TOMLDocument) -> None:
        tables: Any = document["mechanism"]
        last = tables[-1] if isinstance(tables, list) else tables
        said = decimal(amount, digits=12)
        last[currency] = int(said) if said.isdigit() else said

    return studio.edit(asked, change, back="/plan")


def add(studio: Studio, asked: Asked) -> Response:
    """Another way to protect, to look at and to compare."""
    method = asked.field("method")
    _, geography = domain(studio, studio.texts.load(asked.config))
    parts = parts_of(method, geography)

    def change(document: tomlkit.TOMLDocument) -> None:
        cases: Any = document.setdefault("case", tomlkit.aot())
        taken = {str(one["name"]) for one in cases}
        names = (method, *(f"{method} {number}" for number in range(2, 100)))
        case = tomlkit.table()
        case["name"] = next(one for one in names if one not in taken)
        case["mechanism"] = as_tables(parts)
        cases.append(case)

    return studio.edit(asked, change, back="/plan")


def choose(studio: Studio, asked: Asked) -> Response:
    """A case becomes the method of the run, with the reason beside it; or it goes."""
    name, drop = asked.field("case"), asked.field("drop") == "yes"

    def change(document: tomlkit.TOMLDocument) -> None:
        cases: Any = document.get("case", [])
        case = next((one for one in cases if one["name"] == name), None)
        if case is None:
            raise ConfigError(asked.config, place="case", found=repr(name), expected="a case of it")
        if not drop:
            _take(document, name, case["mechanism"], asked.field("reason"))
        cases.remove(case)
        if not cases:
            document.remove("case")

    return studio.edit(asked, change, back=asked.field("back") or "/plan")


def rehearse(studio: Studio, asked: Asked) -> Response:
    """A config with the same method on made-up people, to be compared and attacked without harm."""
    config = studio.texts.load(asked.config)
    ways = {OWN: config.mechanism, **{case.name: case.mechanism for case in config.case}}
    name = asked.field("case")
    if name not in ways:
        raise ConfigError("rehearsal", found=repr(name), expected=did_you_mean(name, ways))
    parts = parts_of_chain(ways[name])
    for part in parts:  # places have other names there
        part |= {"level": STAND_IN_LEAF} if "level" in part else {}
    document = tomlkit.document()
    document.add(tomlkit.comment("A rehearsal: the method of another config on made-up people."))
    document["population"] = {"kind": "towns", "people": STAND_IN_PEOPLE}
    document["mechanism"] = as_tables(parts)
    called = "".join(c if c.isascii() and c.isalnum() else "-" for c in name)[:40]
    stem = f"rehearse-{Path(asked.config).stem}-{called}"
    document["run"] = {"out": f"runs/{stem}"}
    path = studio.folder.inside(f"{stem}.toml")
    write_text_atomic(path, tomlkit.dumps(document))
    studio.texts.load(path.name)  # says at once what does not fit there
    return studio.go("/compare", config=path.name)


def _take(document: tomlkit.TOMLDocument, name: str, chosen: Any, reason: str) -> None:
    """The tables of a case in the place of the config's method, which becomes a case itself."""
    before = tomlkit.table()
    before["name"] = f"before: {name}"
    before["mechanism"] = as_tables(_plain(document["mechanism"]))
    document["mechanism"] = as_tables(_plain(chosen))
    record_choice(document, name, reason)
    taken = {str(one["name"]) for one in document["case"]}
    if before["name"] not in taken:
        document["case"].append(before)


def _plain(tables: Any) -> list[dict[str, Any]]:
    """Tables of a document as plain data, one or several."""
    found = tables.unwrap() if hasattr(tables, "unwrap") else tables
    return list(found) if isinstance(found, list) else [found]


def domain(studio: Studio, config: Config) -> tuple[Schema, Geography]:
    """Cells and places of a config; read again only when the population or its files change."""
    people = json.loads(config_to_json(config))["population"]
    files = [Path(v) for v in people.values() if isinstance(v, str) and Path(v).is_absolute()]
    stamps = [(str(p), p.stat().st_mtime_ns) for p in files if p.is_file()]
    key = json.dumps([people, stamps], sort_keys=True, default=str)
    kept: dict[str, tuple[Schema, Geography]] = studio.held.setdefault("domains", {})
    if key not in kept:
        try:
            found = domain_of(config)
        except ConfigError:  # places that are known only with the people
            read = config.population.read()
            found = read.schema, read.geography
        kept[key] = found
        for old in list(kept)[:-MOST_DOMAINS]:
            del kept[old]
    return kept[key]


def _card(name: str, chain: Chain, schema: Schema, geography: Geography) -> Card:
    own = name == OWN
    steps = tuple(part.name for part in chain.parts)
    called = "The method of this config" if own else name
    try:
        promise = chain.guarantee(schema, geography)
        rows = tuple(reaches(chain, schema, geography))
        return Card(called, steps, own, promise, rows)
    except HeadcountError as error:
        return Card(called, steps, own, None, fault=str(error))


def _preview(
    studio: Studio, asked: Asked, config: Config, schema: Schema, geography: Geography
) -> dict[str, Any]:
    """What follows the dial: amount, expected errors, guarantee and ledger."""
    chain = Chain.of(config.mechanism)
    currency = currency_of(chain)
    if not currency:
        return {"currency": "", "ledger": _ledger(config, chain.guarantee(schema, geography))}
    asks = {**asked.query, **asked.form}
    target, moved = asks.get("target", ""), asked.moved or asks.get("moved", "")
    amount = amount_of(chain)
    if moved == "dial":
        amount = at_dial(asks.get("dial", ""))
    elif moved == "people" and asks.get("people"):
        wanted = float(exact(asks["people"], name="people"))
        if not wanted > 0:
            raise ConfigError("accuracy", found=asks["people"], expected="a number above 0")
        amount = amount_for(chain, schema, geography, target=target, people=wanted)
    elif asks.get("amount"):
        amount = exact(asks["amount"], name=currency)
    chain = with_amount(chain, amount)
    rows = reaches(chain, schema, geography)
    noisy = [one for one in rows if one.people]
    aim = next((one for one in noisy if one.name == target), _first_aim(noisy))
    promise = chain.guarantee(schema, geography)
    return {
        "currency": currency,
        "amount": decimal(amount, digits=12),
        "saved": amount == amount_of(Chain.of(config.mechanism)),
        "dial": dial_of(amount),
        "rows": rows,
        "targets": noisy,
        "aim": aim,
        "moved": moved,
        "chart": draw_reaches(rows),
        "promise": promise,
        "ledger": _ledger(config, promise),
    }


def _first_aim(rows: list[Reach]) -> Reach | None:
    """The total of a middle level, else whatever there is."""
    totals = [one for one in rows if one.query == "total"]
    found = totals or rows
    return found[len(found) // 2] if found else None


def _ledger(config: Config, promise: Guarantee) -> LedgerOutlook | None:
    """What the ledger has, and would have left."""
    run = config.run
    return None if run.ledger is None else outlook(Ledger.open(run.ledger), run.dataset, promise)
