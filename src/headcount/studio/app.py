"""The studio as an application: its state, its screens, and how a request becomes an answer."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from importlib import import_module, resources
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from headcount._version import __version__
from headcount.errors import ConfigError, HeadcountError, without_values
from headcount.report.model import CONFIDENTIAL_BANNER
from headcount.report.theme import dark_rules
from headcount.studio.folder import Folder
from headcount.studio.jobs import Jobs
from headcount.studio.security import FIELD, StudioKeys
from headcount.studio.texts import Texts

if TYPE_CHECKING:
    import tomlkit
    from jinja2 import Environment

    from headcount.studio.confirm import Confirmations
    from headcount.studio.known import KnownDomains

log = logging.getLogger(__name__)

STATIC = {
    "htmx-2.0.11.min.js": "text/javascript",
    "studio.css": "text/css",
    "icon.svg": "image/svg+xml",
}
STEPS = ("data", "plan", "compare", "run", "publish")
"""What a config goes through, in order."""

SCREENS: dict[tuple[str, str], str] = {
    ("GET", "/"): "start.show",
    ("POST", "/practise"): "start.practise",
    ("POST", "/accept"): "start.accept",
    ("POST", "/stop"): "start.stop",
    ("GET", "/look"): "data.propose",
    ("POST", "/look"): "data.write",
    ("GET", "/data"): "data.show",
    ("POST", "/data/edit"): "data.edit",
    ("POST", "/data/save"): "data.save",
    ("POST", "/data/undo"): "data.undo",
    ("POST", "/data/ledger"): "data.declare",
    ("GET", "/plan"): "plan.show",
    ("GET", "/plan/preview"): "plan.preview",
    ("POST", "/plan/save"): "plan.save",
    ("POST", "/plan/add"): "plan.add",
    ("POST", "/plan/choose"): "plan.choose",
    ("POST", "/plan/drop"): "plan.drop",
    ("POST", "/plan/rehearse"): "plan.rehearse",
    ("GET", "/run"): "run.show",
    ("POST", "/run/check"): "run.check",
    ("GET", "/run/confirm"): "run.confirm",
    ("POST", "/run/start"): "run.start",
    ("POST", "/run/close"): "run.close",
    ("GET", "/compare"): "compare.show",
    ("GET", "/compare/summary"): "compare.summary",
    ("POST", "/compare/start"): "compare.start",
    ("POST", "/compare/choose"): "compare.choose",
    ("GET", "/progress"): "run.progress",
    ("POST", "/cancel"): "run.cancel",
    ("GET", "/publish"): "publish.show",
    ("GET", "/publish/zip"): "publish.archive",
}
"""Every address, and the function of a module here that answers.

