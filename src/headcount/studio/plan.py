"""The screen of the plan: what a loss buys, before anything is spent."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from starlette.responses import Response

from headcount.comparison.settings import Settings
from headcount.config.edit import (
    OFFERED,
    add_case,
    drop_case,
    parts_of,
    parts_of_chain,
    put_loss,
    take_case,
)
from headcount.config.load import Config
from headcount.domain import Domain
from headcount.errors import ConfigError, did_you_mean
from headcount.files import to_toml, write_text_atomic
from headcount.mechanisms import Chain
from headcount.population import InDwellings
from headcount.privacy import Ledger
from headcount.privacy.ledger import outlook
from headcount.privacy.loss import exact
from headcount.registry import MECHANISMS
from headcount.run.how_far_off import HEADINGS
from headcount.run.plan import currency_of, with_amount
from headcount.run.protect import key_kind_of
from headcount.run.public_facts import Facts
from headcount.studio.app import Asked, Studio, require
from headcount.studio.known import FinishedComparison, comparison_folder
from headcount.studio.wanted import (
    STEPS,
    cards_of,
    dialled,
    draw_errors,
    ways_in,
)

PEOPLE, LEAF = 4000, "block"
"""How many people are made up, and what their smallest places are called."""


@dataclass(frozen=True)
class _Rehearsal:
    """A config for the rehearsal of one way to protect: of other settings, another.

    where
        case   the way among those of the rehearsal
        name   of its file
    """

    case: str
    name: str
    text: str

    @classmethod
    def of(cls, config: str, case: str, way: Chain) -> _Rehearsal:
        """Of a case of a config, or of its own method."""
        case = case or "own"
        called = "".join(c if c.isascii() and c.isalnum() else "-" for c in case)[:40]
        parts = parts_of_chain(way.for_a_trial().parts)
        version = sha256(json.dumps(parts).encode()).hexdigest()[:6]
        stem = f"rehearse-{Path(config).stem}-{called}-{version}"
        return cls(case, f"{stem}.toml", _rehearsal_text(case, parts, out=f"runs/{stem}"))


def _rehearsal_text(name: str, parts: Iterable[dict[str, Any]], *, out: str) -> str:
    """A config with a method on made-up people, to be compared with no protection and attacked.

    where
        parts   the tables of the method
        out     where a run of it would go
    """
    # Places have other names there. As a case besides, so that no other method is compared.
    method = [{**part, "level": LEAF} if "level" in part else part for part in parts]
    tables = {
        "population": {"kind": "towns", "people": PEOPLE},
        "mechanism": method,
        "case": [{"name": name, "mechanism": method}],
        "run": {"out": out},
    }
    return "# A rehearsal: the method of another config on made-up people.\n" + to_toml(tables)


def _rehearsal_outcome(memo: str, name: str) -> str:
    """What a comparison found of a case, in a sentence or two, from its table ``memo``."""
    row = next((one for one in csv.DictReader(memo.splitlines()) if one["case"] == name), None)
    if row is None:
        return "It does not fit made-up people."
    said = []
    if row["found_percent"]:
        found, guess = float(row["found_percent"]), float(row["guess_percent"] or "nan")
        said.append(
            "An attacker who knows where everybody lives, and their sex and age, names "
            f"{found:.1f} % of them rightly ({guess:.1f} % by a guess from the place alone)."
        )
    else:
        said.append("No attack could be made.")
    if row["leaf_percent"]:
        said.append(f"Totals of the smallest places are off by {float(row['leaf_percent']):.1f} %.")
    if float(row.get("withheld_people_percent") or 0):
        said.append(f"{float(row['withheld_people_percent']):.1f} % of people are withheld.")
    return " ".join(said)


def _of_households(offered: str) -> bool:
    """Whether a method that is offered asks who lives with whom."""
    kinds: list[Any] = [MECHANISMS.get(one["name"]) for one in OFFERED[offered]]
    return any(kind.of_households for kind in kinds)


def show(studio: Studio, asked: Asked) -> Response:
    """The whole screen."""
    config, text = studio.texts.load(asked.config), studio.texts.read(asked.config)
    domain = studio.known.of(config)
    facts = studio.known.facts(config)
    at_home = isinstance(config.population, InDwellings)
    cards = cards_of(config, domain, facts)
    return studio.page(
        "plan.html.j2",
        here="plan",
        config=asked.config,
        text=text,
        undo=studio.texts.can_undo(text),
        command=studio.command("plan", asked.config),
        again=asked.again,
        cards=cards,
        faults={one.name: studio.said(one.fault) for one in cards if one.fault},
        rehearsed={
            name: _rehearsed(studio, _Rehearsal.of(asked.config, name, way))
            for name, way in ways_in(config).items()
        },
        choice=config.choice,
        offered={one: one for one in OFFERED if at_home or not _of_households(one)},
        **_preview(asked, config, domain, facts),
    )


def preview(studio: Studio, asked: Asked) -> Response:
    """The part of the screen that follows the dial."""
    config = studio.texts.load(asked.config)
    found = _preview(asked, config, studio.known.of(config), studio.known.facts(config))
    return studio.page("plan_part.html.j2", config=asked.config, part=True, **found)


def _preview(asked: Asked, config: Config, domain: Domain, facts: Facts | None) -> dict[str, Any]:
    """What follows the dial: loss, expected errors, promise and ledger."""
    asks = {**asked.query, **asked.form}
    moved = asked.moved or asks.get("moved", "")
    now = dialled(config, domain, facts, moved=moved, asks=asks)
    chain = Chain.of(config.mechanism)
    promise = now.promise if now else chain.on(domain).promise(key_kind_of(config))
    book, dataset = config.run.ledger, config.run.dataset
    return {
        "now": now,
        "moved": moved,
        "steps": STEPS,
        "headings": HEADINGS,
        "promise": promise,
        "chart": draw_errors(now.far.rows) if now else "",
        "ledger": outlook(Ledger.open(book), dataset, promise) if book else None,
    }


def save(studio: Studio, asked: Asked) -> Response:
    """Write the loss that was dialled into the config."""
    chain = Chain.of(studio.texts.load(asked.config).mechanism)
    if not (currency := currency_of(chain)):
        raise ConfigError(
            asked.config, place="mechanism", found="a method without a loss", expected="one with it"
        )
    amount = exact(asked.field("amount"), name=currency)
    with_amount(chain, amount)  # refuses what the method refuses
    return studio.edit(asked, lambda text: put_loss(text, currency, amount), back="/plan")


def add(studio: Studio, asked: Asked) -> Response:
    """Another way to protect, to look at and to compare."""
    method = asked.field("method")
    parts = parts_of(method, studio.known.of(studio.texts.load(asked.config)))
    return studio.edit(asked, lambda text: add_case(text, method, parts), back="/plan")


def choose(studio: Studio, asked: Asked) -> Response:
    """A case becomes the method of the run, with the reason beside it."""
    name, reason = asked.field("case"), require(asked.field("reason"), "reason")
    return studio.edit(asked, lambda text: take_case(text, name, reason), back="/plan")


def drop(studio: Studio, asked: Asked) -> Response:
    """A case goes."""
    name = asked.field("case")

    def change(text: Any) -> None:
        drop_case(text, name)

    return studio.edit(asked, change, back="/plan")


def rehearse(studio: Studio, asked: Asked) -> Response:
    """A config with the same method on made-up people, to be compared and attacked without harm."""
    ways, case = ways_in(studio.texts.load(asked.config)), asked.field("case")
    if case not in ways:
        raise ConfigError("rehearsal", found=repr(case), expected=did_you_mean(case, ways))
    made = _Rehearsal.of(asked.config, case, ways[case])
    path = studio.folder.inside(made.name)
    if not path.exists():
        write_text_atomic(path, made.text)
    studio.texts.load(made.name)  # says at once what does not fit there
    return studio.go("/compare", config=made.name)


def _rehearsed(studio: Studio, rehearsal: _Rehearsal) -> str:
    """How risky the rehearsal of a method was, if there was one. Nobody in it is real."""
    if studio.folder.read(rehearsal.name) != rehearsal.text:
        return ""
    out = comparison_folder(studio.texts, rehearsal.name, Settings())
    found = FinishedComparison(studio.folder, out)
    return _rehearsal_outcome(found.read("tables/memo.csv"), rehearsal.case) if found.there else ""
