"""Where a population comes from: each kind of ``[population]`` is a class with its keys as fields.

A kind of one's own has ``kind``, ``read(progress)``, ``data_file`` and ``source_digest``; the two
bases below give all but the first two.
"""

from headcount.population._placed import UNITS_READ_OFF
from headcount.population.sources._base import FromFile, Generated, InDwellings, Source

__all__ = ["UNITS_READ_OFF", "FromFile", "Generated", "InDwellings", "Source"]
