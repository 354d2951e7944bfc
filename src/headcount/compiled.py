"""Compiled loops: numba, with a cache that belongs to exactly these sources.

Numba keeps compiled code by the content of a function's own file, not of the files it calls into.
After an upgrade, or an edit, it would go on running old callees. So the cache folder is named
after a digest of all files with compiled functions.

Loops are compiled for the processor at hand, but as they are written: without ``fastmath`` a
compiler may neither reorder a sum nor join a product and a sum, so that every machine rounds alike,
whether a loop was just compiled, put into another, or loaded. Allowed to, it did: the same key
gave other counts after a first compilation, now and then, and saved no time.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from numba import config, njit

from headcount.files import user_cache

__all__ = ["njit"]


def sources_digest(package: Path) -> str:
    """A digest of every file of a package that has compiled functions."""
    hasher = sha256()
    for path in sorted(package.rglob("*.py")):
        if b"njit" in (content := path.read_bytes()):
            hasher.update(f"{path.relative_to(package)}\0".encode() + content)
    return hasher.hexdigest()[:16]


def cache_folder(package: Path) -> Path:
    """Where compiled code of these sources is kept: in the user's cache."""
    return user_cache() / f"compiled-{sources_digest(package)}"


if not getattr(config, "CACHE_DIR", ""):  # a user's own setting stands
    vars(config)["CACHE_DIR"] = str(cache_folder(Path(__file__).parent))
