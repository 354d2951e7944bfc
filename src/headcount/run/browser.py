"""A browser that is opened at an address which nobody else on the machine may see."""

from __future__ import annotations

import contextlib
import os
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from headcount.files import write_text_atomic


@contextlib.contextmanager
def opened(address: str, *, title: str) -> Iterator[bool]:
    """Open the browser by a file that only this user can read; whether one was found.

    Not by the address itself: what a program is started with can be seen by everybody here. The
    file is in a folder of the user's home that is not hidden, if there can be one: a browser in a
    snap sees neither hidden folders nor the system's folder for temporary files.
    """
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
