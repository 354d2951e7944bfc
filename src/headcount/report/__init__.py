"""Reports: typed content, figures, and one self-contained HTML file.

Build a ``Report`` from the types of ``headcount.report.model``, draw its charts with
``headcount.report.figures`` and write it with ``headcount.report.html.write_report``.
"""
