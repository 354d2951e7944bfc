"""The table ``[mechanism]`` of a run that withholds cells."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from headcount.config.values import Strict, Whole, Wrong
from headcount.errors import InputError
from headcount.mechanisms.suppression.mechanism import LARGEST_EFFORT, TABLES, Suppression
from headcount.mechanisms.suppression.rules import Thresholds, known_tables
from headcount.schema.attribute import first_repeated


class ThresholdsModel(Strict):
    """The largest counts that are too small to publish."""

    cell: Whole = Field(2, ge=1)
    group: Whole = Field(14, ge=1)
    persons: Whole = Field(14, ge=1)
    homes: Whole = Field(4, ge=1)


class SuppressionModel(Strict):
    """Published tables, less what is too small."""

    name: Literal["suppression"]
    rule: Literal["1980", "complementary"] = "1980"
    tables: tuple[str, ...] = TABLES
    by_cell: tuple[str, ...] = ("P1", "P2")
    thresholds: ThresholdsModel = ThresholdsModel()  # type: ignore[call-arg]
    lowest: str = ""
    width: Whole = Field(3, ge=1)
    effort: Whole = Field(1, ge=0, le=LARGEST_EFFORT)
    keep_totals: bool = False
    whole: tuple[str, ...] = ()
    audit: Whole = Field(50, ge=0)

    @model_validator(mode="after")
    def _sound(self) -> SuppressionModel:
        known = known_tables()
        for name in (*self.tables, *self.whole):
            if name not in known:
                raise Wrong(found=f"table {name!r}", expected=f"some of {', '.join(known)}")
        if (repeated := first_repeated(self.tables)) is not None:
            raise Wrong(found=f"table {repeated!r} twice", expected="distinct tables")
        try:
            self.build()
        except InputError as error:
            raise Wrong(found=f"{error.place}: {error.found}", expected=error.expected) from None
        return self

    def build(self) -> Suppression:
        """The mechanism that this table describes."""
        return Suppression(
            rule=self.rule,
            tables=self.tables,
            by_cell=self.by_cell,
            thresholds=Thresholds(**self.thresholds.model_dump()),
            lowest=self.lowest,
            width=self.width,
            effort=self.effort,
            keep_totals=self.keep_totals,
            whole=self.whole,
            audit=self.audit,
        )
