"""``headcount schema``: which keys a config may have, for editors."""

from __future__ import annotations

import json

import typer


def schema() -> None:
    """Print the JSON schema of a config, with every key, its kind and what it means.

    An editor that knows it completes keys and marks faults while you type. Some checks need more
    than a schema can say: headcount check has the last word.

    Example: headcount schema > headcount.schema.json
    """
    from headcount.config.schema import config_schema

    typer.echo(json.dumps(config_schema(), indent=2, ensure_ascii=False))
