"""The last screens: a comparison inside the page, and what goes out."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from headcount.comparison.settings import Settings
from headcount.config.load import config_digest, load_config
from headcount.errors import RunError
from headcount.init import draft, write_draft
from headcount.release import directory, store
from headcount.release.directory import RunDirectory, write_zip
from headcount.release.store import read_receipt
from headcount.run.protect import protect_run
from headcount.studio.known import comparison_folder
from headcount.studio.publish import _publish_checks, _ReleaseAgain
from tests.studio.client import Client, running
from tests.studio.people import messy_people
from tests.studio.visitor import Visitor, visit

NAME = "people.toml"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("studio") / "census"  # a name for the picture
    folder.mkdir()
    messy_people(folder / "people.csv", people=217)
    write_draft(draft(folder / "people.csv"), folder / NAME, keep_account=False)
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
    assert not re.search(r"\b217\b", text)  # not as part of a digest


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
        with pytest.raises(RunError, match="found a changed file"):
            write_zip(RunDirectory(release(client).parent), io.BytesIO())
        assert client.get("/publish/zip", config=NAME).status == 422
        own.unlink()
        (tmp_path / "elsewhere").write_bytes(content)
        own.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(RunError, match=r"whole\.parquet: found a link"):
            write_zip(RunDirectory(release(client).parent), io.BytesIO())
        own.unlink()
        with pytest.raises(RunError, match=r"whole\.parquet: found no plain file"):
            write_zip(RunDirectory(release(client).parent), io.BytesIO())
    finally:
        own.unlink(missing_ok=True)
        own.write_bytes(content)


@pytest.mark.parametrize("by", ["other bytes", "a link"])
def test_a_file_that_is_swapped_while_it_is_packed_is_not_packed(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
):
    """Somebody waits until the manifest has been checked, and then puts a secret in the place."""
    own, secret = release(client) / "whole.parquet", tmp_path / "secret"
    content = own.read_bytes()
    secret.write_bytes(b"secret")
    looked_at = store.manifest_in

    def swapped(*arguments: Any) -> Any:
        found = looked_at(*arguments)
        own.unlink()
        own.write_bytes(b"secret") if by == "other bytes" else own.symlink_to(secret)
        return found

    try:
        monkeypatch.setattr(directory, "manifest_in", swapped)
        packed = client.get("/publish/zip", config=NAME)
        assert packed.status == 422
        assert b"secret" not in packed.body
        assert ("found a changed file" if by == "other bytes" else "found a link") in packed.text
    finally:
        own.unlink()
        own.write_bytes(content)


def test_names_in_a_manifest_that_lead_out_are_not_packed(client: Client):
    manifest = release(client) / "manifest.json"
    content = manifest.read_text()
    tables = json.loads(content)
    tables["files"]["../internal/config.json"] = "0" * 64
    tables.pop("sha256")
    digest = sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()
    try:
        manifest.write_text(json.dumps({**tables, "sha256": digest}))
        with pytest.raises(RunError, match="in the manifest, expected names inside"):
            write_zip(RunDirectory(release(client).parent), io.BytesIO())
    finally:
        manifest.write_text(content)


def test_a_release_elsewhere_is_not_packed(client: Client, tmp_path: Path):
    own = release(client)
    own.rename(tmp_path / "elsewhere")
    try:
        own.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(RunError, match="found no folder or a link"):
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
        "headcount.studio.publish.read_receipt",
        lambda _: {**receipt, "key_kind": "seed", "ledger": "dataset 'people'"},
    )
    found = {one.question: (one.passed, one.words) for one in _publish_checks(directory)}
    assert found["Is the noise secret?"] == (False, "seeded: not private")
    assert found["Does a ledger keep account?"] == (True, "dataset 'people'")


def test_checks_before_publishing_fire(client: Client):
    directory = RunDirectory(release(client).parent)
    answers = [one.passed for one in _publish_checks(directory)]
    assert answers == [True, True, True, True, False, False]
    key = directory.key
    receipt = release(client) / "receipt.json"
    content = receipt.read_text()
    try:
        key.write_text("secret")
        assert [one.passed for one in _publish_checks(directory)][1] is False
        receipt.write_text(content.replace(" ", "", 1))
        with pytest.raises(RunError, match="found a missing or changed file"):
            _publish_checks(directory)
    finally:
        key.unlink()
        receipt.write_text(content)


def test_the_scripts_make_a_release_from_the_config_that_the_run_kept(
    client: Client, tmp_path: Path
):
    root = client.studio.folder.root
    text = (root / NAME).read_text()
    try:  # the config is another now, and the scripts are still those of the release
        (root / NAME).write_text(text.replace("epsilon = 1 ", "epsilon = 7 "))
        page = client.get("/publish", config=NAME).text
    finally:
        (root / NAME).write_text(text)
    shell, python = (unescape(one) for one in re.findall(r"<pre.*?<code>(.*?)</code>", page, re.S))
    for name in ("people.csv", "people.units.csv"):
        (tmp_path / name).write_bytes((root / name).read_bytes())
    (tmp_path / "again.py").write_text(python)
    subprocess.run([sys.executable, "again.py"], cwd=tmp_path, check=True, capture_output=True)
    receipt = read_receipt(tmp_path / "runs/people-again/release")
    assert receipt["guarantee"]["losses"][0]["amount"] == "1"
    kept = load_config(tmp_path / "people-again.toml")
    assert config_digest(kept) == config_digest(load_config(root / NAME))
    # The commands write the same config, whatever is in it.
    (tmp_path / "people-again.toml").unlink()
    (tmp_path / "bin").mkdir()
    stub = tmp_path / "bin" / "headcount"
    stub.write_text('#!/bin/sh\necho "$@" >> said\n')
    stub.chmod(0o700)
    (tmp_path / "again.sh").write_text(shell)
    path = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-eu", "again.sh"], cwd=tmp_path, check=True, env=path)
    assert load_config(tmp_path / "people-again.toml") == kept
    said = (tmp_path / "said").read_text().splitlines()
    assert said[1:] == ["protect people-again.toml", "evaluate runs/people-again"]


@pytest.mark.parametrize("odd", ["a = '''x'''\n", 'a = "\\n"\n', "a = 1", "END\nEND2\n$x `y`\n"])
def test_texts_of_any_kind_stand_in_the_scripts_as_they_are(tmp_path: Path, odd: str):
    again = _ReleaseAgain("my config.toml", "runs/a b", odd)
    scope: dict[str, object] = {}
    exec(again.python().partition("config =")[0], scope)
    assert scope["TEXT"] == odd
    shell = again.shell().partition("headcount check")
    subprocess.run(["sh", "-c", shell[0]], cwd=tmp_path, check=True)
    assert (tmp_path / "my config.toml").read_text().startswith(odd)
    assert shell[2].startswith(" 'my config.toml'\nheadcount protect 'my config.toml'\n")


@pytest.fixture(scope="module")
def compared(client: Client) -> Client:
    """A studio with a finished comparison of two.toml."""
    root = client.studio.folder.root
    # Two cases, so that the methods of the preset are left out.
    own = (root / NAME).read_text().replace('"runs/people"', '"runs/two"')
    case = '\n[[case]]\nname = "{0}"\n[case.mechanism]\nname = "{1}"\n'
    (root / "two.toml").write_text(
        own
        + case.format("rounded, base < 10", "rounding")
        + "base = 5\n"
        + case.format("as is", "identity")
    )
    page = client.post("/compare/start", config="two.toml", preset="quick", replicates="1")
    assert page.at == "/compare?config=two.toml&preset=quick&replicates=1"
    job = client.studio.jobs.find("compare two.toml")
    assert job is not None
    command = unescape(client.get("/compare", config="two.toml", replicates="1").text)
    assert shlex.join(("headcount", *job.arguments)) in command
    while job.running:
        assert client.get("/progress", config="two.toml", what="compare").status == 200
        time.sleep(0.2)
    assert job.state == "done", job.words
    return client


@pytest.mark.browser
def test_a_comparison_is_read_in_a_browser_and_its_summary_printed(compared: Client):
    compared.studio.accepted = False

    def way(visitor: Visitor) -> int:
        visitor.open("/compare", config="two.toml", replicates="1")
        assert visitor.page.locator("figure").count() == 0
        visitor.press("I understand: show it")
        visitor.look("compare", at="#choose-title")
        drawn = visitor.page.locator("figure svg").count()
        visitor.press("A summary to print")
        assert visitor.page.locator(".report section").count() == 2
        visitor.look()
        assert visitor.page.reload() is not None
        visitor.page.go_back()
        assert visitor.heading() == "Compare methods for two.toml"
        return drawn

    out = comparison_folder(compared.studio.texts, "two.toml", Settings(replicates=1))
    figures = compared.studio.folder.root / out / "internal/figures"
    assert visit(compared, way) == len(list(figures.glob("*.svg"))) > 0


def test_a_comparison_is_shown_inside_the_page_after_the_banner(compared: Client):
    client, root = compared, compared.studio.folder.root
    config = root / "two.toml"
    client.studio.accepted = False
    text = client.get("/compare", config="two.toml", replicates="1").text
    assert "I understand: show it" in text
    assert "What each" not in text
    client.post("/accept")
    page = client.get("/compare", config="two.toml", replicates="1")
    assert page.status == 200
    assert "<strong>Confidential.</strong>" in page.text
    assert 'id="report-summary"' in page.text
    assert page.text.count('<svg role="img"') >= 2
    assert page.text.count("<script") == 1
    assert " style=" not in page.text
    assert "rounded, base &lt; 10" in page.text
    done = comparison_folder(client.studio.texts, "two.toml", Settings(replicates=1))
    brief = client.get("/compare/summary", config="two.toml", of=done).text
    assert "Nothing has been chosen yet" in brief
    assert "<strong>Confidential.</strong>" in brief
    assert 'id="report-summary"' in brief
    assert 'id="report-limits"' in brief
    assert brief.count("<section") == 2
    assert "<form" not in brief
    for of in ("runs/people", "comparisons/../runs/people", "comparisons/none", ""):
        assert client.get("/compare/summary", config="two.toml", of=of).status == 422
    the_outcome_of_a_rehearsal_stands_on_its_card(client)
    # Other data have another comparison: the old one is not shown as theirs.
    os.utime(root / "people.csv", ns=(0, 0))
    assert "report-summary" not in client.get("/compare", config="two.toml", replicates="1").text
    version = client.studio.texts.read("two.toml").version
    fields = {"config": "two.toml", "version": version, "preset": "quick", "replicates": "1"}
    assert (
        "found nothing" in client.post("/compare/choose", case="rounded, base < 10", **fields).text
    )
    refused = client.post("/compare/choose", case="none", reason="x", **fields)
    assert "found &#39;none&#39;" in refused.text
    # The config's own method stays as it is written, with whatever files it names.
    mine = client.post(
        "/compare/choose", case="TopDown with pooling, as configured", reason="ours", **fields
    )
    assert mine.status == 303
    assert load_config(config).mechanism == load_config(root / NAME).mechanism
    fields["version"] = client.studio.texts.read("two.toml").version
    now = comparison_folder(client.studio.texts, "two.toml", Settings(replicates=1))
    chosen = client.post(
        "/compare/choose", case="rounded, base < 10", reason="plain\nto explain", **fields
    )
    assert chosen.at == f"/compare/summary?{urlencode({'config': 'two.toml', 'of': now})}"
    choice = load_config(config).choice
    assert choice is not None
    assert (choice.case, choice.reason) == ("rounded, base < 10", "plain to explain")
    assert "Reason: plain to explain" in client.get("/plan", config="two.toml").text
    after = client.get("/compare/summary", config="two.toml", of=done).text
    assert "Chosen: <strong>rounded, base &lt; 10</strong>. Reason: plain to explain" in after
    assert [one.name for one in load_config(config).mechanism] == ["rounding"]
    assert client.get("/compare", config="two.toml", preset="none").status == 422
    many = client.post("/compare/start", config="two.toml", replicates="many")
    assert "found &#39;many&#39;, expected a whole number, or nothing" in many.text


def the_outcome_of_a_rehearsal_stands_on_its_card(client: Client) -> None:
    """What a comparison found, which takes long: here the finished one stands for a rehearsal."""
    root, case = client.studio.folder.root, {"config": "two.toml", "case": "rounded, base < 10"}
    assert "not rehearsed yet" in client.get("/plan", config="two.toml").text
    rehearsal = client.post("/plan/rehearse", **case).at.partition("config=")[2]
    done = comparison_folder(client.studio.texts, "two.toml", Settings(replicates=1))
    shutil.copytree(
        root / done, root / comparison_folder(client.studio.texts, rehearsal, Settings())
    )
    text = client.get("/plan", config="two.toml").text
    found = re.search(r"risky it is:</strong> No attack .*are off by ([\d.]+) %", text)
    assert found is not None, text
    assert 0 < float(found[1]) <= 100
    # Other settings have another rehearsal, and this one stays as it is.
    config = root / "two.toml"
    before = config.read_text()
    config.write_text(before.replace("base = 5", "base = 3"))
    assert "not rehearsed yet" in client.get("/plan", config="two.toml").text
    assert client.post("/plan/rehearse", **case).at.partition("config=")[2] != rehearsal
    config.write_text(before)


REPORT = '<main><section id="s">{0}</section><section class="appendix"></section></main>'


@pytest.fixture
def comparison(client: Client) -> Iterator[Path]:
    """A comparison with a report that somebody else has written."""
    folder = client.studio.folder.root / comparison_folder(client.studio.texts, NAME, Settings())
    internal = folder / "internal"
    internal.mkdir(parents=True)
    (internal / "manifest.json").write_text("{}")
    (internal / "report.html").write_text(REPORT.format("<p>true counts</p>"))
    client.studio.accepted = True
    yield internal
    shutil.rmtree(folder)


def test_a_hostile_report_is_not_put_into_the_page(client: Client, comparison: Path):
    assert "<p>true counts</p>" in client.get("/compare", config=NAME).text
    hostile = '<form action="https://evil.example"><button hx-post="/stop">Spend</button></form>'
    (comparison / "report.html").write_text(REPORT.format(hostile))
    page = client.get("/compare", config=NAME)
    assert page.status == 422
    assert "found the tag &lt;form&gt;, expected a report as headcount writes it" in page.text
    assert "evil.example" not in page.text


@pytest.mark.parametrize("part", ["report.html", "figures", "figures/f.svg", ""])
def test_no_part_of_a_report_is_read_through_a_link(
    client: Client, comparison: Path, tmp_path: Path, part: str
):
    figure = '<figure id="f"><div class="chart"></div></figure>'
    (comparison / "report.html").write_text(REPORT.format(figure))
    (comparison / "figures").mkdir()
    (comparison / "figures/f.svg").write_text("<svg><text>a secret</text></svg>")
    assert "a secret" in client.get("/compare", config=NAME).text
    elsewhere = tmp_path / "elsewhere"
    (comparison / part).rename(elsewhere)
    (comparison / part).symlink_to(elsewhere)
    page = client.get("/compare", config=NAME)
    assert page.status == 422
    assert "found a link" in page.text
    assert "a secret" not in page.text
    if not part:
        comparison.unlink()


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
