"""The screen of the run: nothing is spent unasked or twice, and a stopped run goes on."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headcount.init import draft, write_draft
from headcount.privacy import Ledger
from headcount.release.directory import RunDirectory
from headcount.run import protect
from headcount.studio.jobs import Job
from tests.studio.client import Answer, Client, running
from tests.studio.people import declare, messy_people

NAME = "people.toml"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    messy_people(tmp_path / "people.csv", people=217)
    write_draft(draft(tmp_path / "people.csv"), tmp_path / NAME)
    declare(tmp_path / "l.sqlite", dataset="census", epsilon="1.5")
    with (tmp_path / NAME).open("a") as config:
        config.write('ledger = "l.sqlite"\ndataset = "census"\n')
    with running(tmp_path) as made:
        yield made


def ledger(client: Client) -> Ledger:
    return Ledger.open(client.studio.folder.root / "l.sqlite")


def out(client: Client) -> RunDirectory:
    return RunDirectory(client.studio.folder.root / "runs/people")


def confirmation(page: Answer) -> str:
    found = re.search(r'name="once" value="([^"]+)"', page.text)
    assert found is not None, page.text
    return found[1]


def confirm(client: Client) -> str:
    return confirmation(client.get("/run/confirm", config=NAME))


def wait(client: Client) -> str:
    """Until the job has ended; what its page then says."""
    job = client.studio.jobs.find(f"protect {NAME}")
    assert job is not None
    while job.running:
        assert client.get("/run/progress", config=NAME).status == 200
        time.sleep(0.1)
    return client.get("/run", config=NAME).text


def unfinished(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that broke off after it had spent."""

    def broken(*_arguments: object, **_named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(protect, "protect", broken)
        with pytest.raises(KeyboardInterrupt):
            protect.protect_run(client.studio.folder.root / NAME)


def test_a_confirmation_names_dataset_loss_and_remainder_and_no_true_count(client: Client):
    text = client.get("/run/confirm", config=NAME).text
    assert '<th scope="row">Dataset</th><td>census</td>' in text
    assert '<th scope="row">Left now</th><td>epsilon 1.5</td>' in text
    assert "<strong>epsilon 1 when one person&#39;s record changes</strong>" in text
    assert "217" not in text
    assert "I understand: show it" in text
    assert client.post("/accept", back=f"/run/confirm?config={NAME}").at.startswith("/run/confirm")
    text = client.get("/run/confirm", config=NAME).text
    assert "217 people. Is that right?" in text
    assert "<strong>Confidential.</strong>" in text
    assert ledger(client).balance("census").runs == 0


def test_a_spend_clicked_many_times_at_once_is_one_run_and_one_spend(client: Client):
    once = confirm(client)
    with ThreadPoolExecutor(20) as pool:
        pages = list(
            pool.map(lambda _: client.post("/run/start", config=NAME, once=once), range(20))
        )
    assert {(page.status, page.at) for page in pages} == {(303, f"/run?config={NAME}")}
    assert "At work" in client.get("/run", config=NAME).text
    # While it works, the config stays as it was confirmed.
    version = client.studio.texts.read(NAME).version
    refused = client.post("/plan/save", config=NAME, version=version, amount="0.1")
    assert "found a run at work on it, expected none: stop the run first" in refused.text
    text = wait(client)
    assert "The release is complete, and its key is destroyed." in text
    assert "217" not in text
    assert client.post("/run/start", config=NAME, once=once).at == f"/run?config={NAME}"
    balance = ledger(client).balance("census")
    assert balance.runs == 1
    assert balance.spent == 1
    assert out(client).is_complete
    # A ledger that has too little left refuses the next run before anything is drawn.
    path = client.studio.folder.root / NAME
    path.write_text(path.read_text().replace('"runs/people"', '"runs/second"'))
    refused = client.get("/run/confirm", config=NAME)
    assert refused.status == 422
    assert "the release would exceed the declared total" in refused.text
    assert "once" not in refused.text
    assert not (client.studio.folder.root / "runs/second").exists()


def test_a_confirmation_is_for_the_config_that_was_shown(client: Client):
    once = confirm(client)
    version = client.studio.texts.read(NAME).version
    client.post("/plan/save", config=NAME, version=version, amount="1.25")
    page = client.post("/run/start", config=NAME, once=once)
    assert page.status == 422
    assert "found another text than the one that was confirmed" in page.text
    assert client.post("/run/start", config=NAME, once="guess").at == f"/run?config={NAME}"
    assert "found nothing" in client.post("/run/start", config=NAME).text
    assert client.studio.jobs.find(f"protect {NAME}") is None
    assert ledger(client).balance("census").runs == 0


@pytest.mark.parametrize(
    ("old", "new"), [("epsilon = 1 ", "epsilon = 1.25 "), ('"l.sqlite"', '"other.sqlite"')]
)
def test_a_config_that_an_editor_changes_after_the_confirmation_is_not_run(
    client: Client, monkeypatch: pytest.MonkeyPatch, old: str, new: str
):
    root = client.studio.folder.root
    declare(root / "other.sqlite", dataset="census", epsilon="9")
    once = confirm(client)
    start = client.studio.jobs.start

    def edited(about: str, arguments: list[str]) -> Job:
        """An editor comes between the studio's last look and the start of the command."""
        path = root / NAME
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
        return start(about, arguments)

    monkeypatch.setattr(client.studio.jobs, "start", edited)
    client.post("/run/start", config=NAME, once=once)
    assert "found another text than the one that was confirmed" in wait(client)
    assert ledger(client).balance("census").runs == 0
    assert Ledger.open(root / "other.sqlite").balance("census").runs == 0
    assert not out(client).path.exists()


def test_a_run_that_was_killed_is_resumed_without_a_second_spend(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    unfinished(client, monkeypatch)
    assert ledger(client).balance("census").spent == 1
    assert "Resume" in client.get("/").text
    assert "A run was begun here and is not finished" in client.get("/run", config=NAME).text
    page = client.get("/run/confirm", config=NAME)
    assert "on the books already: not spent again" in page.text
    client.post("/run/start", config=NAME, once=confirmation(page))
    client.post("/run/cancel", config=NAME)
    text = client.get("/run", config=NAME).text
    assert "Stopped. What was finished is kept." in text
    client.post("/run/start", config=NAME, once=confirm(client))
    assert "The release is complete" in wait(client)
    balance = ledger(client).balance("census")
    assert balance.runs == 1
    assert balance.spent == 1


def test_a_run_that_can_never_complete_is_given_up_with_a_reason(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    unfinished(client, monkeypatch)
    assert "found no reason" in client.post("/run/close", config=NAME, why=" ").text
    page = client.post("/run/close", config=NAME, why="the disk is full")
    assert "closed; its key is destroyed; its spend on" in page.text
    assert "Given up" in client.get("/run", config=NAME).text
    assert ledger(client).balance("census").spent == 1


def test_a_run_that_fails_says_what_its_command_said(client: Client):
    once = confirm(client)
    (client.studio.folder.root / "people.csv").unlink()
    client.post("/run/start", config=NAME, once=once)
    text = wait(client)
    assert "error: " in text
    assert "people.csv" in text
    assert ledger(client).balance("census").runs == 0


def test_data_that_cannot_be_read_are_refused_before_a_confirmation(client: Client):
    (client.studio.folder.root / "people.csv").write_text("a;b\n1;2\n")
    page = client.get("/run/confirm", config=NAME)
    assert page.status == 422
    assert "cannot run as it stands" in page.text


def test_a_studio_that_stops_ends_its_jobs(tmp_path: Path):
    messy_people(tmp_path / "people.csv")
    write_draft(draft(tmp_path / "people.csv"), tmp_path / NAME)
    with running(tmp_path, idle=1) as client:
        client.post("/run/start", config=NAME, once=confirm(client))
        job = client.studio.jobs.find(f"protect {NAME}")
        assert job is not None
        # A studio with a run at work is not idle.
        time.sleep(1.5)
        assert not job.running or not client.server.server.should_exit
    assert not job.running
