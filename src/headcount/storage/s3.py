"""Files in a bucket of S3: read by Arrow, put by Amazon's client, each in one request.

Arrow's own file system cannot put an object on condition that there is none, and so the writing
verbs use boto3 (the extra ``s3``). Both have the credentials that boto3 finds.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO

from headcount.errors import RunError
from headcount.files import scratch_file
from headcount.storage import FileContent

if TYPE_CHECKING:
    import pyarrow as pa

CONNECT_SECONDS = 5
"""How long to wait for a connection, each of a few times."""
ANSWER_SECONDS = 60
ATTEMPTS = 3
LARGEST = 5 << 30
"""Bytes that S3 takes in one request."""

_TAKEN = ("PreconditionFailed", "412")
_NO_RIGHT = (
    *("AccessDenied", "ACCESS_DENIED", "403", "InvalidAccessKeyId", "INVALID_ACCESS_KEY_ID"),
    *("SignatureDoesNotMatch", "SIGNATURE_DOES_NOT_MATCH", "ExpiredToken", "InvalidToken"),
)
_AT_WORK = ("ConditionalRequestConflict", "409")


@dataclass(frozen=True, kw_only=True)
class S3Storage:
    """Objects of a bucket below a folder.

    where
        region     None for that of the environment
        endpoint   address of a store that is not Amazon's; None for that of the environment
    """

    bucket: str
    folder: str = ""
    region: str | None = None
    endpoint: str | None = None

    @property
    def uri(self) -> str:
        """Bucket and folder."""
        return f"s3://{self.bucket}/{self.folder}".rstrip("/")

    def check(self) -> None:
        """Refuse a bucket in which objects cannot be put, found there, read and removed."""
        with self._explained():
            versions = self._client.get_bucket_versioning(Bucket=self.bucket).get("Status")
        if versions:
            raise RunError(
                f"{self.uri}: found a bucket with versions ({versions}), expected one without: "
                f"what a run removes in the end would stay in it"
            )
        probe = self.below(f"probe-{secrets.token_hex(8)}")
        probe.put("a", b"a")
        twice = probe.put_if_absent("a", b"b")
        probe.read("a")
        probe.remove()
        if twice:
            raise RunError(
                f"{self.uri}: found a store that does not heed If-None-Match, expected one that "
                f"can put an object only if there is none"
            )

    def read(self, name: str, first: int = 0, size: int | None = None) -> pa.Buffer:
        """A range of an object, by one request after one for its size."""
        with self._explained(name), self._files().open_input_file(self._path(name)) as file:
            file.seek(min(first, file.size()))
            return file.read_buffer(size)

    def put(self, name: str, data: FileContent) -> None:
        """One request."""
        with self._explained():
            self._client.put_object(**self._object(name, data))

    def put_if_absent(self, name: str, data: FileContent) -> bool:
        """One request, on condition that there is no such object."""
        from botocore.exceptions import ClientError

        with self._explained():
            for _ in range(ATTEMPTS):
                try:
                    self._client.put_object(**self._object(name, data), IfNoneMatch="*")
                    return True
                except ClientError as error:
                    code = error.response["Error"]["Code"]
                    if code in _TAKEN:
                        return False
                    if code not in _AT_WORK:  # another is being put: whether it will be is open
                        raise
            return False

    def scratch(self) -> contextlib.AbstractContextManager[BinaryIO]:
        """A file without a name, which the system removes however this process ends."""
        return scratch_file()

    def names(self) -> list[str]:
        """The keys of all objects, without the folder."""
        start = f"{self.folder}/" if self.folder else ""
        with self._explained():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=start
            )
            found = [one["Key"] for page in pages for one in page.get("Contents", ())]
        return sorted(key.removeprefix(start) for key in found)

    def remove(self) -> None:
        """Delete the objects, a thousand in a request."""
        keys = [{"Key": self._key(name)} for name in self.names()]
        for first in range(0, len(keys), 1000):
            some = {"Objects": keys[first : first + 1000], "Quiet": True}
            with self._explained():
                answer = self._client.delete_objects(Bucket=self.bucket, Delete=some)
            if left := answer.get("Errors"):
                raise RunError(
                    f"{self.uri}: found {len(left)} objects that cannot be removed "
                    f"({left[0].get('Code')}), expected the right to remove them"
                )

    def below(self, name: str) -> S3Storage:
        """Objects with a longer beginning."""
        return replace(self, folder=self._key(name))

    def _key(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name

    def _path(self, name: str) -> str:
        return f"{self.bucket}/{self._key(name)}"

    def _object(self, name: str, data: FileContent) -> dict[str, Any]:
        body: Any = data if hasattr(data, "seek") else memoryview(data)
        size = len(body) if isinstance(body, memoryview) else body.seek(0, 2)
        if size > LARGEST:
            raise RunError(
                f"{self.uri}/{name}: found {size:,} bytes, expected at most {LARGEST:,}, which S3 "
                f"takes in one request"
            )
        if isinstance(body, memoryview):
            body = bytes(body)
        else:
            body.seek(0)
        return {"Bucket": self.bucket, "Key": self._key(name), "Body": body}

    @property
    def _client(self) -> Any:
        return _client(self.region, self.endpoint)

    def _files(self) -> Any:
        """Arrow's file system, with boto3's credentials of this moment."""
        client = self._client
        found = _session().get_credentials()
        if found is None:
            from botocore.exceptions import NoCredentialsError

            raise NoCredentialsError
        now = found.get_frozen_credentials()
        # A bucket without a region, and so a client without one, is where S3 began.
        region = {"aws-global": "us-east-1"}.get(client.meta.region_name, client.meta.region_name)
        return _arrow(now.access_key, now.secret_key, now.token, region, client.meta.endpoint_url)

    @contextlib.contextmanager
    def _explained(self, name: str = "") -> Iterator[None]:
        """Errors of both libraries in our words: a code, never a text that may hold a secret."""
        _session()  # which refuses a missing boto3
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except FileNotFoundError as error:
            uri = f"{self.uri}/{name}"
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), uri) from error
        except ClientError as error:
            raise self._error(str(error.response["Error"]["Code"])) from None
        except BotoCoreError as error:
            raise self._error(type(error).__name__) from None
        except OSError as error:
            code = re.search(r"AWS Error (\w+)", str(error))
            raise self._error(code[1] if code else type(error).__name__) from None

    def _error(self, code: str) -> RunError:
        ours = f"{self.uri}: found"
        if code in ("NoSuchBucket", "NO_SUCH_BUCKET"):
            return RunError(f"{ours} no bucket {self.bucket!r}, expected one that exists")
        if code in ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"):
            return RunError(
                f"{ours} no credentials in this process ({code}), expected those of Amazon's "
                f"settings: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role"
            )
        if re.search("Connect|Endpoint|Timeout|Connection|NETWORK", code):
            return RunError(
                f"{ours} no answer from {self._address()} ({code}), expected an object store"
            )
        if code in _NO_RIGHT:
            return RunError(
                f"{ours} credentials that the store refuses ({code}), expected the right to list "
                f"the bucket, and to read, put and remove its objects"
            )
        return RunError(f"{ours} an error of the store ({code}), expected it to do as it was asked")

    def _address(self) -> str:
        return self.endpoint or str(self._client.meta.endpoint_url)


@lru_cache(maxsize=1)
def _session() -> Any:
    try:
        from boto3.session import Session
    except ModuleNotFoundError:
        raise RunError("s3:// needs boto3: pip install 'headcount[s3]'") from None
    return Session()


@lru_cache(maxsize=8)
def _client(region: str | None, endpoint: str | None) -> Any:
    """Amazon's client, which threads may share."""
    session = _session()
    from botocore.config import Config

    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=ANSWER_SECONDS,
        retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
        max_pool_connections=32,
    )
    return session.client("s3", region_name=region, endpoint_url=endpoint, config=config)


@lru_cache(maxsize=8)
def _arrow(access: str, secret: str, token: str | None, region: str, endpoint: str) -> Any:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    scheme, _, address = endpoint.partition("://")
    return S3FileSystem(
        access_key=access,
        secret_key=secret,
        session_token=token,
        region=region,
        scheme=scheme,
        endpoint_override=address,
        connect_timeout=CONNECT_SECONDS,
        request_timeout=ANSWER_SECONDS,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
    )
