"""Parts by name: mechanisms, populations, metrics and attacks, ours and those of other packages.

A part of ours is found by its module: ``geometric`` is the class of that name in
``headcount/mechanisms/geometric.py``, or in a package of that name its module ``mechanism``.
A module is one if its text says so, by the line ``name = "geometric"`` of a class; what it
shares with others may stand beside it. Nothing is listed by hand, and only the module that was
asked for is imported.

Another distribution brings parts by entry points in the group of the registry,

    [project.entry-points."headcount.mechanisms"]
    my-mechanism = "my_package:MyMechanism"

which are loaded only when a config names them. A name that stands for two things is refused, with
both distributions, and so is a part without the base class of its kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.metadata import Distribution, EntryPoint, EntryPoints, distributions
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from traceback import extract_tb

from headcount.errors import ConfigError, HeadcountError, PluginError, did_you_mean
from headcount.fields import shown
from headcount.processes import import_places

OURS = "headcount"
STUDIES = "headcount.studies"
"""The entry points of papers."""
TO_INSTALL = "pip install headcount-papers, or make install in a clone"
"""How papers are had."""
OF_PAPERS = (
    *("averaged", "histogram", "person-swapping", "raked", "averaging"),
    *("empirical-privacy-loss", "margin-gaps", "ipums1940", "us1940", "workload-s"),
)
"""What is there once these are installed, for the error of those who lack them."""


def _places() -> tuple[tuple[str, int], ...]:
    """Where distributions are looked for, and since when each place is as it is.

    Not in the folder of the data: who wrote those has no word in what is run.
    """
    return tuple(
        (one, Path(one).stat().st_mtime_ns) for one in import_places() if Path(one).is_dir()
    )


@lru_cache(maxsize=16)
def _entry_points(group: str, places: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """Entry points of a group; read again when something is installed, since that is slow."""
    found: dict[str, EntryPoints] = {}  # as when Python imports, the first place with a name has it
    for one in distributions(path=[place for place, _ in places]):
        if points := one.entry_points.select(group=group):
            found.setdefault(one.name, points)
    return tuple(chain.from_iterable(found.values()))


def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """What other distributions bring of a group."""
    return _entry_points(group, _places())


@dataclass(frozen=True)
class _Origin:
    """The distribution that a part comes from."""

    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


@dataclass(frozen=True)
class Registry:
    """Parts of one kind.

    where
        what     what they are, for errors; of a part that is a package, the module with its class
        package  where ours live: the public modules whose text has a class of their name
        group    entry points of others
        base     module and classes, one of which a part of others must extend
        tag      the attribute of a class, and the key of a config, that has its name
        apart    parts of ours that have a room of their own, each with the module of its class
    """

    what: str
    package: str
    group: str
    base: tuple[str, ...]
    tag: str = "name"
    apart: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def ours(self) -> tuple[str, ...]:
        """Names of our own parts, by the text of their modules; none of these is imported."""
        spec = find_spec(self.package)
        folders = map(Path, (spec and spec.submodule_search_locations) or ())
        found = (name for folder in folders for name in self._named(folder))
        return tuple(sorted({*found, *self.apart}))

    def _named(self, folder: Path) -> Iterator[str]:
        """Public modules of a folder, and packages in it, with a class of their own name."""
        for path in (*folder.glob("[!_]*.py"), *folder.glob(f"[!_]*/{self.what}.py")):
            module = path.stem if path.parent == folder else path.parent.name
            name = module.replace("_", "-")
            if f'\n    {self.tag} = "{name}"\n' in path.read_text(encoding="utf-8"):
                yield name

    def names(self) -> tuple[str, ...]:
        """All names that a config may give."""
        return tuple(sorted({*self.ours, *(point.name for point in self._points())}))

    def get(self, name: object, *, source: str = "", place: str = "") -> type:
        """The class of that name; an unknown one is an error at ``source`` and ``place``."""
        point = self._plugin(name)
        if point is not None:
            return self._loaded(point)
        if name not in self.ours:
            raise ConfigError(
                source or self.what,
                place=place,
                found=shown(name) if name is not None else "nothing",
                expected=did_you_mean(name, self.names()) + _known_as(name, self.names()),
            )
        own = f"{self.package}.{str(name).replace('-', '_')}"
        module = import_module(self.apart.get(str(name), own))
        if hasattr(module, "__path__"):
            module = import_module(f"{module.__name__}.{self.what}")
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and value.__module__ == module.__name__
                and value.__dict__.get(self.tag) == name
            ):
                return value
        raise ImportError(f"{module.__name__} has no class with {self.tag} = {name!r}")

    def origin(self, name: str) -> _Origin | None:
        """Where a part comes from; None for ours."""
        point = self._plugin(name)
        return None if point is None else _origin(point)

    def outside(self, part: object) -> str:
        """Whose a part is, in words, where it is not ours: a distribution, or a module."""
        module = type(part).__module__
        if module.partition(".")[0] == OURS:
            return ""
        name = getattr(part, self.tag, type(part).__name__)
        point = self._plugin(name)
        where = f"module {module}" if point is None else str(_origin(point))
        return f"{self.what} {name!r} of {where}"

    @contextmanager
    def naming(self, part: object) -> Iterator[None]:
        """Say whose a part is, and where in it, if it is not ours and fails while it works."""
        try:
            yield
        except (HeadcountError, OSError, MemoryError):
            raise
        except Exception as error:  # whatever a part of others does while it works
            if not (whose := self.outside(part)):
                raise
            *_, last = extract_tb(error.__traceback__)
            raise PluginError(
                f"{whose}: found a {type(error).__name__} at {last.filename}:{last.lineno} while "
                "it worked, expected none (its message is not shown: it may have counts in it)"
            ) from error

    def _points(self) -> Iterable[EntryPoint]:
        return entry_points(self.group)

    def _plugin(self, name: object) -> EntryPoint | None:
        """The one entry point of that name; two parts of one name are refused."""
        found = [point for point in self._points() if point.name == name]
        if not found:
            return None
        owners = [str(_origin(point)) for point in found]
        if name in self.ours:
            owners.insert(0, OURS)
        if len(owners) > 1:
            raise ConfigError(
                f"{self.what} {name!r}",
                found=f"two of that name, from {owners[0]} and from {owners[1]}",
                expected="one: uninstall the other, or ask its authors for another name",
            )
        return found[0]

    def _loaded(self, point: EntryPoint) -> type:
        try:
            found = point.load()
        except Exception as error:  # whatever a module of others does when it is imported
            raise self._unusable(point, f"{point.value} that cannot be loaded ({error})") from error
        if not isinstance(found, type):
            raise self._unusable(point, f"{point.value}, which is not a class")
        if getattr(found, self.tag, None) != point.name:
            said = getattr(found, self.tag, None)
            raise self._unusable(point, f"{point.value} with {self.tag} = {said!r}")
        module, *names = self.base
        if not issubclass(found, tuple(getattr(import_module(module), name) for name in names)):
            raise self._unusable(
                point, f"{point.value}, which does not extend {' or '.join(names)}"
            )
        if missing := sorted(getattr(found, "__abstractmethods__", ())):
            raise self._unusable(point, f"{point.value} without {', '.join(missing)}")
        if not getattr(getattr(found, "__dataclass_params__", None), "frozen", False):
            raise self._unusable(point, f"{point.value}, which is not a frozen dataclass")
        return found

    def _unusable(self, point: EntryPoint, found: str) -> ConfigError:
        module, *names = self.base
        return ConfigError(
            f"{self.what} {point.name!r} of {_origin(point)}",
            place=f"entry point of {self.group}",
            found=found,
            expected=f"a frozen dataclass with {self.tag} = {point.name!r} that extends "
            f"{' or '.join(names)} of {module}",
        )


KNOWN_AS = {
    "laplace": "geometric",  # the same law on whole numbers
    "ckm": "cell-key",
    "das": "topdown",
    "tda": "topdown",
}
"""What others call a part of ours."""


def _known_as(name: object, names: Iterable[str]) -> str:
    if name in OF_PAPERS and name not in names:
        return f" ({name} comes with headcount-papers: {TO_INSTALL})"
    ours = KNOWN_AS.get(str(name).casefold(), "")
    return f" ({name} is {ours!r} here)" if ours in names else ""


def _origin(point: EntryPoint) -> _Origin:
    if point.dist is None:  # made by hand, not by a distribution
        return _Origin("an unknown distribution", "")
    return _said_by(point.dist)


@lru_cache(maxsize=64)
def _said_by(distribution: Distribution) -> _Origin:
    """Name and version, which are read from a file each: once for each look at what is there."""
    return _Origin(distribution.name, distribution.version)


MECHANISMS = Registry(
    "mechanism",
    "headcount.mechanisms",
    "headcount.mechanisms",
    base=("headcount.mechanisms", "PreTabular", "PostTabular"),
    apart={"topdown": "headcount.topdown.mechanism"},
)
POPULATIONS = Registry(
    "population",
    "headcount.population",
    "headcount.populations",
    base=("headcount.population", "Source"),
    tag="kind",
)
METRICS = Registry(
    "metric",
    "headcount.evaluation",
    "headcount.metrics",
    base=("headcount.evaluation", "Metric"),
)
ATTACKS = Registry(
    "attack",
    "headcount.attacks",
    "headcount.attacks",
    base=("headcount.attacks", "Attack"),
)
