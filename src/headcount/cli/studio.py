"""``headcount studio``: the whole way in a browser, on this machine alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Annotated

import typer


def studio(
    folder: Annotated[
        Path, typer.Argument(help="The folder with your files; nothing outside it is used.")
    ] = Path(),
    port: Annotated[int, typer.Option(help="A port of your own; else a free one.", min=0)] = 0,
    idle: Annotated[
        float, typer.Option(help="Stop after so many minutes without a request or a run.", min=0.01)
    ] = 60,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the browser, or only say where.")
    ] = True,
) -> None:
    """Open a page that leads from a file to a release: look, plan, run, compare, publish.

    It answers on 127.0.0.1 alone, and only to the browser that was opened by the address it
    prints. Files are read where they are and stay there. What is clicked is written to a config
    that the other commands understand, and each screen says which command does the same.

    Example: headcount studio census
    """
    from headcount.errors import RunError

    try:
        from headcount.studio.app import Studio
        from headcount.studio.serve import Server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "tomlkit"):
            raise
        raise RunError(f"The studio needs {error.name}: pip install 'headcount[studio]'") from None
    from headcount.studio.app import load_all
    from headcount.studio.folder import Folder

    def say_next(address: str) -> None:
        stack.close()  # the file that led the browser here is no longer needed
        typer.echo(f"opened; for another browser: {address}")
        rest = Timer(1, load_all)  # while the first screen is read
        rest.daemon = True
        rest.start()

    server = Server.of(Studio(Folder.at(folder)), port=port, idle=60 * idle, entered=say_next)
    typer.echo(f"headcount studio: {server.address}")
    typer.echo("Ctrl-C stops it.")
    with ExitStack() as stack:
        if browser and not stack.enter_context(opened(server.address, title="headcount studio")):
            typer.echo("No browser was found: open this address yourself.")
        server.run()
    typer.echo("the studio has stopped")


@contextmanager
def opened(address: str, *, title: str) -> Iterator[bool]:
    """Open the browser by a file that only this user can read; whether one was found.

    Not by the address itself: what a program is started with can be seen by everybody here. The
    file is in a folder of the user's home that is not hidden, if there can be one: a browser in a
    snap sees neither hidden folders nor the system's folder for temporary files.
    """
    import webbrowser

    from headcount.files import write_text_atomic

    home = Path.home()
    place = home if os.access(home, os.W_OK) else None
    with TemporaryDirectory(prefix=f"{title.replace(' ', '-')}-", dir=place) as folder:
        page = Path(folder) / "open.html"
        text = (
            f'<!DOCTYPE html><meta charset="utf-8"><title>{title}</title>'
            f'<meta http-equiv="refresh" content="0;url={address}">'
            f'<a href="{address}">Open {title}</a>\n'
        )
        write_text_atomic(page, text)
        yield webbrowser.open(page.as_uri())
