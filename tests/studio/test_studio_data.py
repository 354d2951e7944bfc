"""The screens of the start and of the data: what init proposes, edited as a form and as text."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headcount.config.load import config_digest, load_config
from headcount.init import draft, write_draft
from headcount.privacy import Ledger, PureLoss, UnitOfPrivacy
from headcount.privacy.loss import exact
from headcount.release.store import check_files
from headcount.run.protect import protect_run
from tests.studio.client import Client, running
from tests.studio.people import dwellings, messy_people, wide_counts


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    messy_people(tmp_path / "people.csv")
    with running(tmp_path) as made:
        yield made


def folder(client: Client) -> Path:
    return client.studio.folder.root


def written(client: Client) -> Client:
    """A studio whose messy file has a config."""
    assert client.post("/look", file="people.csv", name="people.toml").at == (
        "/data?config=people.toml"
    )
    return client


def version(client: Client) -> str:
    return client.studio.texts.read("people.toml").version


def form(client: Client, **changed: str) -> dict[str, str]:
    """The fields of the form as the page has them."""
    people = tomllib.loads((folder(client) / "people.toml").read_text())["population"]
    fields = {"config": "people.toml", "version": version(client)}
    fields |= {"units": people["units"], "places": ", ".join(people["geography"]["columns"])}
    fields |= {"units_from_data": "yes"} if people.get("units_from_data") else {}
    for number, one in enumerate(people["attribute"]):
        fields[f"{number}.name"] = one["name"]
        fields[f"{number}.missing"] = one.get("missing", "refuse")
        fields[f"{number}.missing_values"] = ", ".join(one.get("missing_values", []))
        fields |= {f"{number}.levels": "\n".join(one["levels"])} if "levels" in one else {}
        fields |= {f"{number}.bins": str(one["bins"])} if "bins" in one else {}
        fields |= {f"{number}.levels_from_data": "yes"} if one.get("levels_from_data") else {}
    return fields | changed


@pytest.mark.parametrize(
    ("write", "kind"),
    [(messy_people, "people"), (wide_counts, "wide"), (dwellings, "dwellings")],
)
def test_a_look_proposes_what_init_decides(client: Client, write, kind: str):
    path = folder(client) / "some.csv"
    write(path)
    page = client.get("/look", file="some.csv")
    assert page.status == 200
    assert f'<option value="{kind}" selected>' in page.text
    assert "some.toml" in page.text
    assert not (folder(client) / "some.toml").exists()


def test_what_is_written_is_what_init_writes(client: Client):
    written(client)
    own = folder(client) / "second.toml"
    write_draft(draft(folder(client) / "people.csv"), own)
    clicked = (folder(client) / "people.toml").read_text()
    assert clicked == own.read_text().replace("second", "people")
    assert client.post("/look", file="people.csv", name="people").status == 422


def test_markup_in_names_of_columns_and_levels_is_text(client: Client):
    written(client)
    for page in (client.get("/look", file="people.csv"), client.get("/data", config="people.toml")):
        assert "<b>Stand" not in page.text
        assert "&lt;b&gt;Stand&lt;/b&gt;" in page.text
        assert "& <i>" not in page.text


def test_a_file_without_places_says_what_it_needs(client: Client):
    (folder(client) / "odd.csv").write_text("x,y\n1,a\n2,b\n")
    page = client.get("/look", file="odd.csv")
    assert "no column named like one" in page.text
    assert "The columns: x, y" in page.text
    assert client.get("/look", file="odd.csv", places="x", kind="people").status == 200
    assert "found &#39;odd&#39;" in client.get("/look", file="odd.csv", kind="odd").text


def test_files_elsewhere_are_not_looked_at(client: Client):
    for name in ("../people.csv", "/etc/passwd", ""):
        assert client.get("/look", file=name).status == 422
        assert client.post("/look", file=name, name="x.toml").status == 422
    assert client.post("/look", file="people.csv", name="../x.toml").status == 422


def test_what_was_read_from_the_data_is_marked_until_a_public_list_is_given(client: Client):
    written(client)
    assert client.get("/data", config="people.toml").text.count('class="read-off"') == 4
    fields = form(client)
    del fields["units_from_data"]
    assert client.post("/data/edit", **fields).status == 303
    text = (folder(client) / "people.toml").read_text()
    assert "units_from_data" not in text
    assert client.get("/data", config="people.toml").text.count('class="read-off"') == 3


def test_a_form_without_changes_leaves_the_text_as_it_is(client: Client):
    written(client)
    before = (folder(client) / "people.toml").read_text()
    assert client.post("/data/edit", **form(client)).status == 303
    assert (folder(client) / "people.toml").read_text() == before
    assert "Undo" not in client.get("/data", config="people.toml").text


def test_edits_of_the_form_stand_in_the_text_and_comments_stay(client: Client):
    written(client)
    changed = {"0.levels": "w\nm", "1.bins": "0, 18 65", "2.missing": "drop", "public": "yes"}
    assert client.post("/data/edit", **form(client, **changed)).status == 303
    text = (folder(client) / "people.toml").read_text()
    people = tomllib.loads(text)["population"]
    assert people["public"] is True
    assert people["attribute"][0]["levels"] == ["w", "m"]
    assert people["attribute"][1]["bins"] == [0, 18, 65]
    assert people["attribute"][2]["missing"] == "drop"
    assert "# who" not in text
    assert "# true if everybody may see the file" in text
    assert "# What was decided:" in text


def test_an_attribute_can_be_left_out_and_taken_back_in(client: Client):
    written(client)
    client.post("/data/edit", **form(client, **{"role.Geschlecht": ""}))
    assert "geschlecht" not in [one["name"] for one in attributes(client)]
    client.post("/data/edit", **form(client, **{"role.Geschlecht": "attribute"}))
    found = attributes(client)[-1]
    assert found == {
        "name": "geschlecht",
        "column": "Geschlecht",
        "levels": ["m", "w"],
        "levels_from_data": True,
    }


def test_a_column_changes_from_one_role_to_another_and_back(client: Client):
    written(client)
    before = tomllib.loads((folder(client) / "people.toml").read_text())["population"]
    text = client.get("/data", config="people.toml").text
    assert re.findall(r'name="role.(\w+)">\s*.*?value="(\w*)" selected', text) == [
        ("Region", "place"),
        ("Bezirk", "place"),
        ("Geschlecht", "attribute"),
        ("Alter", "attribute"),
        ("Notiz", ""),
    ]
    for role in ("place", "person_id", "count", "attribute", ""):
        page = client.post("/data/edit", **form(client, **{"role.Notiz": role}))
        assert page.status == 303, page.text
        people = tomllib.loads((folder(client) / "people.toml").read_text())["population"]
        places = ["Region", "Bezirk", *(["Notiz"] if role == "place" else [])]
        assert people["geography"]["columns"] == places
        assert people.get("person_id") == ("Notiz" if role == "person_id" else None)
        assert people.get("count") == ("Notiz" if role == "count" else None)
        assert ("notiz" in [one["name"] for one in people["attribute"]]) == (role == "attribute")
    assert people == before
    refused = client.post("/data/edit", **form(client, **{"role.Notiz": "key"}))
    assert refused.status == 422
    assert "people.toml: population.key: found an unknown key" in refused.text


def test_a_new_name_of_an_attribute_leaves_its_column_alone(client: Client):
    (folder(client) / "plain.csv").write_text("county,sex\n1,f\n2,m\n")
    write_draft(draft(folder(client) / "plain.csv"), folder(client) / "people.toml")
    assert client.post("/data/edit", **form(client, **{"0.name": "gender"})).status == 303
    assert attributes(client)[0]["name"] == "gender"
    assert attributes(client)[0]["column"] == "sex"


def test_the_first_screen_loads_nothing_that_only_later_ones_need():
    look = (
        "import sys\n"
        "from headcount.studio.app import screen_named\n"
        "import headcount.studio.serve\n"
        "screen_named('start.show')\n"
        "print([one for one in ('numba', 'altair', 'scipy', 'opendp') if one in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def attributes(client: Client) -> list[dict[str, object]]:
    found = tomllib.loads((folder(client) / "people.toml").read_text())
    return list(found["population"]["attribute"])


def test_every_edit_can_be_undone(client: Client):
    written(client)
    texts = [(folder(client) / "people.toml").read_text()]
    for changed in ({"0.levels": "w\nm"}, {"2.missing": "drop"}, {"role.Geschlecht": ""}):
        client.post("/data/edit", **form(client, **changed))
        texts.append((folder(client) / "people.toml").read_text())
    assert len(set(texts)) == 4
    for text in reversed(texts[:-1]):
        client.post("/data/undo", config="people.toml", version=version(client))
        assert (folder(client) / "people.toml").read_text() == text
    refused = client.post("/data/undo", config="people.toml", version=version(client))
    assert "found no edit, expected one to undo" in refused.text


def test_a_bad_text_is_refused_and_stays_on_the_page(client: Client):
    written(client)
    before = (folder(client) / "people.toml").read_text()
    for typed, said in (
        ("[population", "text that is not TOML"),
        (before.replace('"topdown"', '"magic"'), "expected one of"),
        (before.replace('"people.csv"', '"../people.csv"'), "found a path outside"),
        (before.replace('"runs/people"', '"/srv/runs"'), "found a path outside"),
        (before + 'workspace = "/srv/files"\n', "found a path outside"),
        (before + 'workspace = "s3://bucket/files"\n', "found a path outside"),
    ):
        page = client.post("/data/save", config="people.toml", version=version(client), text=typed)
        assert page.status == 422
        assert said in page.text
        assert typed.splitlines()[-1].replace('"', "&#34;") in page.text
    assert (folder(client) / "people.toml").read_text() == before


def test_a_text_from_the_page_is_saved_with_its_lines(client: Client):
    written(client)
    text = (folder(client) / "people.toml").read_text().replace("epsilon = 1", "epsilon = 2")
    sent = text.replace("\n", "\r\n")
    client.post("/data/save", config="people.toml", version=version(client), text=sent)
    assert (folder(client) / "people.toml").read_bytes() == text.encode()


def test_the_second_of_two_tabs_is_refused_and_nothing_is_lost(client: Client):
    written(client)
    first, second = form(client, **{"role.Geschlecht": ""}), form(client, **{"2.missing": "drop"})
    assert client.post("/data/edit", **first).status == 303
    kept = (folder(client) / "people.toml").read_text()
    page = client.post("/data/edit", **second)
    assert page.status == 422
    assert "another tab or an editor has changed it" in page.text
    assert (folder(client) / "people.toml").read_text() == kept


def test_of_many_edits_at_once_one_is_made(client: Client):
    fields = form(written(client), public="yes")
    with ThreadPoolExecutor(20) as pool:
        pages = list(pool.map(lambda _: client.post("/data/edit", **fields), range(20)))
    assert sorted({page.status for page in pages}) == [303, 422]
    assert len([page for page in pages if page.status == 303]) == 1
    assert "public = true" in (folder(client) / "people.toml").read_text()


def test_a_config_by_clicks_and_one_by_init_and_an_editor_are_the_same(client: Client):
    written(client)
    client.post("/data/edit", **form(client, **{"0.levels": "w\nm", "2.missing": "drop"}))
    own = folder(client) / "own.toml"
    write_draft(draft(folder(client) / "people.csv"), own)
    text = own.read_text().replace('levels = ["m", "w"]', 'levels = ["w", "m"]')
    head, _, tail = text.rpartition('missing = "level"')
    own.write_text(f'{head}missing = "drop"{tail}')
    clicked = load_config(folder(client) / "people.toml")
    assert config_digest(clicked) == config_digest(load_config(own))
    # And from the same key the same release, to the byte.
    digests = []
    for path in (folder(client) / "people.toml", own):
        path.write_text(re.sub('out = "runs/', 'seed = 7\nout = "runs/', path.read_text()))
        digests.append(check_files(protect_run(path) / "release")["files"])
        del digests[-1]["receipt.json"]  # which has the run's own id
    assert digests[0] == digests[1]


def test_the_start_lists_configs_runs_and_balances(client: Client):
    written(client)
    ledger = Ledger.create(folder(client) / "census.ledger.sqlite")
    ledger.declare(
        "<i>2030</i>",
        total=PureLoss(epsilon=exact("2", name="epsilon"), unit=UnitOfPrivacy("change-one")),
    )
    (folder(client) / "bad.toml").write_text("[population]\nkind = \n")
    run = folder(client) / "runs/people/internal"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    text = client.get("/").text
    assert "people.toml" in text
    assert "damaged" in text
    assert "&lt;i&gt;2030&lt;/i&gt;" in text
    assert "epsilon 2 left of 2" in text
    assert "bad.toml" in text
    assert "text that is not TOML" in text
    assert "people.units.csv" not in text


def test_practice_makes_a_config_of_made_up_people(client: Client):
    for kind in ("towns", "us1940"):
        assert client.post("/practise", kind=kind).at == f"/plan?config=practise-{kind}.toml"
        load_config(folder(client) / f"practise-{kind}.toml")
    assert "found &#39;none&#39;" in client.post("/practise", kind="none").text


@pytest.mark.parametrize("text", ["[population]\nattribute = 3\n", "[population\n", "x = 1"])
def test_a_text_that_is_no_config_can_be_mended(client: Client, text: str):
    written(client)
    (folder(client) / "people.toml").write_text(text)
    page = client.get("/data", config="people.toml")
    assert page.status == 422
    assert "Mend it, and the form comes back" in page.text
    assert text.splitlines()[-1] in page.text
