"""The screens of the start and of the data: what init proposes, edited as a form and as text."""

from __future__ import annotations

import html
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import pytest
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.config.load import config_digest, load_config
from headcount.init import draft, write_draft
from headcount.init.told import KINDS, FileKind
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
    """The fields of the form as the page has them, some changed; "0.name" is an attribute's."""
    fields = client.form("/data", "/data/edit", config="people.toml")
    long = {
        f"population.attribute.{name}" if name[0].isdigit() else name: value
        for name, value in changed.items()
    }
    return fields | long


@pytest.mark.parametrize(
    ("write", "kind"),
    [(messy_people, "people"), (wide_counts, "wide"), (dwellings, "dwellings")],
)
def test_a_look_proposes_what_init_decides(client: Client, write, kind: FileKind):
    path = folder(client) / "some.csv"
    write(path)
    page = client.get("/look", file="some.csv")
    assert page.status == 200
    assert f'<option value="" selected>found by looking: {KINDS[kind]}</option>' in page.text
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
    assert fields["population.units_from_data"] == "yes"
    fields["population.units_from_data"] = ""
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
    changed = {
        "0.levels": "w\nm",
        "1.bins": "0, 18 65",
        "2.missing": "drop",
        "population.public": "yes",
    }
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
    write_draft(
        draft(folder(client) / "plain.csv"), folder(client) / "people.toml", keep_account=False
    )
    assert client.post("/data/edit", **form(client, **{"0.name": "gender"})).status == 303
    assert attributes(client)[0]["name"] == "gender"
    assert attributes(client)[0]["column"] == "sex"


