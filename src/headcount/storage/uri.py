"""A place for files by its URI."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from headcount.errors import ConfigError
from headcount.storage.disk import DiskStorage
from headcount.storage.protocol import Storage
from headcount.storage.s3 import S3Storage

_OPTIONS = ("region", "endpoint_override", "scheme")


def storage_at(place: str | Path) -> Storage:
    """The storage at a folder, at ``file:///folder`` or at ``s3://bucket/folder``.

    An S3 URI may end in Arrow's options ``region``, ``endpoint_override`` (host and port) and
    ``scheme`` (of the endpoint: ``https``, or ``http``). What it leaves out comes from the
    environment of each process, as in every tool that uses Amazon's settings.
    """
    text = str(place)
    if "://" not in text:
        return DiskStorage(Path(place))
    parts = urlsplit(text)
    if "@" in parts.netloc:  # its name and password are not repeated
        raise _refused(
            f"{parts.scheme}://...@...", "a URI with a name or a password in it", "neither"
        )
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and not parts.query:
        return DiskStorage(Path(unquote(parts.path)))
    if parts.scheme != "s3":
        raise _refused(
            text, f"a URI of scheme {parts.scheme!r}", "a folder, file:///folder or s3://bucket"
        )
    given = parse_qsl(parts.query, keep_blank_values=True)
    if unknown := [name for name, _ in given if name not in _OPTIONS]:  # its value may be secret
        plain = f"s3://{parts.netloc}{parts.path}"
        raise _refused(plain, f"a URI with option {unknown[0]!r}", f"some of {', '.join(_OPTIONS)}")
    if not parts.netloc:
        raise _refused(text, "a URI without a bucket", "s3://bucket/folder")
    options = dict(given)
    endpoint = options.get("endpoint_override")
    return S3Storage(
        bucket=parts.netloc,
        folder=unquote(parts.path).strip("/"),
        region=options.get("region"),
        endpoint=f"{options.get('scheme', 'https')}://{endpoint}" if endpoint else None,
    )


def _refused(uri: str, found: str, expected: str) -> ConfigError:
    return ConfigError(uri, found=found, expected=expected)
