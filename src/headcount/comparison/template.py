"""A study's report from one template: ``report.md`` for the text, ``report.toml`` for the rest.

The template is Markdown with Jinja expressions. ``# ...`` is the report's title and the paragraph
under it the subtitle; ``## Summary`` and ``## Limits`` have to be there, other ``##`` are sections
and ``###`` subheadings. ``> [!NOTE]``, ``[!WARNING]`` and ``[!KEY FINDING]`` begin a callout.
``{{ figure("name") }}``, ``{{ table("name") }}`` and ``{{ number(...) }}`` on lines of their own
are figures, tables and big numbers. The template sees the findings' ``settings`` and ``tables``,
``cell`` for one value of a table, the study's ``words``, and ``facts``: those of the findings and
what the function ``facts`` of the study's module ``report`` adds. ``FILTERS`` of that module are
its own filters.

``report.toml`` lists figures and tables as data. ``[columns]`` is the dictionary of columns: a
label, or {label, unit, format}. ``[axes]`` and ``[controls]`` name what several figures share; an
axis with ``ticks = "values"`` marks every value, one with ``names = "values"`` has them side by
side as they come. ``[tables.NAME]`` has a caption and columns; with ``group = "column"`` rows stand
under the values of that column. ``[figures.NAME]`` has a caption, a text for those who cannot see
it and a chart. The data of both is a table of the study or a view: a function in ``VIEWS`` of the
study's module ``report``. Captions and labels are templates, as the report's text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from importlib import import_module, resources
from typing import TYPE_CHECKING, Any

import polars as pl

from headcount.comparison.study import Findings, Study
from headcount.errors import ConfigError
from headcount.report import figures as charts
from headcount.report.figures import Axis, Control, Reference
from headcount.report.heat import heat_chart
from headcount.report.model import (
    Block,
    Callout,
    Column,
    Figure,
    KeyNumber,
    KeyNumbers,
    Prose,
    Provenance,
    Report,
    Section,
    Subheading,
    Table,
    table_from_frame,
)

if TYPE_CHECKING:
    from altair.typing import ChartType
    from jinja2 import Environment

CHARTS: dict[str, Callable[..., ChartType]] = {
    "line": charts.line_chart,
    "point": charts.point_chart,
    "band": charts.band_chart,
    "histogram": charts.histogram_chart,
    "two-scale": charts.two_scale_chart,
    "heat": heat_chart,
}
_AXES = ("x", "y", "top", "value")
_CALLOUT = re.compile(r"> ?\[!(NOTE|WARNING|KEY FINDING)\]")
_MARK = "\ue000"  # a private character: no text of ours or of a user's begins a line with it
_NUMBER = "\ue001"
_SOFT_BREAK = re.compile(r"(?<!\n)\n(?!\n|\s*[-*] |\s*\d+\. |\s*> |\|) *")


def write_text(
    study: Study, findings: Findings, *, provenance: Provenance, template: str = "report.md"
) -> Report:
    """Fill in a template of the study and take it apart into the report's blocks."""
    page = _Page(study, findings)
    text = page.render((resources.files(study.package) / template).read_text(encoding="utf-8"))
    head, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    title, _, subtitle = head.strip().removeprefix("# ").partition("\n")
    sections = {}
    for part in parts:
        heading, _, body = part.partition("\n")
        sections[heading.strip()] = tuple(page.blocks(body))
    return Report(
        title=title.strip(),
        subtitle=joined(subtitle),
        summary=sections.pop("Summary", ()),
        limits=sections.pop("Limits", ()),
        sections=tuple(Section(title=name, blocks=blocks) for name, blocks in sections.items()),
        provenance=provenance,
        confidential=findings.confidential,
    )


def joined(text: str) -> str:
    """Lines of a paragraph or of a list's item joined, so that a sentence is one string."""
    return _SOFT_BREAK.sub(" ", text).strip()


