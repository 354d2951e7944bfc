"""Attacks on the studio: each is refused, or harmless."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from select import select

import polars as pl
import pytest

from headcount.errors import InputError
from headcount.studio import security, serve
from headcount.studio.app import SCREENS, load_all, screen_named
from headcount.studio.folder import Folder
from headcount.studio.security import COOKIE, FIELD, MOST_BODY
from headcount.studio.start import plain_files
from tests.studio.client import Client, running

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("census")
    (folder / "people.csv").write_text("county,sex\n1,f\n")
    (folder / f"{EVIL}.csv").write_text("county,sex\n1,f\n")
    with running(folder) as made:
        yield made


def test_the_first_page_says_what_is_in_the_folder(client: Client):
    page = client.get("/")
    assert page.status == 200
    assert "people.csv" in page.text


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.example"]
)
def test_a_name_that_was_made_to_point_here_is_refused(client: Client, host: str):
    page = client.send("GET", client.target("/"), {**client.headers(), "Host": host})
    assert (page.status, page.text) == (403, "This request names another host.")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "file://"])
def test_a_page_of_another_origin_is_refused(client: Client, origin: str):
    sent = {**client.headers(), "Origin": origin}
    assert (
        client.send("GET", client.target("/"), sent).text == "This request comes from another page."
    )
    page = client.post("/accept", headers={"Origin": origin})
    assert (page.status, page.text) == (403, "This request comes from another page.")
    assert not client.studio.accepted


def test_a_change_that_does_not_say_where_it_comes_from_is_refused(client: Client):
    page = client.send("POST", client.target("/accept"), client.headers(), f"{FIELD}=x")
    assert (page.status, page.text) == (403, "This request does not say from which page it comes.")


def test_a_link_on_another_site_is_refused(client: Client):
    sent = {**client.headers(), "Sec-Fetch-Site": "cross-site"}
    assert (
        client.send("GET", client.target("/"), sent).text == "This request comes from another site."
    )
    sent["Sec-Fetch-Site"] = "same-origin"
    assert client.send("GET", client.target("/"), sent).status == 200


@pytest.mark.parametrize("cookie", ["", f"{COOKIE}=guess", "other=1", f'{COOKIE}="', "\xff=1"])
def test_a_second_local_user_without_the_cookie_is_refused(client: Client, cookie: str):
    sent = {**client.headers(), "Cookie": cookie}
    page = client.send("GET", client.target("/"), sent)
    assert page.status == 403
    assert "address printed in the terminal" in page.text


def test_the_cookie_alone_is_not_enough_without_the_secret_place(client: Client):
    for path in ("/", "/data", "/wrong/", "//", f"/{client.studio.keys.place}"):
        assert client.send("GET", path, client.headers()).status == 403


@pytest.mark.parametrize("token", ["", "guess", "stale"])
def test_a_change_without_the_token_is_refused(client: Client, token: str):
    page = client.post("/accept", token=token)
    assert (page.status, page.text) == (
        403,
        "This form is not of this session. Load the page again.",
    )
    assert not client.studio.accepted


def test_a_change_by_a_link_is_no_change(client: Client):
    assert client.get("/accept").status == 404
    assert client.get("/stop").status == 404
    assert not client.studio.accepted
    assert client.send("PUT", client.target("/"), client.headers()).status == 403


def test_the_first_address_opens_once_and_the_cookie_is_strict(tmp_path: Path):
    with running(tmp_path) as client:
        first = client.server.address.removeprefix(client.origin)
        host = {"Host": client.headers()["Host"]}
        page = client.send("GET", first, host)
        cookie = page.headers["set-cookie"]
        assert page.status == 200
        assert cookie.startswith(f"{COOKIE}=")
        rules = f"HttpOnly; Path=/{client.studio.keys.place}/; SameSite=strict"
        assert cookie.endswith(rules)
        again = client.send("GET", first, host)
        assert (again.status, "set-cookie" in again.headers) == (403, False)
        assert again.text.startswith("This link has already been used, or belongs to")
        assert client.server.address.removeprefix(client.origin) != first


def test_the_token_of_another_start_is_stale(client: Client, tmp_path: Path):
    with running(tmp_path) as other:
        page = client.send("GET", other.server.address.removeprefix(other.origin), client.headers())
        assert page.status == 403
        sent = {**client.headers(), "Cookie": f"{COOKIE}={other.studio.keys.cookie}"}
        assert client.send("GET", client.target("/"), sent).status == 403


@pytest.mark.parametrize("path", ["/", "/nowhere", "/static/studio.css", "/static/none"])
def test_every_answer_forbids_frames_inline_scripts_and_copies(client: Client, path: str):
    for page in (client.get(path), client.get(path, without="Cookie")):
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["cross-origin-resource-policy"] == "same-origin"


def test_a_page_has_no_script_or_style_of_its_own(client: Client):
    text = client.get("/").text
    assert "<style" not in text
    assert " style=" not in text
    assert text.count("<script") == text.count("<script src=")
    assert " onclick" not in text


def test_names_of_files_are_text_and_not_markup(client: Client):
    text = client.get("/").text
    assert EVIL not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text


def test_a_request_that_is_too_large_is_refused(client: Client):
    page = client.post("/accept", more="x" * MOST_BODY)
    assert (page.status, page.text) == (413, "The request is too large.")
    assert not client.studio.accepted


def test_a_form_of_too_many_fields_is_refused(client: Client):
    sent = {**client.headers(), "Origin": client.origin}
    page = client.send("POST", client.target("/accept"), sent, "&".join(["a=1"] * 6000))
    assert page.status == 403


def test_a_hundred_requests_at_once_are_all_answered(client: Client):
    with ThreadPoolExecutor(100) as pool:
        pages = list(pool.map(lambda _: client.get("/"), range(100)))
    assert {page.status for page in pages} == {200}
    assert len({page.text for page in pages}) == 1


def half_said(client: Client, text: str) -> socket.socket:
    """A connection on which a request was begun and not ended."""
    made = socket.create_connection((serve.HOST, client.port), timeout=300)
    made.sendall(text.encode())
    return made


def closed(connection: socket.socket) -> bool:
    """Whether the other side has closed a connection, waiting for it if need be."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_many_connections_that_ask_nothing_keep_nobody_out(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(serve, "MOST_WAITING", 40)
    held = [half_said(client, "GET / HTTP/1.1\r\nHost: ") for _ in range(100)]
    assert client.get("/").status == 200
    while len(select(held, [], [], 10)[0]) < 60:  # which can be read: their end has come
        assert client.get("/").status == 200
    assert all(closed(one) for one in select(held, [], [], 0)[0])
    for one in held:
        one.close()


