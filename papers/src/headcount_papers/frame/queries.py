"""Numbers of a claim found by a query: SQL over the tables of a study and the views of its claims.

``[views]`` of ``published.toml`` names queries that others build on, in their order.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import polars.selectors as cs

from headcount.errors import ConfigError


class Queries:
    """The tables of a study, and views on them, by name."""

    def __init__(self, tables: Mapping[str, pl.DataFrame], views: Mapping[str, str]) -> None:
        self._sql = pl.SQLContext(frames=dict(tables))
        for name, query in views.items():
            self._sql.register(name, self.rows(query, of=f"views.{name}"))

    def rows(self, query: str, *, of: str) -> pl.DataFrame:
        """What a query finds; ``of`` names it in an error."""
        try:
            found = self._sql.execute(query).collect(engine="in-memory")
            return found.with_columns(cs.decimal().cast(pl.Float64))
        except pl.exceptions.PolarsError as error:
            raise ConfigError(
                "published.toml", place=of, found=str(error), expected="a query that polars can run"
            ) from None
