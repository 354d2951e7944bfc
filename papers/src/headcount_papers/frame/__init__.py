"""What all papers share: claims with their rules and verdicts, a paper's own draws.

A paper is a package beside this one: ``STUDY`` in its ``__init__``, a function ``run`` in its
module ``study``, its numbers in ``published.toml`` and the report in ``report.md`` and
``report.toml``. The rest (settings, cases, cache, report) is ``headcount.comparison``.
"""
