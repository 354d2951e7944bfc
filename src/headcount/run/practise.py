"""Configs with made-up people, to practise on: nothing there is confidential."""

from __future__ import annotations

from headcount.errors import ConfigError, did_you_mean

PRACTISE = {"towns": "people = 6000"}
"""Made-up populations to try things on, and how small they are made."""

_CONFIG = """\
# For practice: a made-up population, so that nothing here is confidential.
[population]
kind = "{kind}"
{size}

[mechanism]
name = "topdown"
epsilon = 1                         # the privacy loss: less protects more

[run]
out = "runs/practise-{kind}"
"""


def practice_config(kind: str) -> str:
    """The text of a config that protects a made-up population."""
    if kind not in PRACTISE:
        raise ConfigError("practise", found=repr(kind), expected=did_you_mean(kind, PRACTISE))
    return _CONFIG.format(kind=kind, size=PRACTISE[kind])
