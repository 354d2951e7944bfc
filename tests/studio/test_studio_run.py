"""The screen of the run: nothing is spent unasked or twice, and a stopped run goes on."""

from __future__ import annotations

import re
import shlex
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from threading import Event
from urllib.parse import urlencode

import pytest

from headcount.config.load import Config, load_config
from headcount.init import draft, write_draft
from headcount.privacy import Ledger
from headcount.release.directory import RunDirectory
from headcount.run import protect
from headcount.studio.jobs import _Job
from headcount.studio.serve import LOOK
from tests.studio.client import Answer, Client, running
from tests.studio.people import declare, messy_people

NAME = "people.toml"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    messy_people(tmp_path / "people.csv", people=217)
    write_draft(draft(tmp_path / "people.csv"), tmp_path / NAME, keep_account=False)
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
    return confirmation(client.check(NAME))


def wait(client: Client, name: str = NAME) -> str:
    """Until the job has ended; what its page then says."""
    job = client.studio.jobs.find(f"protect {name}")
    assert job is not None
    while job.running:
        assert client.get("/progress", config=name, what="protect").status == 200
        time.sleep(0.1)
    return client.get("/run", config=name).text


def unfinished(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that broke off after it had spent."""

    def broken(*_arguments: object, **_named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(protect, "make_release", broken)
        with pytest.raises(KeyboardInterrupt):
            protect.protect_run(client.studio.folder.root / NAME)


def test_a_confirmation_names_dataset_loss_and_remainder_and_no_true_count(client: Client):
    text = client.check(NAME).text
    assert '<th scope="row">Dataset</th><td>census</td>' in text
    assert '<th scope="row">Left now</th><td>epsilon 1.5</td>' in text
    assert '<th scope="row">Left after this run</th><td><strong>epsilon 0.5</strong></td>' in text
    assert "Spend epsilon 1 of census and run</button>" in text
    assert "<strong>epsilon 1 when one person&#39;s record changes</strong>" in text
    assert not re.search(r"\b217\b", text)  # not as part of a digest
    assert "I understand: show it" in text
    assert client.post("/accept", back=f"/run/confirm?config={NAME}").at.startswith("/run/confirm")
    text = client.get("/run/confirm", config=NAME).text
    assert re.search(r"217 people in \d+ places. Is that right\?", text)
    assert "<strong>Confidential.</strong>" in text
    assert ledger(client).balance("census").runs == 0


def test_a_spend_clicked_many_times_at_once_is_one_run_and_one_spend(client: Client):
    root = client.studio.folder.root
    odd = "-my $(touch x) 'config'.toml"  # no command takes it for an option, or for a command
    (root / NAME).rename(root / odd)
    client.post("/run/check", config=odd)
    client.checked(f"./{odd}")
    page = client.get("/run/confirm", config=odd)
    once = confirmation(page)
    with ThreadPoolExecutor(20) as pool:
        pages = list(
            pool.map(lambda _: client.post("/run/start", config=odd, once=once), range(20))
        )
    job = client.studio.jobs.find(f"protect ./{odd}")
    assert job is not None
    job.process.send_signal(signal.SIGSTOP)  # it works until it has been looked at
    again = f"/run?{urlencode({'config': f'./{odd}'})}"
    assert {(one.status, one.at) for one in pages} <= {(303, again), (303, again.replace("./", ""))}
    assert "Running" in client.get("/run", config=odd).text
    # While it works, the config stays as it was confirmed.
    version = client.studio.texts.read(odd).version
    refused = client.post("/plan/save", config=odd, version=version, amount="0.1")
    assert "a run is at work on it. Stop the run first." in refused.text
    job.process.send_signal(signal.SIGCONT)
    text = wait(client, f"./{odd}")
    assert "The release is complete, and its key is destroyed." in text
    assert not re.search(r"\b217\b", text)  # not as part of a digest
    # What was run is what the page has shown.
    shown = re.findall(r"<code>(headcount protect .*?)</code>", page.text)
    assert [shlex.split(unescape(one))[1:] for one in shown] == [list(job.arguments)]
    assert not (root / "x").exists()
    (root / odd).rename(root / NAME)
    assert client.post("/run/start", config=NAME, once=once).at == f"/run?config={NAME}"
    balance = ledger(client).balance("census")
    assert balance.runs == 1
    assert balance.spent == 1
    assert out(client).is_complete
    # A ledger that has too little left refuses the next run before anything is drawn.
    path = client.studio.folder.root / NAME
    path.write_text(path.read_text().replace('"runs/people"', '"runs/second"'))
    refused = client.check(NAME)
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


def test_a_config_that_an_editor_changes_after_the_confirmation_is_not_run(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    root = client.studio.folder.root
    declare(root / "other.sqlite", dataset="census", epsilon="9")
    once = confirm(client)
    start = client.studio.jobs.start

    def edited(about: str, arguments: list[str]) -> _Job:
        """An editor comes between the studio's last look and the start of the command."""
        path = root / NAME
        text = path.read_text()
        path.write_text(text.replace('"l.sqlite"', '"other.sqlite"').replace("= 1 ", "= 1.25 "))
        assert load_config(path).run.ledger == root / "other.sqlite"
        return start(about, arguments)

    monkeypatch.setattr(client.studio.jobs, "start", edited)
    client.post("/run/start", config=NAME, once=once)
    text = wait(client)
    assert 'role="alert"' in text
    assert "found another text than the one that was confirmed" in text
    assert ledger(client).balance("census").runs == 0
    assert Ledger.open(root / "other.sqlite").balance("census").runs == 0
    assert not out(client).path.exists()


def test_a_run_that_broke_off_is_offered_to_be_resumed_without_a_second_spend(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    unfinished(client, monkeypatch)
    assert ledger(client).balance("census").spent == 1
    assert "Resume" in client.get("/").text
    assert "A run was started here and is not finished" in client.get("/run", config=NAME).text
    page = client.check(NAME)
    assert "its loss is in the ledger already and is not spent again" in page.text
    assert "Resume the run</button>" in page.text


def test_a_run_that_can_never_complete_is_given_up_with_a_reason(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    unfinished(client, monkeypatch)
    assert "say why the run is closed" in client.post("/run/close", config=NAME, why=" ").text
    page = client.post("/run/close", config=NAME, why="the disk is full")
    assert "closed; its key is destroyed; its spend on" in page.text
    assert "Given up" in client.get("/run", config=NAME).text
    assert ledger(client).balance("census").spent == 1


def test_data_that_cannot_be_read_are_refused_before_a_confirmation(client: Client):
    (client.studio.folder.root / "people.csv").write_text("a;b\n1;2\n")
    page = client.check(NAME)
    assert page.status == 422
    assert "cannot run as it is" in page.text


def test_a_confirmation_reads_nothing_and_is_of_what_was_checked(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    again = f"/run?config={NAME}"
    assert client.get("/run/confirm", config=NAME).at == again
    assert client.check(NAME).status == 200

    def reads(*_arguments: object, **_named: object) -> None:
        raise AssertionError("the people were read")

    monkeypatch.setattr("headcount.population.microdata.count_people", reads)
    monkeypatch.setattr("headcount.population.microdata.read_people", reads)
    page = client.get("/run/confirm", config=NAME)
    assert page.status == 200
    with (client.studio.folder.root / "people.csv").open("ab") as file:
        file.write(b"\nA;A1;m;7;x;ledig")
    assert client.get("/run/confirm", config=NAME).at == again
    refused = client.post("/run/start", config=NAME, once=confirmation(page))
    assert "the data are not those that were checked" in refused.text
    assert client.studio.jobs.find(f"protect {NAME}") is None


def test_a_check_that_takes_long_shows_that_it_is_at_work_and_leads_to_what_it_found(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    begun, go_on = [], Event()

    def slow(config: Config) -> protect.Prepared:
        begun.append(config)
        go_on.wait(60)
        return protect.prepare_run(config)

    monkeypatch.setattr("headcount.studio.confirm.prepare_run", slow)
    monkeypatch.setattr("headcount.studio.run.SOON", 0.01)
    for _ in range(2):  # a second click finds the check at work
        client.post("/run/check", config=NAME)
        assert client.get("/run/confirm", config=NAME).at == f"/run?config={NAME}"
    page = client.get("/run", config=NAME).text
    assert "Reading and checking the data" in page
    assert "<progress " in page
    assert "Stop the run" not in page
    assert "hx-redirect" not in client.get("/progress", config=NAME, what="check").headers
    go_on.set()
    client.checked(NAME)
    led = client.get("/progress", config=NAME, what="check").headers["hx-redirect"]
    assert led == client.target("/run/confirm", config=NAME)
    assert "Spend epsilon 1 of census and run" in client.get("/run/confirm", config=NAME).text
    assert len(begun) == 1


def test_a_fault_of_a_check_is_said_without_its_numbers(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    def broken(_config: Config) -> protect.Prepared:
        raise ValueError("4711 people")

    monkeypatch.setattr("headcount.studio.confirm.prepare_run", broken)
    page = client.check(NAME)
    assert page.status == 422
    assert "a fault of headcount itself (ValueError)" in page.text
    assert not re.search(r"\b4711\b", page.text)  # not as part of a digest
    again = client.get("/run/confirm", config=NAME)  # which may be of another text by now
    assert again.at == f"/run?config={NAME}"


def test_a_seeded_run_is_confirmed_as_not_private_and_subtracts_nothing(client: Client):
    with (client.studio.folder.root / NAME).open("a") as config:
        config.write("seed = 7\n")
    text = client.check(NAME).text
    assert 'role="alert">NOT PRIVATE, do not publish' in text
    assert "<strong>epsilon 1.5</strong>: a run without a guarantee is recorded as not" in text
    assert "Run it, without a guarantee</button>" in text
    assert "Spend" not in text


def test_a_studio_that_stops_ends_its_jobs(tmp_path: Path):
    messy_people(tmp_path / "people.csv")
    write_draft(draft(tmp_path / "people.csv"), tmp_path / NAME, keep_account=False)
    with running(tmp_path) as client:
        client.post("/run/start", config=NAME, once=confirm(client))
        job = client.studio.jobs.find(f"protect {NAME}")
        assert job is not None
        # A studio with a run at work is not idle: it is held up until the studio has looked.
        job.process.send_signal(signal.SIGSTOP)
        client.server.idle = 0.0
        time.sleep(4 * LOOK)
        assert job.running
        assert not client.server.server.should_exit
        job.process.send_signal(signal.SIGCONT)
    assert not job.running