def test_a_request_that_is_not_said_to_its_end_is_given_up(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    # One patience at a time is short: on a busy machine the other would end before its turn.
    monkeypatch.setattr(serve, "PATIENCE", 0.2)
    begun = half_said(client, f"GET {client.target('/')} HTTP/1.1\r\n")
    assert closed(begun)
    monkeypatch.setattr(serve, "PATIENCE", 300.0)
    monkeypatch.setattr(security, "PATIENCE", 0.2)
    headers = {**client.headers(), "Origin": client.origin, "Content-Length": "100"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    posted = half_said(client, f"POST {client.target('/accept')} HTTP/1.1\r\n{lines}\r\ntoken=")
    said = posted.recv(100)
    while b"The request was not complete in time." not in said:
        part = posted.recv(1 << 16)
        assert part
        said += part
    assert said.startswith(b"HTTP/1.1 408")
    # One that has been answered, and then begins another request, has no more time either.
    monkeypatch.setattr(security, "PATIENCE", 300.0)
    lines = "".join(f"{name}: {value}\r\n" for name, value in client.headers().items())
    again = half_said(client, f"GET {client.target('/none')} HTTP/1.1\r\n{lines}\r\n")
    answer = b""
    while b"</html>" not in answer:
        part = again.recv(1 << 16)
        assert part, "closed before it was answered"
        answer += part
    again.sendall(b"GET /")
    monkeypatch.setattr(serve, "PATIENCE", 0.2)
    assert closed(again)
    for one in (begun, posted, again):
        one.close()


@pytest.mark.parametrize(
    "name",
    ["../secret.csv", "/etc/passwd", "a/../../secret.csv", "", ".", "a\\..\\b", "a\0b", "a\nb"],
)
def test_paths_that_lead_out_of_the_folder_are_refused(tmp_path: Path, name: str):
    with pytest.raises(InputError, match="found a path that leads elsewhere, expected a file of"):
        Folder.at(tmp_path).inside(name)


def test_links_out_of_the_folder_are_refused_and_not_listed(tmp_path: Path):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "secret.csv").write_text("a,b\n")
    (inside / "link.csv").symlink_to(outside / "secret.csv")
    (inside / "folder").symlink_to(outside)
    folder = Folder.at(inside)
    for name in ("link.csv", "folder/secret.csv"):
        with pytest.raises(InputError, match="found a link, expected a file of your own inside"):
            folder.inside(name)
        with pytest.raises(InputError, match="found a link"):
            folder.name_of(inside / name)
    with pytest.raises(InputError, match="found a path outside"):
        folder.name_of(outside / "secret.csv")
    assert plain_files(inside).files == {}


def test_a_pipe_is_no_file(tmp_path: Path):
    os.mkfifo(tmp_path / "people.csv")
    with pytest.raises(InputError, match="found no plain file"):
        Folder.at(tmp_path).inside("people.csv")


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="found no folder, expected a folder to work in"):
        Folder.at(tmp_path / "none")


@pytest.mark.parametrize("kind", [ValueError, pl.exceptions.PanicException])
def test_a_fault_is_neither_shown_nor_logged_with_its_numbers(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, kind
):
    def broken(*_):
        raise kind("4711 people")

    monkeypatch.setattr(import_module("headcount.studio.start"), "plain_files", broken)
    with caplog.at_level(logging.DEBUG):
        page = client.get("/")
    assert page.status == 422
    assert f"a fault of headcount itself ({kind.__name__})" in page.text
    assert not re.search(r"\b4711\b", page.text + caplog.text)  # not as part of a digest


def test_the_studio_stops_when_nobody_asks(tmp_path: Path):
    with running(tmp_path, idle=0.3) as client:
        while not client.server.server.should_exit:
            pass
        assert not client.studio.stopping


def test_the_studio_stops_when_it_is_asked_to(tmp_path: Path):
    with running(tmp_path) as client:
        assert "The studio has stopped" in client.post("/stop").text
        assert client.studio.stopping


def test_banner_is_accepted_by_a_change_with_token_and_leads_back(tmp_path: Path):
    with running(tmp_path) as client:
        assert client.post("/accept", back="/publish?config=a.toml").at == "/publish?config=a.toml"
        assert client.studio.accepted
        assert client.post("/accept", back="//evil.example").at == "/"
        assert client.post("/accept", back="https://evil.example").at == "/"


def test_every_address_has_a_screen_and_all_are_loaded_when_asked():
    load_all()
    assert all(callable(screen_named(name)) for name in SCREENS.values())
    assert {method for method, _ in SCREENS} == {"GET", "POST"}
