"""The whole study: every block group, swapper and epsilon, the attacks, the theory, the claims."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import polars.selectors as cs

from headcount.comparison.cache import FRAMES, Frames
from headcount.comparison.cases import joined
from headcount.comparison.study import Findings, Work
from headcount_papers.christ_2022 import pieces
from headcount_papers.christ_2022.kinks import kink_table
from headcount_papers.christ_2022.people import Synthetic
from headcount_papers.christ_2022.pieces import Piece
from headcount_papers.christ_2022.settings import Settings
from headcount_papers.christ_2022.theory import combinations, variances
from headcount_papers.frame.claims import verdicts

WRITTEN = ("accuracy", "privacy", "areas", "kinks", "theorem_1", "theorem_2", "variance")


def run(settings: Settings, work: Work) -> Findings:
    """Make what is not kept yet, then judge the claims.

    where
        accuracy    metrics by mechanism and parameter, means over replicates
        privacy     linkage attacks on swapped rows, means over replicates
        areas       who lives in each area, and how many rows are unique
        kinks       where the curves of each swapper bend
        theorem_1   changes of shares under random swapping, theory and simulation
        theorem_2   chances of unique rows by the size of an area
        variance    appendix A.3
        claims      the paper's claims one by one, each judged over many block groups; none of
                    them is judged on a table of the user's own
    """
    source = settings.source
    synthetic = isinstance(source, Synthetic)
    theory = _made(pieces.theory(source, settings), settings, work)
    theory |= {"variance": variances(settings.seed)}
    drawn = _made(pieces.tried(source, settings), settings, work) if synthetic else {}
    tables = _made(pieces.shown(source, settings), settings, work) | theory
    areas = [pieces.about(source.area(name)) for name in source.names]
    tables |= {"areas": drawn["areas"] if synthetic else pl.DataFrame(areas)}
    tables |= {"kinks": kink_table(tables["accuracy"], tables["privacy"], tables["areas"])}
    found = {name: tables[name] for name in WRITTEN}
    if synthetic:
        found["claims"] = judged(drawn, theory, examined=settings == Settings())
    frames = {"draws": _drawn(drawn["accuracy"])} if synthetic else {}
    # Six digits are more than chance leaves of any mean.
    digits = cs.float().round_sig_figs(6)
    return Findings(
        settings=settings,
        tables={name: table.with_columns(digits) for name, table in found.items()},
        frames=frames,
        confidential=not synthetic,
    )


def _drawn(accuracy: pl.DataFrame) -> pl.DataFrame:
    """What figures show of all block groups that were drawn."""
    return accuracy.filter(metric="kl", group="everyone", attributes=6)


def verdicts_of(settings: Settings, work: Work) -> pl.DataFrame:
    """The verdicts alone, without what only figures show."""
    theory = _made(pieces.theory(settings.source, settings), settings, work)
    theory |= {"variance": variances(settings.seed)}
    return judged(_made(pieces.tried(settings.source, settings), settings, work), theory)


def judged(drawn: Frames, theory: Frames, *, examined: bool = False) -> pl.DataFrame:
    """Verdicts on the claims, over all block groups that were drawn."""
    tables = {**drawn, **theory}
    tables |= {"kinks": kink_table(tables["accuracy"], tables["privacy"], tables["areas"])}
    tables |= {"combinations": combinations()}
    return verdicts(__package__, tables, examined=examined)["claims"]


def _made(wanted: Sequence[Piece], settings: Settings, work: Work) -> Frames:
    inputs = {name: value for name, value in settings.identity().items() if name != "counties"}
    cache = work.cache

    def made(piece: Piece) -> Frames:
        return cache.get(
            piece.make,
            name="piece",
            inputs=f"{inputs} {piece.name}",
            made_by=pieces.__name__,
            codec=FRAMES,
        )

    found = work.engine.map(made, wanted)
    return joined(list(work.progress(found, what="Swaps, noise and attacks", total=len(wanted))))
