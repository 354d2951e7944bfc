"""Files searched for a secret, in whatever form it may stand there."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path


def forms_of(secret: int | bytes) -> dict[str, bytes]:
    """How a number or a key could stand in a file."""
    if isinstance(secret, bytes):
        plain = {"bytes": secret, "repr": repr(secret)[2:-1].encode()}
    else:
        plain = {"text": str(secret).encode(), "bytes": secret.to_bytes(5, "little")}
    forms = dict(plain)
    for name, one in plain.items():
        forms |= {f"{name}, hex": one.hex().encode(), f"{name}, HEX": one.hex().upper().encode()}
        for shift in range(3):  # in the middle of a longer text, its first and last signs differ
            whole, end = b64encode(b"\0" * shift + one), 4 * (shift + len(one)) // 3
            forms[f"{name}, base64 {shift}"] = whole[-(-4 * shift // 3) : end]
    return forms


def found(folder: Path, *secrets: int | bytes) -> set[str]:
    """The forms of secrets that stand in any file below a folder."""
    written = [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        name
        for secret in secrets
        for name, form in forms_of(secret).items()
        if any(form in one for one in written)
    }
