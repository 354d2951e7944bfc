"""The studio's server: on this machine alone, on a free port, until it is idle or told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import uvicorn

from headcount.files import write_text_atomic
from headcount.studio.app import Studio, application
from headcount.studio.screens import SCREENS
from headcount.studio.security import Guard

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
LOOK = 0.05
"""Seconds between looks at whether to stop."""


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
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=2,
            limit_concurrency=500,
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
def opened(address: str) -> Iterator[None]:
    """Open the browser by a file that only this user can read.

    Not by the address itself: what a program is started with can be seen by everybody here.
    """
    with TemporaryDirectory(prefix="headcount-studio-") as folder:
        page = Path(folder) / "open.html"
        text = (
            '<!DOCTYPE html><meta charset="utf-8"><title>headcount studio</title>'
            f'<meta http-equiv="refresh" content="0;url={address}">'
            f'<a href="{address}">Open the studio</a>\n'
        )
        write_text_atomic(page, text)
        webbrowser.open(page.as_uri())
        yield
