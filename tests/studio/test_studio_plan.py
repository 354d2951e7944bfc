"""The screen of the plan: a dial in one unit, its accuracy, cards, and what is left."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from markupsafe import escape

from headcount.config.edit import OFFERED, MethodTable
from headcount.config.load import load_config
from headcount.errors import InputError
from headcount.init import draft, write_draft
from headcount.mechanisms import Chain, ChainDesign
from headcount.privacy import Guarantee, Ledger, PureLoss, UnitOfPrivacy
from headcount.run.plan import Goal, least_loss, with_amount
from headcount.run.plan import plan as planned
from headcount.run.protect import prepare_run
from headcount.studio.wanted import (
    STEPS,
    _at_dial,
    _dial_of,
)
from tests.studio.client import Client, running
from tests.studio.people import declare, dwellings, messy_people, wide_counts

SWAP = "Swapping of people, then cell keys"
SWAPPED: tuple[MethodTable, ...] = (
    {"name": "person-swapping", "rate": "0.1", "kind": "random", "level": "block"},
    {"name": "cell-key", "maximum": 2, "variance": 1},
)


@pytest.fixture
def swapping_is_offered(monkeypatch: pytest.MonkeyPatch):
    """A method of papers, of two steps: the first has a level."""
    monkeypatch.setitem(OFFERED, SWAP, SWAPPED)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("census")
    messy_people(folder / "people.csv")
    write_draft(draft(folder / "people.csv"), folder / "people.toml", keep_account=False)
    with running(folder) as made:
        yield made


@pytest.fixture
def client(served: Client) -> Iterator[Client]:
    """The same folder for each test, with the config and the list of places as they were."""
    root = served.studio.folder.root
    kept = {root / name: (root / name).read_bytes() for name in ("people.toml", "people.units.csv")}
    yield served
    for path, content in kept.items():
        path.write_bytes(content)


def tables(client: Client) -> dict[str, Any]:
    return tomllib.loads((client.studio.folder.root / "people.toml").read_text())


def change(client: Client, path: str, **fields: str):
    version = client.studio.texts.read("people.toml").version
    return client.post(path, config="people.toml", version=version, **fields)


def chain(client: Client) -> Chain:
    return Chain.of(load_config(client.studio.folder.root / "people.toml").mechanism)


def test_the_plan_shows_what_the_library_expects(client: Client):
    page = client.get("/plan", config="people.toml")
    config = load_config(client.studio.folder.root / "people.toml")
    far = planned(Chain.of(config.mechanism), config.population.domain()).far
    for row in far.table():
        assert "".join(f"<td>{text}</td>" for text in row[:2]) in page.text
        assert f'<td class="number">{row[3]}</td><td class="number">{row[4]}</td>' in page.text
    for one in far.words():
        assert f'<p class="note">{escape(one)}</p>' in page.text
    assert "Differential privacy: epsilon 1 when one person&#39;s record changes." in page.text
    assert '<svg role="img"' in page.text


def test_dial_and_accuracy_move_together(client: Client):
    def shown(**query: str) -> str:
        return client.get("/plan/preview", config="people.toml", **query).text

    far = shown(moved="dial", dial=str(_dial_of(Fraction(2))))
    assert "<strong>epsilon 2</strong>" in far
    assert "not yet in the config" in far
    aim = shown(moved="people", people="12", target="Region: total")
    (said,) = re.findall(r"<strong>epsilon ([\d.]+)</strong>", aim)
    amount = Fraction(said)
    config = load_config(client.studio.folder.root / "people.toml")
    found = planned(with_amount(chain(client), amount), config.population.domain())
    row = found.far["Region", "total"]
    assert row.within == 12
    assert f"{row.sentence('people')}." in aim
    assert tables(client)["mechanism"]["epsilon"] == 1


@pytest.mark.parametrize("moved", ["dial", "amount", "people"])
def test_the_control_that_is_moved_is_not_replaced_under_the_hand(client: Client, moved: str):
    fields = {"dial": "70", "amount": "2", "people": "20", "target": "Region: total"}
    sent = {**client.headers(), "HX-Request": "true", "HX-Trigger-Name": moved}
    target = client.target("/plan/preview", config="people.toml", **fields)
    text = client.send("GET", target, sent).text
    replaced = set(re.findall(r'id="(\w+)"[^>]*hx-swap-oob', text))
    assert replaced == {"dial", "amount", "people"} - {moved}
    assert re.findall(r'id="(save-amount)"[^>]*hx-swap-oob', text)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"moved": "people", "people": "-1", "target": "Region: total"}, "a number above 0"),
        ({"moved": "people", "people": "many", "target": "Region: total"}, "people"),
        ({"moved": "people", "people": "5", "target": "none"}, "found none., expected one of"),
        ({"moved": "amount", "amount": "0"}, "epsilon"),
        ({"moved": "amount", "amount": "much"}, "epsilon"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_its_place(client: Client, query, said: str):
    sent = {**client.headers(), "HX-Request": "true"}
    target = client.target("/plan/preview", config="people.toml", **query)
    page = client.send("GET", target, sent)
    assert 'role="alert"' in page.text
    assert said in page.text
    assert page.status == 200


def test_the_dial_covers_what_it_says():
    assert _at_dial("0") == Fraction(1, 100)
    assert _at_dial(str(STEPS)) == 100
    assert [_dial_of(_at_dial(str(n))) for n in range(0, STEPS + 1, 10)] == [
        *range(0, STEPS + 1, 10)
    ]
    assert _dial_of(Fraction(10**6)) == STEPS
    assert _at_dial("999") == 100


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
@pytest.mark.parametrize("people", [0.5, 7, 300])
def test_a_loss_for_an_accuracy_is_enough_and_hardly_more(client: Client, currency, people):
    config = load_config(client.studio.folder.root / "people.toml")
    path = client.studio.folder.root / "people.toml"
    path.write_text(path.read_text().replace("epsilon = 1 ", f"{currency} = 1 "))
    domain, target = config.population.domain(), ("Bezirk", "total")
    design = chain(client).on(domain)
    amount = getattr(least_loss(design, [Goal(*target, people)], None).chain.last, currency)
    part = Fraction(49, 50) ** (2 if currency == "rho" else 1)
    shares = []
    for one in (amount, amount * part):
        share = planned(with_amount(chain(client), one), domain).far[target].share
        assert share is not None
        shares.append(share(people))
    assert shares[0] >= 0.95 > shares[1]


def test_a_dialled_loss_is_put_into_the_config_and_can_be_undone(client: Client):
    before = tables(client)
    assert change(client, "/plan/save", amount="0.35").at == "/plan?config=people.toml"
    assert tables(client)["mechanism"]["epsilon"] == "0.35"
    assert "the privacy loss: less protects more" in client.studio.texts.read("people.toml").text
    assert change(client, "/data/undo", back="/plan").at == "/plan?config=people.toml"
    assert tables(client) == before
    assert change(client, "/plan/save", amount="-1").status == 422
    assert tables(client) == before


def test_every_method_that_is_offered_is_a_card_or_says_why_not(client: Client):
    for method in [*OFFERED, *OFFERED]:
        assert change(client, "/plan/add", method=method).status == 303
    page = client.get("/plan", config="people.toml")
    assert page.status == 200
    for method in OFFERED:
        assert f">{method}</h2>" in page.text
        assert f">{method} 2</h2>" in page.text


@pytest.mark.usefixtures("swapping_is_offered")
def test_a_method_without_a_guarantee_says_what_it_keeps_and_changes(client: Client):
    change(client, "/plan/add", method=SWAP)
    text = client.get("/plan", config="people.toml").text
    assert "No differential-privacy guarantee." in text
    assert "What it changes: person-swapping: records are published as they are" in text


def test_what_a_card_says_of_the_data_is_shown_after_the_banner(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    for _ in range(2):
        change(client, "/plan/add", method="Cell keys")

    promise = ChainDesign.promise

    def refused(design: ChainDesign, key_kind: str) -> Guarantee:
        if design.chain.last.name == "cell-key":
            raise InputError("people.csv", place="column 'age'", found="'4711'", expected="ages")
        return promise(design, key_kind)

    monkeypatch.setattr(ChainDesign, "promise", refused)
    text = client.get("/plan", config="people.toml").text
    assert text.count("column &#39;age&#39;: found ..., expected ages") == 2
    assert not re.search(r"\b4711\b", text)  # not as part of a digest
    assert text.count("I understand: show it") == 1
    gate = client.form("/plan", "/accept", config="people.toml")
    assert client.post("/accept", **gate).at == "/plan?config=people.toml"
    text = client.get("/plan", config="people.toml").text
    client.studio.accepted = False
    assert text.count("found &#39;4711&#39;") == 2
    assert "I understand: show it" not in text


@pytest.mark.usefixtures("swapping_is_offered")
def test_a_rehearsal_of_swapping_swaps_between_the_places_of_made_up_people(client: Client):
    name = SWAP
    change(client, "/plan/add", method=name)
    rehearsal = change(client, "/plan/rehearse", case=name).at.partition("config=")[2]
    made = load_config(client.studio.folder.root / rehearsal)
    assert [one.name for one in made.mechanism] == ["person-swapping", "cell-key"]
    assert getattr(made.mechanism[0], "level") == "block"  # noqa: B009
    assert made.population.kind == "towns"
    assert client.get("/plan", config=rehearsal).status == 200
    # A case may have any name: none is taken for the method of the config.
    path = client.studio.folder.root / "people.toml"
    path.write_text(path.read_text().replace(f'name = "{name}"', 'name = "own"'))
    text = client.get("/plan", config="people.toml").text
    assert ">own</h2>" in text
    assert ">The method of this config</h2>" in text
    again = change(client, "/plan/rehearse", case="own").at.partition("config=")[2]
    assert load_config(client.studio.folder.root / again).mechanism == made.mechanism
    assert "not rehearsed yet" in client.get("/plan", config="people.toml").text
    assert "found &#39;none&#39;" in change(client, "/plan/rehearse", case="none").text


@pytest.mark.usefixtures("swapping_is_offered")
def test_a_case_becomes_the_method_with_its_reason_and_the_old_one_stays_a_case(client: Client):
    change(client, "/plan/add", method=SWAP)
    name = SWAP
    change(client, "/plan/choose", case=name, reason="as in\n2011")
    found = tables(client)
    assert [one["name"] for one in found["mechanism"]] == ["person-swapping", "cell-key"]
    assert [one["name"] for one in found["case"]] == [f"before: {name}"]
    assert found["choice"] == {"case": name, "reason": "as in 2011"}
    assert "Reason: as in 2011" in client.get("/plan", config="people.toml").text
    assert "has no privacy loss to choose" in client.get("/plan", config="people.toml").text
    assert "a method without a loss" in change(client, "/plan/save", amount="1").text
    assert "found nothing" in change(client, "/plan/choose", case=f"before: {name}").text
    change(client, "/plan/drop", case=f"before: {name}")
    assert "case" not in tables(client)
    gone = change(client, "/plan/choose", case="none", reason="x")
    assert "found &#39;none&#39;" in gone.text


def test_the_plan_says_what_the_ledger_would_have_left_and_refuses_more(client: Client):
    path = client.studio.folder.root / "people.toml"
    declare(client.studio.folder.root / "l.sqlite", dataset="census", epsilon="2")
    path.write_text(path.read_text() + 'ledger = "l.sqlite"\ndataset = "census"\n')
    text = client.get("/plan", config="people.toml").text
    assert "Ledger of census: epsilon 2 is left; after this run it would be 1." in text
    more = client.get("/plan/preview", config="people.toml", moved="amount", amount="3").text
    assert "the release would exceed the declared total" in more
    assert "Declare another total</a>" in more
    Ledger.open(client.studio.folder.root / "l.sqlite").spend(
        "census",
        PureLoss(epsilon=Fraction(1), unit=UnitOfPrivacy.CHANGE_ONE),
        run_id="a",
        data_digest="d",
        config_digest="c",
        key_kind="os",
    )
    more = client.get("/plan/preview", config="people.toml", moved="amount", amount="3").text
    assert "the release would exceed the declared total" in more
    assert "Declare another total</a>" not in more  # it would be refused: a total stands by now


@pytest.mark.parametrize("write", [messy_people, wide_counts, dwellings])
def test_the_plan_promises_what_the_confirmation_and_the_release_do(client: Client, write):
    root = client.studio.folder.root
    name = f"{write.__name__}.toml"
    write(root / f"{write.__name__}.csv")
    write_draft(draft(root / f"{write.__name__}.csv"), root / name, keep_account=False)
    promise = prepare_run(load_config(root / name)).guarantee
    page = client.get("/plan", config=name)
    assert '<svg role="img"' in page.text
    assert promise.released_exactly
    assert promise.unit_means
    for sentence in promise.sentences():
        assert f"<li>{escape(sentence)}</li>" in page.text


def test_a_seeded_run_is_shown_as_not_private(client: Client):
    path = client.studio.folder.root / "people.toml"
    declare(client.studio.folder.root / "s.sqlite", dataset="census", epsilon="2")
    path.write_text(path.read_text() + 'seed = 1\nledger = "s.sqlite"\ndataset = "census"\n')
    text = client.get("/plan", config="people.toml").text
    assert 'role="alert">NOT PRIVATE, do not publish' in text
    assert "Not private: the run has a seed." in text
    assert "epsilon 2 is left. A run without a guarantee is recorded there as not private" in text


def test_places_are_read_again_when_their_list_changes(client: Client):
    root = client.studio.folder.root
    before = client.get("/plan", config="people.toml").text
    units = root / "people.units.csv"
    units.write_text(units.read_text(encoding="utf-8-sig") + "C;C1\nC;C2\nC;C3\nC;C4\n")
    assert client.get("/plan", config="people.toml").text != before


def test_markup_in_names_of_attributes_places_and_methods_is_text(client: Client):
    evil = "<img src=x onerror=alert(1)>"
    root = client.studio.folder.root
    lines = [f"Region;{evil};Sex"] + [
        f"{n % 2};{n % 4};{evil if n % 3 else 'f'}" for n in range(24)
    ]
    (root / "odd.csv").write_text("\n".join(lines))
    write_draft(
        draft(root / "odd.csv", places=["Region", evil]), root / "odd.toml", keep_account=False
    )
    text = (root / "odd.toml").read_text().replace('name = "sex"', f'name = "{evil}"')
    case = f'[[case]]\nname = "{evil}"\n[case.mechanism]\nname = "rounding"\nbase = 5\n'
    (root / "odd.toml").write_text(text + case)
    # No file of a release can be named so: the last of these says that.
    client.check("odd.toml")
    for path, status in (("/data", 200), ("/plan", 200), ("/run/confirm", 422)):
        page = client.get(path, config="odd.toml")
        assert page.status == status
        assert "<img" not in page.text
        assert "&lt;img src=x" in page.text
