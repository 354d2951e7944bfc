"""An object store for tests: moto's server in this process, with one bucket."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

import pytest

from headcount.storage import s3

SECRET = "not-to-be-seen-anywhere"


def forget() -> None:
    """Let the next use of S3 look at the environment again."""
    for cached in (s3._session, s3._client, s3._arrow):
        cached.cache_clear()


@contextmanager
def bucket(name: str = "town") -> Iterator[str]:
    """The URI of a bucket that exists as long as the context; credentials are in the environment.

    ``make test`` installs moto, so that its absence is an error and no reason to skip.
    """
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    urlopen(Request(f"http://{host}:{port}/moto-api/reset", method="POST")).close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "tests")
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.delenv("AWS_PROFILE", raising=False)
        forget()
        client = s3._client("us-east-1", f"http://{host}:{port}")
        client.create_bucket(Bucket=name)
        try:
            yield f"s3://{name}/files?endpoint_override={host}:{port}&scheme=http&region=us-east-1"
        finally:
            server.stop()
            forget()
