"""Drawing and writing a release: the same steps for a run and for its rehearsal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headcount.evaluation.suppressed import write_account
from headcount.mechanisms import Chain, Context, Tabulated, protect
from headcount.noise import Noise
from headcount.release import Release
from headcount.release.layout import FileLayout
from headcount.release.publication import Publication
from headcount.release.store import write_release


def make_release(
    data: Tabulated,
    mechanism: Chain,
    noise: Noise,
    *,
    folder: Path,
    curator: Path,
    context: Context,
    publications: Mapping[str, Publication],
    layout: FileLayout,
    receipt: Callable[[Release], Mapping[str, Any]],
) -> Release:
    """Protect people, and write all that is published of them.

    where
        folder    of the release
        curator   for the curator's account, which is never published
        receipt   what is said of a release
    """
    release = protect(data, mechanism, noise, context=context)
    more = [
        path
        for kind, publication in publications.items()
        # After other steps what is exact is so of the records that these made, not of the data.
        for path in (publication.knowing(data.counts) if mechanism.single else publication).write(
            release, folder / kind, quarters=data.counts.quarters, progress=context.progress
        )
    ]
    write_account(
        release,
        data.population,
        curator,
        protected=lambda: mechanism.changed(
            data, noise, run=0, context=replace(context, curator=None)
        ),
    )
    write_release(
        release,
        folder,
        receipt=receipt(release),
        more=more,
        layout=layout,
        progress=context.progress,
    )
    return release
