"""The figures and tables that a study's ``report.toml`` lists: data, no code.

``[columns]`` is the dictionary of columns: a label, or {label, unit, format}. ``[axes]`` and
``[controls]`` name what several figures share; an axis with ``ticks = "values"`` marks every value,
one with ``names = "values"`` has them side by side as they come.
``[tables.NAME]`` has a caption and columns; with ``group = "column"`` rows stand under the values
of that column. ``[figures.NAME]`` has a caption, a text for those who cannot see it and a chart.
The data of both is a table of the study or a view: a function in ``VIEWS`` of the study's module
``report``. Captions and labels are templates, as the report's text.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from importlib import import_module, resources
from typing import TYPE_CHECKING, Any

from headcount.comparison.study import Findings
from headcount.errors import ConfigError
from headcount.report import figures as charts
from headcount.report.figures import Axis, Control, Reference
from headcount.report.heat import heat_chart
from headcount.report.model import Column, Figure, Table, table_from_frame

if TYPE_CHECKING:
    import polars as pl
    from altair.typing import ChartType

CHARTS: dict[str, Callable[..., ChartType]] = {
    "line": charts.line_chart,
    "point": charts.point_chart,
    "band": charts.band_chart,
    "histogram": charts.histogram_chart,
    "two-scale": charts.two_scale_chart,
    "heat": heat_chart,
}
_AXES = ("x", "y", "top", "value")


class Exhibits:
    """The figures and tables of one report.

    where
        package    the study's
        render     fills in a template
        drawn      names of the figures that this report has
    """

    def __init__(
        self,
        *,
        package: str,
        findings: Findings,
        render: Callable[[str], str],
        drawn: Collection[str],
    ) -> None:
        self._package, self._findings, self._render = package, findings, render
        self.drawn = drawn
        text = (resources.files(package) / "report.toml").read_text(encoding="utf-8")
        self._list = tomllib.loads(text)
        module = import_module(f"{package}.report")
        self._views: Mapping[str, Callable[[Findings], pl.DataFrame]] = module.VIEWS
        self._drawn: Mapping[str, Callable[..., ChartType]] = getattr(module, "CHARTS", {})
        self._more: Mapping[str, Callable[[Findings], list[Any]]] = getattr(module, "COLUMNS", {})

    def frame(self, name: str) -> pl.DataFrame:
        """A view, or a table of the study."""
        if name in self._views:
            return self._views[name](self._findings)
        found = {**self._findings.tables, **self._findings.frames}
        if name not in found:
            raise self._unknown("view or table", name, [*self._views, *found])
        return found[name]

    def table(self, name: str) -> Table:
        """The table of that name."""
        about = self._entry("tables", name)
        more = self._more[name](self._findings) if name in self._more else []
        frame = self.frame(about.get("frame", name))
        columns = [self._column(one) for one in (*about["columns"], *more)]
        frame, columns, group = self.arranged(about, frame, columns)
        return table_from_frame(
            frame,
            name=name,
            caption=about["caption"],
            columns=columns,
            notes=about.get("notes", ""),
            folded=about.get("folded", False),
            group=group,
        )

    def arranged(
        self, about: Mapping[str, Any], frame: pl.DataFrame, columns: list[Column]
    ) -> tuple[pl.DataFrame, list[Column], str]:
        """Rows, columns and the column of groups of a table; a study may have tables of its own."""
        return frame, columns, about.get("group", "")

    def figure(self, name: str) -> Figure:
        """The figure of that name; a chart that the frame does not know is the study's own."""
        about = self._entry("figures", name)
        texts = {key: about.pop(key) for key in ("caption", "alt")}
        frame, kind = self.frame(about.pop("frame", name)), about.pop("chart")
        for axis in _AXES:
            if axis in about:
                about[axis] = self._axis(about[axis], frame)
        about["controls"] = [self._control(one, frame) for one in about.pop("controls", ())]
        lines = [Reference(**_numbers(one, "x", "y")) for one in about.pop("references", ())]
        if lines:
            about["references"] = lines
        if kind in CHARTS:
            chart = CHARTS[kind](_drawn_columns(frame, about), **about)
        elif kind in self._drawn:
            chart = self._drawn[kind](frame, findings=self._findings, **about)
        else:
            raise self._unknown("chart", kind, [*CHARTS, *self._drawn])
        return Figure(name=name, chart=chart, **texts)

    @cached_property
    def _shared(self) -> dict[str, Any]:
        return {kind: self._list.get(kind, {}) for kind in ("columns", "axes", "controls")}

    def _entry(self, kind: str, name: str) -> dict[str, Any]:
        if name not in self._list.get(kind, {}):
            raise self._unknown(kind.removesuffix("s"), name, list(self._list.get(kind, {})))
        return {key: self._filled(value) for key, value in self._list[kind][name].items()}

    def _filled(self, value: Any) -> Any:
        """The same with every template in it filled in."""
        if isinstance(value, dict):
            return {key: self._filled(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._filled(one) for one in value]
        return self._render(value) if isinstance(value, str) else value

    def _column(self, one: str | dict[str, Any]) -> Column:
        """A column by its name in the dictionary, or with what differs from there."""
        own = {"key": one} if isinstance(one, str) else one
        key = own["key"]
        known = self._filled(self._shared["columns"].get(own.pop("as", key), {}))
        known = {"label": known} if isinstance(known, str) else known
        return Column(**{"label": key, **known, **own})

    def _axis(self, one: str | dict[str, Any], frame: pl.DataFrame) -> Axis:
        own = {"like": one} if isinstance(one, str) else one
        known = self._filled(self._shared["axes"].get(own.get("like", ""), {}))
        both = {**known, **{key: value for key, value in own.items() if key != "like"}}
        if both.get("ticks") == "values":
            both["ticks"] = frame[both["column"]].unique().sort().to_list()
        if both.get("names") == "values":
            both["names"] = frame[both["column"]].unique(maintain_order=True).to_list()
        plain: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in both.items()
        }
        return Axis(**plain)

    def _control(self, one: str | dict[str, Any], frame: pl.DataFrame) -> Control:
        own = {"column": one} if isinstance(one, str) else one
        if own["column"] in frame and frame[own["column"]].dtype.is_numeric():
            own = _numbers(own, "initial")  # a code that looks like a number stays as it is
        known = self._shared["controls"].get(own["column"], own["column"])
        return Control(**{"label": known, **own})

    def _unknown(self, what: str, name: str, known: list[str]) -> ConfigError:
        return ConfigError(
            f"{self._package.rsplit('.', 1)[-1]}/report.toml",
            place=what,
            found=repr(name),
            expected="one of " + ", ".join(known),
        )


def _drawn_columns(frame: pl.DataFrame, about: dict[str, Any]) -> pl.DataFrame:
    """The columns that a chart draws: the page holds the data of every chart."""
    named = {about.get(key) for key in ("series", "low", "high", "heat")}
    named |= {about[axis].column for axis in _AXES if axis in about}
    named |= {control.column for control in about["controls"]}
    return frame.select(column for column in frame.columns if column in named)


def _numbers(entry: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The same with numbers that a template has written as text read back."""
    return {key: _number(value) if key in keys else value for key, value in entry.items()}


def _number(value: Any) -> Any:
    try:
        return float(value)
    except ValueError:
        return value
