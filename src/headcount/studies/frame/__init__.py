"""What all studies share: settings, cases, one cache, claims and a report from one template.

A study is a package beside this one: ``STUDY`` in its ``__init__``, a function ``run`` in its
module ``study``, the paper's numbers in ``published.toml`` and the report in ``report.md`` and
``report.toml``.
"""
