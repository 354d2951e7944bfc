"""Every address of the studio, and what answers there."""

from __future__ import annotations

from headcount.studio import start
from headcount.studio.app import Screen

SCREENS: dict[tuple[str, str], Screen] = {
    ("GET", "/"): start.show,
    ("POST", "/practise"): start.practise,
    ("POST", "/accept"): start.accept,
    ("POST", "/stop"): start.stop,
}