def test_the_first_screen_loads_nothing_that_only_later_ones_need():
    look = (
        "import sys\n"
        "from headcount.studio.app import screen_named\n"
        "import headcount.studio.serve\n"
        "screen_named('start.show')\n"
        "print([one for one in ('numba', 'altair', 'scipy') if one in sys.modules])\n"
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
        (before + 'workspace = "s3://bucket/files"\n', "found an address, expected a folder"),
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
    fields = form(written(client), **{"population.public": "yes"})
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
    for kind in ("towns",):
        assert client.post("/practise", kind=kind).at == f"/plan?config=practise-{kind}.toml"
        load_config(folder(client) / f"practise-{kind}.toml")
    assert "found &#39;none&#39;" in client.post("/practise", kind="none").text


@pytest.mark.parametrize("text", ["[population]\nattribute = 3\n", "[population\n", "x = 1"])
def test_a_text_that_is_no_config_can_be_mended(client: Client, text: str):
    written(client)
    (folder(client) / "people.toml").write_text(text)
    page = client.get("/data", config="people.toml")
    assert page.status == 422
    assert "Correct it, and the form comes back" in page.text
    assert text.splitlines()[-1] in page.text


def test_a_value_in_a_bad_file_is_shown_only_after_the_banner_was_accepted(client: Client):
    (folder(client) / "odd.csv").write_text("county,sex,people\n1,f,7\n2,m,9\n3,f,<5\n1,m,8\n")
    (folder(client) / "code.csv").write_text("geoid,sex\n47113,f\n4711,m\n")
    (folder(client) / "code.toml").write_text(
        '[population]\nkind = "microdata"\nfile = "code.csv"\n[population.geography]\n'
        'column = "geoid"\nprefixes = { county = 2, tract = 5 }\n[[population.attribute]]\n'
        'name = "sex"\nlevels = ["f", "m"]\n[mechanism]\nname = "topdown"\nepsilon = 1\n'
        '[run]\nout = "runs/code"\n'
    )
    for path, asked, value, said in (
        ("/look", {"file": "odd.csv"}, "<5", "odd.csv: column 'people', line 4: found ..., "),
        ("/plan", {"config": "code.toml"}, "4711", "code.csv: column 'geoid', line 3: found ..., "),
    ):
        text = html.unescape(client.get(path, **asked).text)
        assert value not in text
        assert f"<pre>{said}expected " in text
        assert "Accept the confidentiality notice to see values" in text
        gate = client.form(path, "/accept", **asked)
        assert client.post("/accept", **gate).at == f"{path}?{urlencode(asked)}"
        assert f"found '{value}'" in html.unescape(client.get(path, **asked).text)
        client.studio.accepted = False
    refused = client.post("/look", file="odd.csv", name="odd")
    assert "<5" not in html.unescape(refused.text)
    assert 'name="back" value="/look?file=odd.csv"' in refused.text
    # What a command says that fails is of the same kind.
    client.studio.jobs.start("protect code.toml", ["protect", "code.toml"]).process.wait()
    text = client.get("/run", config="code.toml").text
    assert not re.search(r"\b4711\b", text)  # not as part of a digest
    assert "code.csv: column &#39;geoid&#39;, line 3: found ..., expected a code of" in text
    client.post("/accept", **client.form("/run", "/accept", config="code.toml"))
    assert "found '4711'" in html.unescape(client.get("/run", config="code.toml").text)


BARE = """\
[population]
kind = "microdata"
file = "bare.csv"
[population.geography]
columns = ["west"]
[[population.attribute]]
name = "sex"
column = "w1"
levels = ["w0", "w1", "w2"]
[mechanism]
name = "topdown"
epsilon = 1
[run]
out = "runs/bare"
"""


@pytest.mark.parametrize(
    ("first", "below"),
    [
        ("west,w1,34", "{place},w{row},9{row}"),  # a number, where a name has letters
        ("west,w1,widow", "{place},w{row},9{row}"),  # a place that stands below too
        ("west,w1,widow", "eastern {row},place{row},single {row}"),  # nothing tells it apart
    ],
)
def test_a_first_line_that_may_be_a_person_is_shown_only_after_the_banner(
    client: Client, first: str, below: str
):
    name = "Ann Lee"
    rows = [below.format(place="east" if row % 2 else "west", row=row) for row in range(9)]
    lines = [f"{name},{first}", *(f"Nn {row},{fields}" for row, fields in enumerate(rows)), ""]
    (folder(client) / "bare.csv").write_text("\n".join(lines))
    (folder(client) / "bare.toml").write_text(BARE)
    page = client.get("/look", file="bare.csv")
    assert name not in page.text
    assert "the first line: found ..., expected a name for each column" in page.text
    assert "I understand: show it" in page.text
    page = client.get("/data", config="bare.toml")
    assert page.status == 200
    assert "role.w1" in page.text
    assert name not in page.text
    refused = client.post("/look", file="bare.csv", name="other")
    assert refused.status == 422
    assert name not in refused.text
    assert not (folder(client) / "other.toml").exists()
    client.post("/accept")
    assert name in client.get("/look", file="bare.csv", places="west").text
    assert name in client.get("/data", config="bare.toml").text


def test_a_refused_form_keeps_what_was_typed_unless_another_tab_was_first(client: Client):
    written(client)
    typed = form(client, **{"run.out": "../outside", "0.name": "gender"})
    page = client.post("/data/edit", **typed)
    assert page.status == 422
    assert 'name="run.out" value="../outside"' in page.text
    assert 'name="population.attribute.0.name" value="gender"' in page.text
    assert "outside" not in (folder(client) / "people.toml").read_text()
    path = folder(client) / "people.toml"
    path.write_text(path.read_text() + "# by another\n")
    page = client.post("/data/edit", **typed)
    assert "another tab or an editor has changed it" in page.text
    assert 'value="gender"' not in page.text


def test_undo_leaves_alone_what_an_editor_has_changed(client: Client):
    written(client)
    path = folder(client) / "people.toml"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    before = path.read_bytes()
    client.post("/data/edit", **form(client, **{"2.missing": "drop"}))
    ours = path.read_bytes()
    path.write_text(path.read_text() + "# a note of my own\n")
    theirs = path.read_bytes()
    page = client.get("/data", config="people.toml").text
    assert "can no longer be undone" in page
    assert "Undo the last edit" not in page
    refused = client.post("/data/undo", config="people.toml", version=version(client))
    assert "found a text that was changed elsewhere after the last edit made here" in refused.text
    assert path.read_bytes() == theirs
    path.write_bytes(ours)  # the editor undoes its own change: then ours can be undone, to the byte
    assert client.post("/data/undo", config="people.toml", version=version(client)).status == 303
    assert path.read_bytes() == before


def test_odd_files_neither_break_the_first_screen_nor_are_misread(client: Client):
    root = folder(client)
    for name in ("a:b.csv", "-x.csv"):
        messy_people(root / name)
    (root / os.fsdecode(b"caf\xe9.csv")).write_text("county,sex\n1,f\n")
    with closing(sqlite3.connect(root / "other.db")) as other:
        other.execute("CREATE TABLE t (x)")
    (root / "text.db").write_text("no database")
    (root / "huge.toml").write_text("[population]\n" + "# much\n" * 200_000)
    (root / "secret.toml").write_text("[population]\n")
    (root / "secret.toml").chmod(0)
    (root / "tool.toml").write_text("[tool]\n")
    text = client.get("/").text
    assert "1 file is not listed: the names hold characters that are not text" in text
    assert "other.db" not in text
    assert "text.db" not in text
    assert "tool.toml" not in text
    assert "huge.toml: found a file of" in text
    assert ("secret.toml: Permission denied" in text) == (os.geteuid() != 0)
    for name, shown in (("a:b.csv", "a:b"), ("-x.csv", "./-x")):
        page = client.get("/look", file=name)
        assert page.status == 200
        assert f"headcount init {shown}.csv" in page.text
        fields = client.form("/look", "/look", file=name)
        assert (
            client.post("/look", **fields).at == f"/data?{urlencode({'config': f'{shown}.toml'})}"
        )
        # What the page shows is what a shell runs, and no name is taken for an option.
        shown_command = html.unescape(
            re.findall(
                "<code>(headcount check .*)</code>",
                client.get("/data", config=f"{shown}.toml").text,
            )[0]
        )
        words = shlex.split(shown_command)[1:]
        done = CliRunner().invoke(app, [words[0], *(str(root / word) for word in words[1:])])
        assert done.exit_code == 0, done.output


def test_a_config_has_one_name(client: Client):
    written(client)
    client.post("/data/edit", **form(client, **{"2.missing": "drop"}))
    for name in ("./people.toml", ".//people.toml", "././people.toml"):
        page = client.get("/data", config=name).text
        assert "Data of people.toml" in page
        assert "Undo the last edit" in page
        assert client.form("/data", "/data/edit", config=name)["config"] == "people.toml"
    assert client.get("/data", config="x/../people.toml").status == 422
    assert (
        client.post("/data/undo", **form(client) | {"config": "./people.toml"}).at
        == "/data?config=people.toml"
    )


def test_a_shown_command_is_quoted_for_the_shell(client: Client):
    name = "it's; rm -rf $HOME.csv"
    messy_people(folder(client) / name)
    page = client.get("/look", file=name).text
    (shown,) = re.findall("<code>(headcount init .*)</code>", page)
    assert shlex.split(html.unescape(shown)) == ["headcount", "init", name]


def test_a_listing_that_is_cut_says_so(client: Client, monkeypatch: pytest.MonkeyPatch):
    assert "Not everything is listed" not in client.get("/").text
    (folder(client) / "a/b/c/d/e").mkdir(parents=True)
    assert "Not everything is listed" in client.get("/").text


def test_the_run_is_set_in_the_form_and_a_budget_is_declared(client: Client):
    written(client)
    fields = form(client, **{"run.out": "runs/other", "run.seed": "12"})
    assert client.post("/data/edit", **fields).status == 303
    text = (folder(client) / "people.toml").read_text()
    of_init = {"ledger": "people.csv.ledger.sqlite", "dataset": "people"}
    assert tomllib.loads(text)["run"] == {"out": "runs/other", "seed": 12, **of_init}
    assert "# publish release/ in it, never internal/" in text
    assert client.post("/data/edit", **form(client, **{"run.seed": "many"})).status == 422
    assert client.post("/data/edit", **form(client, **{"run.seed": ""})).status == 303
    declared = client.form("/data", "/data/ledger", config="people.toml")
    assert declared["ledger"] == "people.csv.ledger.sqlite"  # of init; another is as good
    declared |= {"ledger": "census.ledger.sqlite", "dataset": "census 2030"}
    declared |= {"total": "3/2", "unit": "change-one"}
    for wrong in (
        {"total": "-1"},
        {"total": "much"},
        {"unit": "x"},
        {"dataset": ""},
        {"ledger": "../l.sqlite"},
        {"version": "stale"},
    ):
        assert client.post("/data/ledger", **declared | wrong).status == 422, wrong
        text = (folder(client) / "people.toml").read_text()
        assert tomllib.loads(text)["run"] == {"out": "runs/other", **of_init}
    # A config that is refused whatever it says of ledgers: nothing is declared for it.
    path = folder(client) / "people.toml"
    good = path.read_text()
    path.write_text(good.replace('"topdown"', '"magic"'))
    refused = client.post("/data/ledger", **declared | {"version": version(client)})
    assert "found &#39;magic&#39;" in refused.text
    path.write_text(good)
    assert not (folder(client) / "census.ledger.sqlite").exists()
    assert client.post("/data/ledger", **declared).status == 303
    run = tomllib.loads((folder(client) / "people.toml").read_text())["run"]
    assert run == {"out": "runs/other", "ledger": "census.ledger.sqlite", "dataset": "census 2030"}
    balance = Ledger.open(folder(client) / run["ledger"]).balance("census 2030")
    assert (balance.dataset.total.currency, str(balance.remaining)) == ("epsilon", "3/2")
    # Until something is recorded the total may be another; then it stands.
    other = client.form("/data", "/data/ledger", config="people.toml") | {"total": "1"}
    assert client.post("/data/ledger", **other).status == 303
    book = Ledger.open(folder(client) / run["ledger"])
    assert str(book.balance("census 2030").remaining) == "1"
    half = PureLoss(epsilon=exact("1/2", name="epsilon"), unit=UnitOfPrivacy.CHANGE_ONE)
    book.spend("census 2030", half, run_id="1", key_kind="os", data_digest="d", config_digest="c")
    refused = client.post("/data/ledger", **other | {"total": "9", "version": version(client)})
    assert "a total stands once something is recorded on it" in refused.text


def test_a_ledger_outside_the_folder_is_named(client: Client):
    written(client)
    path = folder(client) / "people.toml"
    path.write_text(path.read_text().replace('"people.csv.ledger.sqlite"', '"../l.sqlite"'))
    page = client.get("/data", config="people.toml")
    assert page.status == 422
    assert "run: ledger: found a path outside" in page.text
    assert "Start the studio in a folder that holds both" in page.text
