"""The settings of a method that changes tables, given to the attacker of an evaluation.

Whoever has read our source and the settings must not learn more than is said here; so attacks are
made by an attacker who has. What he is given are settings, which the release may keep secret, and
nothing that was computed from counts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from headcount.evaluation.truth import Truth
from headcount.release import Release, TablesRelease


@singledispatch
def with_settings(release: Release, truth: Truth) -> Release:
    """A release as an attacker has it who knows how it was made, where the truth side does."""
    return release


@with_settings.register
def _(release: TablesRelease, truth: Truth) -> Release:
    if not release.changed or not truth.knows_mechanism:
        return release
    chain = truth.chain()
    known = chain.last.known_change() if chain.weight == 1 else None
    published = tuple(replace(one, known=known) for one in release.published)
    return replace(release, published=published)
