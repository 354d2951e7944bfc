"""The case of a number: a population, a shape and some dirt, all from one seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.init.dirty_files.dirt import DIRT, Dirt
from tests.init.dirty_files.model import Case, make_world
from tests.init.dirty_files.shapes import SHAPES, Shape

HOW_MUCH = (0, 1, 1, 1, 2, 2, 3, 5)
"""How many kinds of dirt a table has."""

BY_NAME: dict[str, Shape] = {shape.__name__: shape for shape in SHAPES}
DIRT_BY_NAME: dict[str, Dirt] = {dirt.__name__: dirt for dirt in DIRT}


@dataclass(frozen=True)
class Plan:
    """What a case is made of."""

    shape: Shape
    dirt: tuple[str, ...]
    seed: int

    def made(self) -> Case:
        """The table, dirty; what one kind of dirt draws changes no other."""
        random = Random(f"{self.seed} {self.shape.__name__}")
        case = self.shape(make_world(random), random)
        for one in DIRT:
            if one.__name__ in self.dirt:
                made = one(case, Random(f"{self.seed} {one.__name__}"))
                if made is not case:
                    case = replace(made, dirt=(*case.dirt, one.__name__))
        return case


def make_plan(number: int, *, seed: int, more: int = 0) -> Plan:
    """The plan of that number. Shapes take turns, so that few cases have all of them.

    ``more``: so many kinds of dirt more than tables have as a rule.
    """
    random = Random(f"dirty {seed} {number}")
    shape = SHAPES[number % len(SHAPES)]
    chosen = random.sample(DIRT, more + random.choice(HOW_MUCH))
    return Plan(shape, tuple(dirt.__name__ for dirt in chosen), random.getrandbits(32))