class _Page:
    """One report while it is made: Jinja's names, and the blocks that its marks stand for."""

    def __init__(self, study: Study, findings: Findings) -> None:
        module = import_module(f"{study.package}.report")
        if hasattr(module, "facts"):
            findings = replace(findings, facts={**findings.facts, **module.facts(findings)})
        self.findings, self.filters = findings, {**FILTERS, **getattr(module, "FILTERS", {})}
        self.drawn: set[str] = set()
        self.words = study.words(findings)
        self.exhibits = study.exhibits()(
            package=study.package,
            findings=findings,
            render=lambda text: joined(self.render(text)),
            drawn=self.drawn,
        )

    def render(self, text: str) -> str:
        return self._jinja.from_string(text).render()

    @cached_property
    def _jinja(self) -> Environment:
        from jinja2 import Environment, StrictUndefined

        found = self.findings
        jinja = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        jinja.filters.update(self.filters)
        jinja.globals.update(
            settings=found.settings,
            facts=found.facts,
            tables=found.tables,
            figure=self._figure,
            table=lambda name: f"{_MARK}table {name}",
            number=lambda value, label, unit="": f"{_MARK}{_NUMBER.join((value, label, unit))}",
            cell=lambda table, column, /, **where: cell(found.tables[table], column, **where),
            **self.words,
        )
        return jinja

    def _figure(self, name: str) -> str:
        self.drawn.add(name)
        return f"{_MARK}figure {name}"

    def blocks(self, text: str) -> Iterator[Block]:
        """Take a section's text apart."""
        numbers: list[KeyNumber] = []
        for chunk in _chunks(text):
            if _NUMBER in chunk:
                value, label, unit = chunk.removeprefix(_MARK).split(_NUMBER)
                numbers.append(KeyNumber(value=value, label=label, unit=unit))
                continue
            if numbers:
                yield KeyNumbers(tuple(numbers))
                numbers = []
            yield self._block(chunk)
        if numbers:
            yield KeyNumbers(tuple(numbers))

    def _block(self, chunk: str) -> Block:
        if chunk.startswith(_MARK):
            kind, _, name = chunk.removeprefix(_MARK).partition(" ")
            return self.exhibits.figure(name) if kind == "figure" else self.exhibits.table(name)
        if chunk.startswith("### "):
            return Subheading(chunk.removeprefix("### ").strip())
        if callout := _CALLOUT.match(chunk):
            said = "\n".join(line.removeprefix(">").strip() for line in chunk.splitlines()[1:])
            return Callout(callout[1].lower(), joined(said))  # type: ignore[arg-type]
        return Prose(joined(chunk))


def _chunks(text: str) -> Iterator[str]:
    """Pieces of text that are one block each: neighbouring paragraphs are one."""
    prose: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = paragraph.strip("\n")
        alone = lines.startswith((_MARK, "### ")) or _CALLOUT.match(lines)
        if alone and prose:
            yield "\n\n".join(prose)
            prose = []
        if lines.startswith(_MARK):
            yield from (line.strip() for line in lines.splitlines())
        elif alone:
            yield lines
        elif lines.strip():
            prose.append(lines)
    if prose:
        yield "\n\n".join(prose)


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


def cell(frame: pl.DataFrame, column: str, /, **where: Any) -> Any:
    """The value of the one row that fits; None if there is no such row, or several."""
    rows = frame.filter(**where)
    return rows[column][0] if rows.height == 1 else None


def shown(value: Any, form: str = "") -> str:
    """A number in a Python format, with a true minus."""
    return format(value, form).replace("-", "\N{MINUS SIGN}")


def percent(share: float, digits: int = 3) -> str:
    """A share in percent: "50 %"."""
    return f"{100 * share:.{digits}g} %"


def listed(items: list[str], word: str = "and") -> str:
    """Items as English: "a", "a and b", "a, b and c"."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {word} {items[-1]}"


def _plural(number: int, one: str, many: str = "") -> str:
    """A number with its noun: "1 county", "3 counties"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


FILTERS: Mapping[str, Callable[..., Any]] = {
    "shown": shown,
    "percent": percent,
    "listed": listed,
    "plural": _plural,
}
