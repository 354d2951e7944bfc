"""The last screens: a comparison inside the page, and what goes out."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headcount.config.load import load_config
from headcount.errors import InputError, RunError
from headcount.init import draft, write_draft
from headcount.release.directory import RunDirectory
from headcount.release.store import read_receipt
from headcount.report.inside import report_inside
from headcount.run.protect import protect_run
from headcount.run.publish import publish_checks, python_script, shell_script, write_zip
from tests.studio.client import Client, running
from tests.studio.people import messy_people

NAME = "people.toml"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("census")
    messy_people(folder / "people.csv", people=217)
    write_draft(draft(folder / "people.csv"), folder / NAME)
    with running(folder) as made:
        assert "There is no release yet" in made.get("/publish", config=NAME).text
        assert "found no finished release" in made.get("/publish/zip", config=NAME).text
        protect_run(folder / NAME)
        yield made


def release(client: Client) -> Path:
    return client.studio.folder.root / "runs/people/release"


def test_what_goes_out_and_what_must_not_is_said_file_by_file(client: Client):
    text = client.get("/publish", config=NAME).text
    for path in release(client).iterdir():
        assert f"release/{path.name}" in text
    assert "<strong>internal/</strong>" in text
    assert "the data dictionary" in text
    assert "6 files, by their SHA-256" in text
    assert "read from the data: which units exist" in text
    assert "217" not in text


def test_the_zip_has_the_release_alone_and_is_the_same_each_time(client: Client):
    first, second = (client.get("/publish/zip", config=NAME) for _ in range(2))
    assert first.headers["content-type"] == "application/zip"
    assert first.headers["content-disposition"] == 'attachment; filename="people-release.zip"'
    assert first.body == second.body
    with zipfile.ZipFile(io.BytesIO(first.body)) as archive:
        names = archive.namelist()
        assert sorted(names) == sorted(f"release/{one.name}" for one in release(client).iterdir())
        for name in names:
            own = release(client) / name.removeprefix("release/")
            assert archive.read(name) == own.read_bytes()


def test_a_changed_file_and_a_link_are_not_packed(client: Client, tmp_path: Path):
    own = release(client) / "whole.parquet"
    content = own.read_bytes()
    try:
        own.write_bytes(content + b"x")
        with pytest.raises(RunError, match="found a missing or changed file"):
            write_zip(RunDirectory(release(client).parent), io.BytesIO())
        assert client.get("/publish/zip", config=NAME).status == 422
        own.unlink()
        (tmp_path / "elsewhere").write_bytes(content)
        own.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(RunError, match="found a link, expected a plain file of the release"):
            write_zip(RunDirectory(release(client).parent), io.BytesIO())
    finally:
        own.unlink(missing_ok=True)
        own.write_bytes(content)


def test_a_release_elsewhere_is_not_packed(client: Client, tmp_path: Path):
    own = release(client)
    own.rename(tmp_path / "elsewhere")
    try:
        own.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(RunError, match="found a link, expected a folder of the run"):
            write_zip(RunDirectory(own.parent), io.BytesIO())
        assert client.get("/publish/zip", config=NAME).status == 422
    finally:
        own.unlink()
        (tmp_path / "elsewhere").rename(own)


def test_checks_before_publishing_are_of_the_release_whatever_the_config_says_now(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    directory = RunDirectory(release(client).parent)
    receipt = read_receipt(directory.release)
    monkeypatch.setattr(
        "headcount.run.publish.read_receipt",
        lambda _: {**receipt, "key_kind": "seed", "ledger": "dataset 'people'"},
    )
    found = {one.question: (one.passed, one.words) for one in publish_checks(directory)}
    assert found["Is the noise secret?"] == (False, "seeded: not private")
    assert found["Does a ledger keep account?"] == (True, "dataset 'people'")


def test_checks_before_publishing_fire(client: Client):
    directory = RunDirectory(release(client).parent)
    answers = [one.passed for one in publish_checks(directory)]
    assert answers == [True, True, True, True, False, False]
    key = directory.key
    receipt = release(client) / "receipt.json"
    content = receipt.read_text()
    try:
        key.write_text("secret")
        assert [one.passed for one in publish_checks(directory)][1] is False
        receipt.write_text(content.replace(" ", "", 1))
        with pytest.raises(RunError, match="found a missing or changed file"):
            publish_checks(directory)
    finally:
        key.unlink()
        receipt.write_text(content)


def test_the_scripts_make_the_release_again(client: Client, tmp_path: Path):
    root = client.studio.folder.root
    text = (root / NAME).read_text().replace("epsilon = 1 ", "epsilon = 7 ")
    for name in ("people.csv", "people.units.csv"):
        (tmp_path / name).write_bytes((root / name).read_bytes())
    (tmp_path / "again.py").write_text(python_script(NAME, text))
    subprocess.run([sys.executable, "again.py"], cwd=tmp_path, check=True, capture_output=True)
    receipt = json.loads((tmp_path / "runs/people/release/receipt.json").read_text())
    assert receipt["guarantee"]["losses"][0]["amount"] == "7"
    assert (tmp_path / NAME).read_text() == text
    assert "headcount protect 'my config.toml'" in shell_script("my config.toml", "runs/a")
    for odd in ("a = '''x'''\n", 'a = "\\n"\n', "a = 1"):
        scope: dict[str, object] = {}
        exec(python_script(NAME, odd).partition("config =")[0], scope)
        assert scope["TEXT"] == odd


def test_a_comparison_is_shown_inside_the_page_after_the_banner(client: Client):
    root = client.studio.folder.root
    config = root / "two.toml"
    # Two cases, so that the methods of the preset are left out.
    own = (root / NAME).read_text().replace('"runs/people"', '"runs/two"')
    case = '\n[[case]]\nname = "{0}"\n[case.mechanism]\nname = "{1}"\n'
    config.write_text(
        own
        + case.format("rounded <b>", "rounding")
        + "base = 5\n"
        + case.format("as is", "identity")
    )
    page = client.post("/compare/start", config="two.toml", preset="quick", replicates="1")
    assert page.at == "/compare?config=two.toml&preset=quick&replicates=1"
    job = client.studio.jobs.find("compare two.toml")
    assert job is not None
    while job.running:
        assert client.get("/compare/progress", config="two.toml").status == 200
        time.sleep(0.2)
    assert job.state == "done", job.words
    text = client.get("/compare", config="two.toml", replicates="1").text
    assert "I understand: show it" in text
    assert "What each" not in text
    client.post("/accept")
    page = client.get("/compare", config="two.toml", replicates="1")
    assert page.status == 200
    assert "<strong>Confidential.</strong>" in page.text
    assert 'id="summary"' in page.text
    assert page.text.count('<svg role="img"') >= 2
    assert page.text.count("<script") == 1
    assert " style=" not in page.text
    assert "rounded &lt;b&gt;" in page.text
    version = client.studio.texts.read("two.toml").version
    fields = {"config": "two.toml", "version": version, "preset": "quick", "replicates": "1"}
    assert "found nothing" in client.post("/compare/choose", case="rounded <b>", **fields).text
    refused = client.post("/compare/choose", case="none", reason="x", **fields)
    assert "found &#39;none&#39;" in refused.text
    chosen = client.post(
        "/compare/choose", case="rounded <b>", reason="plain\nto explain", **fields
    )
    assert chosen.at == "/plan?config=two.toml"
    choice = load_config(config).choice
    assert choice is not None
    assert (choice.case, choice.reason) == ("rounded <b>", "plain to explain")
    assert "Reason: plain to explain" in client.get("/plan", config="two.toml").text
    assert [one.name for one in load_config(config).mechanism] == ["rounding"]
    assert client.get("/compare", config="two.toml", preset="none").status == 422
    many = client.post("/compare/start", config="two.toml", replicates="many")
    assert "found &#39;many&#39;, expected a whole number, or nothing" in many.text


def test_a_report_with_a_script_in_its_text_is_not_shown(tmp_path: Path):
    path = tmp_path / "report.html"
    path.write_text('<main><p>x</p><script>1</script><section class="appendix"></section></main>')
    with pytest.raises(InputError, match="found a report with a script in its text"):
        report_inside(path)


def test_the_folder_of_a_comparison_may_not_be_a_link(client: Client, tmp_path: Path):
    root = client.studio.folder.root
    (root / "linked.toml").write_text((root / NAME).read_text())
    moved = root / "comparisons-kept"
    if (root / "comparisons").exists():
        (root / "comparisons").rename(moved)
    (root / "comparisons").symlink_to(tmp_path)
    try:
        assert "found a link" in client.post("/compare/start", config="linked.toml").text
        assert client.studio.jobs.find("compare linked.toml") is None
    finally:
        (root / "comparisons").unlink()
        if moved.exists():
            moved.rename(root / "comparisons")
