"""Who may ask the studio for anything: one guard before every request, one set of headers after.

Pages of other sites can send requests to this machine, and names of other hosts can be made to
point to it. So a request is answered only when it names this very host and port, comes from a page
of the studio or from the address bar, lies below a secret place and has the cookie; and one that
changes something only with a token that the studio's own pages have.

The cookie is for the secret place alone: cookies do not know ports, and another server on this
machine would else be sent it.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

COOKIE, FIELD, HEADER = "headcount-studio", "token", b"x-headcount-token"
MOST_BODY = 2 << 20
"""Bytes of a request: a config has one MiB at most."""

MOST_FIELDS = 5000

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not "no-referrer": browsers then send the origin "null" with a form.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}

# A page, not a redirect: a strict cookie is not sent along when another site (or a local file)
# began the way here.
ENTERED = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
<title>headcount studio</title><link rel="icon" href="{0}/static/icon.svg">
<meta http-equiv="refresh" content="0;url={0}/"></head>
<body><main><h1>headcount studio</h1><p><a href="{0}/">Open the studio</a></p></main></body></html>
"""


@dataclass
class StudioKeys:
    """The secrets of one start of the studio.

    where
        entry    in the first address; good for one opening, then there is another
        place    the first part of every path
        cookie   what the browser has afterwards
        form     what pages of the studio send with every change
    """

    entry: str = field(default_factory=secrets.token_urlsafe, repr=False)
    place: str = field(default_factory=lambda: secrets.token_urlsafe(16), repr=False)
    cookie: str = field(default_factory=secrets.token_urlsafe, repr=False)
    form: str = field(default_factory=secrets.token_urlsafe, repr=False)

    @property
    def root(self) -> str:
        """What every path of the studio begins with."""
        return f"/{self.place}"

    def enter(self, given: str) -> bool:
        """Whether a token opens the studio; it does so once."""
        if not secrets.compare_digest(given.encode(), self.entry.encode()):
            return False
        self.entry = secrets.token_urlsafe()
        return True


@dataclass
class Guard:
    """The middleware: refuses, or hands on with the form that was sent.

    where
        inner    the application
        host     the name and port that requests must name: "127.0.0.1:8123"
        seen     called with 1 when a request has passed and -1 when it is answered, to know when
                 the studio is idle
        entered  called with the next first address when somebody has used one
    """

    inner: Callable[[Scope, Receive, Send], Awaitable[None]]
    keys: StudioKeys
    host: str
    seen: Callable[[int], None]
    entered: Callable[[], None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self.inner(scope, receive, send)
            return
        send = _with_headers(send)
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        if why := self._stranger(headers, scope):
            await _answer(send, 403, f"refused: {why}")
            return
        if scope["path"] == "/open":
            await self._enter(scope, send)
            return
        if why := self._without_right(headers, scope):
            await _answer(send, 403, f"refused: {why}")
            return
        scope["form"] = {}
        if scope["method"] == "POST":
            body = await _body(receive)
            if body is None:
                await _answer(send, 413, "refused: more than a form of the studio can hold")
                return
            scope["form"] = _form(body)
            given = (headers.get(HEADER) or [scope["form"].get(FIELD, "").encode()])[0]
            if not secrets.compare_digest(given, self.keys.form.encode()):
                await _answer(send, 403, "refused: a change without the token of this studio")
                return
        scope["path"] = scope["path"][len(self.keys.root) :]
        self.seen(1)
        try:
            await self.inner(scope, receive, send)
        finally:
            self.seen(-1)

    def _stranger(self, headers: Mapping[bytes, list[bytes]], scope: Scope) -> str:
        """Why a request cannot come from the studio's own address, if it cannot."""
        if headers.get(b"host") != [self.host.encode()]:
            return "another host"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return "a method that is not used here"
        origins = headers.get(b"origin", [])
        if origins not in ([], [f"http://{self.host}".encode()]):
            return "another origin"
        if scope["method"] == "POST" and not origins:
            return "a change of unknown origin"
        return ""

    def _without_right(self, headers: Mapping[bytes, list[bytes]], scope: Scope) -> str:
        """Why a request from the right address is refused all the same, if it is."""
        cookies = SimpleCookie()
        for line in headers.get(b"cookie", []):
            try:
                cookies.load(line.decode("latin-1"))
            except CookieError:
                return "cookies that cannot be read"
        held = cookies[COOKIE].value if COOKIE in cookies else ""
        path = scope["path"]
        place = path.split("/")[1] if path.startswith("/") and path.count("/") > 1 else ""
        known = secrets.compare_digest(place.encode(), self.keys.place.encode())
        if not (secrets.compare_digest(held.encode(), self.keys.cookie.encode()) and known):
            return "open the studio by the address in its terminal"
        # Old browsers do not say this; the cookie is strict in any case.
        if headers.get(b"sec-fetch-site", [b"none"]) not in ([b"none"], [b"same-origin"]):
            return "another site"
        return ""

    async def _enter(self, scope: Scope, send: Send) -> None:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["method"] != "GET" or not self.keys.enter(given):
            await _answer(send, 403, "refused: this address was used, or is of another start")
            return
        self.seen(0)
        self.entered()
        cookie = (
            f"{COOKIE}={self.keys.cookie}; Path={self.keys.root}/; HttpOnly; SameSite=Strict"
        ).encode()
        page = ENTERED.format(self.keys.root)
        await _answer(send, 200, page, kind="text/html", more=[(b"set-cookie", cookie)])


def _with_headers(send: Send) -> Send:
    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, v) for name, v in message["headers"] if name.decode() not in HEADERS]
            message["headers"] = [*kept, *((n.encode(), v.encode()) for n, v in HEADERS.items())]
        await send(message)

    return sent


async def _answer(
    send: Send,
    status: int,
    text: str,
    *,
    kind: str = "text/plain",
    more: list[tuple[bytes, bytes]] | None = None,
) -> None:
    body = text.encode()
    headers = [(b"content-type", f"{kind}; charset=utf-8".encode())]
    headers.append((b"content-length", str(len(body)).encode()))
    headers += more or []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None if it is too large or breaks off."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > MOST_BODY:
            return None
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _form(body: bytes) -> dict[str, str]:
    """The fields of a form; of several values the last, and none where there are too many."""
    text = body.decode("utf-8", "replace")
    try:
        fields = parse_qs(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        return {}
    return {name: values[-1] for name, values in fields.items()}
