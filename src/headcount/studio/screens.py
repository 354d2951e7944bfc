"""Every address of the studio, and the function of a module here that answers.

By name: what a screen needs is loaded when it is first asked for, so that the first comes soon.
"""

from __future__ import annotations

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


def load_all() -> None:
    """Load what every screen needs, and what draws charts, before it is asked for."""
    from headcount.run.how_far_off import Off
    from headcount.studio.app import screen_named
    from headcount.studio.wanted import draw_errors

    for name in SCREENS.values():
        screen_named(name)
    draw_errors([Off(level="level", query="query", answers=1, within=1.0)])
