"""Who may ask the studio for anything: one guard before every request, one set of headers after.

Pages of other sites can send requests to this machine, and names of other hosts can be made to
point to it. So a request is answered only when it names this very host and port, comes from a page
of the studio or from the address bar, lies below a secret place and has the cookie; and one that
changes something only with a token that the studio's own pages have.

The cookie is for the secret place alone: cookies do not know ports, and another server on this
machine would else be sent it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE, FIELD, HEADER = "headcount-studio", "token", "x-headcount-token"
MOST_BODY, MOST_FIELDS = 2 << 20, 5000
"""Bytes and fields of a request: a config has one MiB at most."""

PATIENCE = 20.0
"""Seconds in which a request must be said to its end."""

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
        if not _same(given, self.entry):
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

    inner: ASGIApp
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
        headers = Headers(scope=scope)
        answer = self._stranger(headers, scope)
        if answer is None and scope["path"] == "/open":
            answer = self._enter(scope)
        answer = answer or self._without_right(headers, scope)
        answer = answer or await self._without_token(headers, scope, receive)
        if answer is not None:
            await answer(scope, receive, send)
            return
        scope["path"] = scope["path"][len(self.keys.root) :]
        self.seen(1)
        try:
            await self.inner(scope, receive, send)
        finally:
            self.seen(-1)

    def _stranger(self, headers: Headers, scope: Scope) -> Response | None:
        """Refuse what cannot come from the studio's own address."""
        if headers.getlist("host") != [self.host]:
            return _refused("This request names another host.")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _refused("The studio answers GET, HEAD and POST only.")
        origins = headers.getlist("origin")
        if origins not in ([], [f"http://{self.host}"]):
            return _refused("This request comes from another page.")
        if scope["method"] == "POST" and not origins:
            return _refused("This request does not say from which page it comes.")
        return None

    def _without_right(self, headers: Headers, scope: Scope) -> Response | None:
        """Refuse a request from the right address that has not the cookie and the secret place."""
        lines = headers.getlist("cookie")
        held = cookie_parser(lines[0]).get(COOKIE, "") if len(lines) == 1 else ""
        first, _, rest = scope["path"].removeprefix("/").partition("/")
        known = _same(first, self.keys.place) and scope["path"] == f"/{first}/{rest}"
        if not (_same(held, self.keys.cookie) and known):
            return _refused("Open the studio by the address printed in the terminal.")
        # Old browsers do not say this; the cookie is strict in any case.
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _refused("This request comes from another site.")
        return None

    async def _without_token(
        self, headers: Headers, scope: Scope, receive: Receive
    ) -> Response | None:
        """Read the form of a change, and refuse one that has not the token of the studio."""
        scope["form"] = {}
        if scope["method"] != "POST":
            return None
        try:
            async with asyncio.timeout(PATIENCE):
                body = await _body(receive)
        except TimeoutError:
            return PlainTextResponse("The request was not complete in time.", status_code=408)
        if body is None:
            return PlainTextResponse("The request is too large.", status_code=413)
        scope["form"] = _form(body)
        if not _same(headers.get(HEADER) or scope["form"].get(FIELD, ""), self.keys.form):
            return _refused("This form is not of this session. Load the page again.")
        return None

    def _enter(self, scope: Scope) -> Response:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["method"] != "GET" or not self.keys.enter(given):
            return _refused(
                "This link has already been used, or belongs to an earlier session. Open the "
                "address printed in the terminal."
            )
        self.seen(0)
        self.entered()
        page = HTMLResponse(ENTERED.format(self.keys.root))
        page.set_cookie(
            COOKIE, self.keys.cookie, path=f"{self.keys.root}/", httponly=True, samesite="strict"
        )
        return page


def _same(given: str, secret: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def _refused(why: str) -> Response:
    return PlainTextResponse(why, status_code=403)


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return sent


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None if it is too large or breaks off."""
    body = b""
    while len(body) <= MOST_BODY:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return body if len(body) <= MOST_BODY else None
    return None


def _form(body: bytes) -> dict[str, str]:
    """The fields of a form; of several values the last, and none where there are too many."""
    text = body.decode("utf-8", "replace")
    try:
        fields = parse_qs(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        return {}
    return {name: values[-1] for name, values in fields.items()}
