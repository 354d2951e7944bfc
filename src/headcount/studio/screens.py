"""Every address of the studio, and what answers there."""

from __future__ import annotations

from headcount.studio import compare, data, plan, publish, run, start
from headcount.studio.app import Screen

SCREENS: dict[tuple[str, str], Screen] = {
    ("GET", "/"): start.show,
    ("POST", "/practise"): start.practise,
    ("POST", "/accept"): start.accept,
    ("POST", "/stop"): start.stop,
    ("GET", "/look"): data.propose,
    ("POST", "/look"): data.write,
    ("GET", "/data"): data.show,
    ("POST", "/data/edit"): data.edit,
    ("POST", "/data/save"): data.save,
    ("POST", "/data/undo"): data.undo,
    ("GET", "/plan"): plan.show,
    ("GET", "/plan/preview"): plan.preview,
    ("POST", "/plan/save"): plan.save,
    ("POST", "/plan/add"): plan.add,
    ("POST", "/plan/choose"): plan.choose,
    ("POST", "/plan/rehearse"): plan.rehearse,
    ("GET", "/run"): run.show,
    ("GET", "/run/progress"): run.progress,
    ("GET", "/run/confirm"): run.confirm,
    ("POST", "/run/start"): run.start,
    ("POST", "/run/cancel"): run.cancel,
    ("POST", "/run/close"): run.close,
    ("GET", "/compare"): compare.show,
    ("GET", "/compare/progress"): compare.progress,
    ("POST", "/compare/start"): compare.start,
    ("POST", "/compare/cancel"): compare.cancel,
    ("POST", "/compare/choose"): compare.choose,
    ("GET", "/publish"): publish.show,
    ("GET", "/publish/zip"): publish.archive,
}
