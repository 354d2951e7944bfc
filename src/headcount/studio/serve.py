"""The studio's server: on this machine alone, on a free port, until it is idle or told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from headcount.studio.app import Studio, application
from headcount.studio.security import PATIENCE, Guard

HOST = "127.0.0.1"
LOOK = 0.05
"""Seconds between looks at whether to stop, and at connections."""

MOST_WAITING = 200
"""Connections on which nothing has been asked; the oldest gives way to a new one."""


@dataclass
class Server:
    """A studio behind its guard, on a socket that is open already."""

    studio: Studio
    listening: socket.socket
    server: uvicorn.Server
    idle: float
    waiting: dict[Any, float] = field(default_factory=dict, repr=False)

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
            application(studio),
            studio.keys,
            host,
            seen=studio.seen,
            entered=lambda: entered(made.address),
        )
        config = uvicorn.Config(
            guard,
            http="h11",
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
            self._drop_silent()
            if self.studio.stopping or self.studio.idle_for(self.idle):
                self.server.should_exit = True

    def _drop_silent(self) -> None:
        """Close connections on which nothing is asked: after a while, and the oldest of too many.

        Whoever can open connections, another user of this machine or any page in a browser, could
        else hold so many of them open that the studio has none left.
        """
        now, open_now = monotonic(), self.server.server_state.connections
        silent = {
            (one, one.cycle): self.waiting.get((one, one.cycle), now)
            for one in open_now
            if isinstance(one, H11Protocol) and (one.cycle is None or one.cycle.response_complete)
        }
        known = sorted((key for key in silent if key in self.waiting), key=silent.__getitem__)
        for number, key in enumerate(known):
            if now - silent[key] > PATIENCE or number < len(silent) - MOST_WAITING:
                key[0].transport.abort()
        self.waiting = silent