By name: what a screen needs is loaded when it is first asked for, so that the first comes soon.
"""

VEILED = "Accept the confidentiality notice to see values from your data."


@dataclass
class Studio:
    """One start of the studio.

    where
        accepted   whether somebody has read that what follows is confidential
        asking     requests that are being answered
        seen_at    when the last one came or was answered, by the clock that never goes back
        stopping   whether somebody has asked it to stop
    """

    folder: Folder
    keys: StudioKeys = field(default_factory=StudioKeys)
    accepted: bool = False
    asking: int = 0
    seen_at: float = field(default_factory=monotonic)
    stopping: bool = False
    texts: Texts = field(init=False)
    jobs: Jobs = field(init=False)

    def __post_init__(self) -> None:
        self.texts = Texts(self.folder)
        self.jobs = Jobs(self.folder.root)

    @cached_property
    def known(self) -> KnownDomains:
        """What is known of configs, kept between requests."""
        from headcount.studio.known import (
            KnownDomains,  # with all methods: not for the first screen
        )

        return KnownDomains()

    @cached_property
    def confirmations(self) -> Confirmations:
        """What was checked, and may be run once."""
        from headcount.studio.confirm import Confirmations

        return Confirmations()

    def seen(self, more: int) -> None:
        """Somebody is there: so many more requests are being answered."""
        self.asking += more
        self.seen_at = monotonic()

    def idle_for(self, seconds: float) -> bool:
        """Whether nobody has asked for so long, and nothing is at work."""
        quiet = monotonic() - self.seen_at > seconds
        return quiet and not self.asking and not self.jobs.busy

    def at(self, path: str, **query: object) -> str:
        """The address of a screen."""
        asked = urlencode({name: value for name, value in query.items() if value not in ("", None)})
        return f"{self.keys.root}{path}{'?' if asked else ''}{asked}"

    def go(self, path: str, **query: object) -> Response:
        """After a change: look at a screen, so that a reload changes nothing again."""
        return RedirectResponse(self.at(path, **query), status_code=303)

    @staticmethod
    def command(*words: str) -> str:
        """A command as it is typed into a shell in the folder."""
        return shlex.join(["headcount", *words])

    def said(self, error: HeadcountError) -> str:
        """What an error says; before the banner was accepted nothing that stands in the data."""
        whole, public = str(error), without_values(error)
        said = whole if self.accepted or whole == public else f"{public}\n{VEILED}"
        return said.replace(f"{self.folder.root}{os.sep}", "")

    def edit(
        self,
        asked: Asked,
        change: Callable[[tomlkit.TOMLDocument], None],
        *,
        back: str,
        first: Callable[[], object] | None = None,
    ) -> Response:
        """Change values of a config on which no run is at work; then look at a screen.

        ``first`` is done before the config is written, and not where the change is refused.
        """
        self.jobs.refuse_busy(f"protect {asked.config}", asked.config)
        self.texts.edit(asked.config, change, based_on=asked.field("version"), first=first)
        return self.go(back, config=asked.config)

    def page(self, template: str, *, status: int = 200, **words: Any) -> Response:
        """A screen."""
        text = _environment().get_template(template)
        shared = {
            "at": self.at,
            "root": self.keys.root,
            "folder": self.folder.root.name,
            "veiled": VEILED,
            "version": __version__,
            "banner": CONFIDENTIAL_BANNER,
            "screens": STEPS,
            "field": FIELD,
            "token": self.keys.form,
            "config": "",
            "here": "",
            "command": "",
        }
        return HTMLResponse(text.render({**shared, **words}), status_code=status)


@dataclass(frozen=True)
class Asked:
    """What a request asks for.

    where
        config   the config that the screen is about, by its one name in the folder
        again    the address of this screen, or of the one before a change, to come back to it
        moved    the control that was used
        part     whether a part of a page is asked for
    """

    query: Mapping[str, str]
    form: Mapping[str, str]
    config: str = ""
    again: str = "/"
    moved: str = ""
    part: bool = False

    def field(self, name: str) -> str:
        """A field of the form, without blanks around it."""
        return self.form.get(name, "").strip()


Screen = Callable[[Studio, Asked], Response]


def screen_named(name: str) -> Screen:
    """The function of a module of the studio, loaded when it is first needed."""
    module, _, function = name.partition(".")
    found: Screen = getattr(import_module(f"headcount.studio.{module}"), function)
    return found


def load_all() -> None:
    """Load what every screen needs, and what draws charts, before it is asked for."""
    from headcount.run.how_far_off import Off
    from headcount.studio.wanted import draw_errors

    for name in SCREENS.values():
        screen_named(name)
    draw_errors([Off(level="level", query="query", answers=1, within=1.0)])


def application(studio: Studio) -> Starlette:
    """The application that shows the screens, each under its method and path."""
    routes = [
        Route(path, partial(_answer, studio, screen), methods=[method])
        for (method, path), screen in SCREENS.items()
    ]
    routes += [Route("/static/{name}", _static), Route("/charts.css", _charts)]
    missing = {404: partial(_missing, studio), 405: partial(_missing, studio)}
    return Starlette(routes=routes, exception_handlers=missing)


async def _answer(studio: Studio, screen: str, request: Request) -> Response:
    """A screen, in a thread of its own; what is refused is said on a page."""
    asked = Asked(
        query=dict(request.query_params),
        form=request.scope["form"],
        again=f"{request.scope['path']}?{request.scope['query_string'].decode('latin-1')}",
        moved=request.headers.get("hx-trigger-name", ""),
        part=request.headers.get("hx-request") == "true",
    )
    return await run_in_threadpool(_shown, studio, screen, asked)


def _shown(studio: Studio, screen: str, asked: Asked) -> Response:
    try:
        if name := asked.form.get("config") or asked.query.get("config"):
            asked = replace(asked, config=studio.folder.name_of(studio.folder.inside(name)))
        if asked.form:  # a change is not repeated by coming back
            what, path = ("config", "/data") if asked.config else ("file", "/look")
            query = urlencode({what: asked.config or asked.field(what)})
            asked = replace(asked, again=f"{path}?{query}" if query != "file=" else "/")
        return screen_named(screen)(studio, asked)
    except HeadcountError as error:
        said = studio.said(error)
    except OSError as error:
        said = f"{error.filename or 'file system'}: {error.strerror or error}"
    except BaseException as error:  # a panic of polars too: what it says may hold true counts
        log.error("studio: a fault of headcount itself (%s)", type(error).__name__)
        said = f"a fault of headcount itself ({type(error).__name__}): please report it"
    template = "refused_part.html.j2" if asked.part else "refused.html.j2"
    # A part that failed is still put on the page: htmx swaps only what is 200.
    status = 200 if asked.part else 422
    return studio.page(template, said=said, config=asked.config, again=asked.again, status=status)


async def _missing(studio: Studio, request: Request, error: Exception) -> Response:
    return studio.page("refused.html.j2", said="there is no such page", again="/", status=404)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        return Response("no such file", status_code=404, media_type="text/plain")
    content = (resources.files("headcount.studio") / "static" / name).read_bytes()
    return Response(content, media_type=STATIC[name])


async def _charts(request: Request) -> Response:
    """Colours of charts on a dark screen, as in reports."""
    return Response(dark_rules(), media_type="text/css")


def require(value: str, what: str) -> str:
    """A field that must be there."""
    if not value:
        raise ConfigError(what, found="nothing", expected="a value")
    return value


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("headcount.studio"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
