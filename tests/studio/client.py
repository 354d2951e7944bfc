"""A studio at work in a thread, and a client that can say whatever it likes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

from headcount.studio.app import Studio
from headcount.studio.folder import Folder
from headcount.studio.security import COOKIE, FIELD
from headcount.studio.serve import HOST, Server


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def at(self) -> str:
        """Where a redirect leads, without the secret place."""
        return re.sub(r"^/[^/]+", "", self.headers["location"])


@dataclass
class FormFields(HTMLParser):
    """The fields of one form of a page, as a browser sends them."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)
    _inside: bool = False
    _select: str = ""
    _area: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        has = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = has.get("action", "").endswith(self.action)
        if not self._inside:
            return
        if tag == "input" and (has["type"] != "checkbox" or "checked" in has):
            self.fields[has["name"]] = has["value"]
        elif tag == "select":
            self._select = has["name"]
        elif tag == "option" and ("selected" in has or self._select not in self.fields):
            self.fields[self._select] = has["value"]
        elif tag == "textarea":
            self._area = has["name"]
            self.fields[self._area] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
        elif tag == "textarea":
            self._area = ""

    def handle_data(self, data: str) -> None:
        if self._area:
            self.fields[self._area] += data


@dataclass(frozen=True)
class Client:
    """Asks a studio as its own pages do, unless told otherwise."""

    server: Server

    @property
    def studio(self) -> Studio:
        return self.server.studio

    @property
    def port(self) -> int:
        return int(self.server.listening.getsockname()[1])

    @property
    def origin(self) -> str:
        return f"http://{HOST}:{self.port}"

    def headers(self) -> dict[str, str]:
        return {
            "Host": f"{HOST}:{self.port}",
            "Cookie": f"{COOKIE}={self.studio.keys.cookie}",
        }

    def send(self, method: str, target: str, headers: Mapping[str, str], body: str = "") -> Answer:
        """A request exactly as given."""
        connection = HTTPConnection(HOST, self.port, timeout=300)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            if body or method == "POST":
                connection.putheader("Content-Length", str(len(body.encode())))
            connection.endheaders(body.encode())
            got = connection.getresponse()
            return Answer(got.status, {n.lower(): v for n, v in got.getheaders()}, got.read())
        finally:
            connection.close()

    def get(self, path: str, *, without: str = "", **query: Any) -> Answer:
        headers = {name: value for name, value in self.headers().items() if name != without}
        return self.send("GET", self.target(path, **query), headers)

    def post(self, path: str, *, headers: Any = None, **form: Any) -> Answer:
        sent = {
            **self.headers(),
            "Origin": self.origin,
            "Content-Type": "application/x-www-form-urlencoded",
            **(headers or {}),
        }
        body = urlencode({FIELD: self.studio.keys.form, **form})
        return self.send("POST", self.target(path), sent, body)

    def check(self, config: str) -> Answer:
        """The page that a check leads to, however long the check takes."""
        assert self.post("/run/check", config=config).at.startswith("/run/confirm?")
        self.checked(config)
        return self.get("/run/confirm", config=config)

    def checked(self, config: str) -> None:
        """Wait until a check has ended."""
        while self.studio.confirmations.checking(config):
            time.sleep(0.01)

    def form(self, path: str, action: str, **query: Any) -> dict[str, str]:
        """The fields of a form on a page."""
        found = FormFields(action)
        found.feed(self.get(path, **query).text)
        assert found.fields, f"no form for {action} on {path}"
        return found.fields

    def target(self, path: str, **query: Any) -> str:
        return self.studio.at(path, **query)


@contextmanager
def running(folder: Path, **settings: Any) -> Iterator[Client]:
    """A studio on a folder, stopped in the end."""
    server = Server.of(Studio(Folder.at(folder)), entered=lambda address: None, **settings)
    thread = Thread(target=server.run)
    thread.start()
    try:
        yield Client(server)
    finally:
        server.studio.stopping = True
        thread.join(300)
    assert not thread.is_alive()
