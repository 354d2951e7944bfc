"""A studio at work in a thread, and a client that can say whatever it likes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
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
        thread.join(30)
    assert not thread.is_alive()
