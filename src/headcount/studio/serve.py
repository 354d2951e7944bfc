"""The studio's server: on this machine alone, on a free port, until it is idle or told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from headcount.files import write_text_atomic
from headcount.studio.app import Studio, application
from headcount.studio.screens import SCREENS
from headcount.studio.security import PATIENCE, Guard

HOST = "127.0.0.1"
LOOK = 0.05
"""Seconds between looks at whether to stop."""

MOST_WAITING = 200
"""Connections on which nothing has been asked; the oldest gives way to a new one."""


class Patient(H11Protocol):
    """A connection that must ask something in time; many that ask nothing keep nobody out.

    Whoever can open connections here, another user of this machine or any page in a browser, could
    else hold so many of them open that the studio has none left.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.late: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether no request on it is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A new connection: its time begins, and the oldest of too many ends."""
        super().connection_made(transport)
        self.watch()
        waiting = {
            one.late.when(): one
            for one in self.connections
            if isinstance(one, Patient) and one.late is not None
        }
        if len(waiting) > MOST_WAITING:
            waiting[min(waiting)].give_up()

    def data_received(self, data: bytes) -> None:
        """Bytes: the time ends with a whole request."""
        super().data_received(data)
        self.watch()

    def watch(self) -> None:
        """Let the time run while nothing is asked."""
        if self.waits and self.late is None:
            self.late = self.loop.call_later(PATIENCE, self.give_up)
        elif not self.waits:
            self.stop_watch()

    def stop_watch(self) -> None:
        """No more need to hurry."""
        if self.late is not None:
            self.late.cancel()
            self.late = None

    def give_up(self) -> None:
        """Nothing was asked in time, or others wait."""
        self.stop_watch()
        self.transport.abort()

    def on_response_complete(self) -> None:
        """An answer was sent: the next request has its own time."""
        super().on_response_complete()
        self.watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        self.stop_watch()
        super().connection_lost(exc)


@dataclass
class Server:
    """A studio behind its guard, on a socket that is open already."""

    studio: Studio
    listening: socket.socket
    server: uvicorn.Server
    idle: float

    @classmethod
    def of(
        cls, studio: Studio, *, port: int = 0, idle: float = 3600, entered: Callable[[str], None]
    ) -> Server:
        """A server that stops after ``idle`` seconds without a request or a job.

        ``entered`` is given the next first address when one has been used.
        """
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
            listening.listen(256)  # who asks before the server is ready waits
        except OSError:
            listening.close()
            raise
        host = f"{HOST}:{listening.getsockname()[1]}"
        guard = Guard(
            application(studio, SCREENS),
            studio.keys,
            host,
            seen=studio.seen,
            entered=lambda: entered(made.address),
        )
        config = uvicorn.Config(
            guard,
            http=Patient,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=2,
        )
        made = cls(studio, listening, uvicorn.Server(config), idle)
        return made

    @property
    def address(self) -> str:
        """The first address: good for one opening."""
        port = self.listening.getsockname()[1]
        return f"http://{HOST}:{port}/open?token={self.studio.keys.entry}"

    def run(self) -> None:
        """Serve until it is idle or stopped; then end every job."""
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
        try:
            asyncio.run(self._until_idle())
        finally:
            self.studio.jobs.close()
            self.listening.close()

    async def _until_idle(self) -> None:
        watch = asyncio.ensure_future(self._watch())
        try:
            await self.server.serve(sockets=[self.listening])
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            if self.studio.stopping or self.studio.idle_for(self.idle):
                self.server.should_exit = True


@contextlib.contextmanager
def opened(address: str) -> Iterator[bool]:
    """Open the browser by a file that only this user can read; whether one was found.

    Not by the address itself: what a program is started with can be seen by everybody here. The
    file is in a folder of the user's home that is not hidden, if there can be one: a browser in a
    snap sees neither hidden folders nor the system's folder for temporary files.
    """
    home = Path.home()
    place = home if os.access(home, os.W_OK) else None
    with TemporaryDirectory(prefix="headcount-studio-", dir=place) as folder:
        page = Path(folder) / "open.html"
        text = (
            '<!DOCTYPE html><meta charset="utf-8"><title>headcount studio</title>'
            f'<meta http-equiv="refresh" content="0;url={address}">'
            f'<a href="{address}">Open the studio</a>\n'
        )
        write_text_atomic(page, text)
        yield webbrowser.open(page.as_uri())
