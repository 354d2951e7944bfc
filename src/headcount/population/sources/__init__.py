"""Where a population comes from: each kind of ``[population]`` is a class with its keys as fields.

A kind of one's own has ``kind``, ``read(progress)``, ``data_file`` and ``source_digest``; the two
bases below give all but the first two.
"""

from headcount.population.sources._base import FromFile, Generated, Source

__all__ = ["FromFile", "Generated", "Source"]
