"""Made-up files as offices hand them out, with their truth, and a judge of whoever reads them.

    python -m tests.init.dirty_files --cases 2000 --seed 1

makes them, gives each to ``headcount init --yes`` and ``check``, and prints what became of them.
Nothing here imports how headcount reads a file: only its commands and ``headcount.read``.
"""
