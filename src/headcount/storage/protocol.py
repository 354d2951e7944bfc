"""What a place for files must do: read a range, put a whole file, put one if there is none."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

FileContent: TypeAlias = bytes | memoryview | BinaryIO
"""All bytes of a file: in memory (a buffer of Arrow too), or in a file that ``scratch`` gave."""


class Storage(Protocol):
    """Files by their names, which may have folders in them (``run-0/state/0-5.arrow``).

    A file appears whole or not at all, whoever is killed while writing it, and is never renamed or
    changed in part. So work may be done twice, by tasks that know nothing of each other. A storage
    can be pickled: it says where the files are, and never by what right (each process finds its
    own credentials).
    """

    @property
    def uri(self) -> str:
        """Where this is, for messages: without any secret."""

    def check(self) -> None:
        """Refuse a place that cannot be read and written as the other verbs will."""

    def read(self, name: str, first: int = 0, size: int | None = None) -> pa.Buffer:
        """Some bytes of a file, or all from ``first`` on; FileNotFoundError if there is none."""

    def put(self, name: str, data: FileContent) -> None:
        """Write a whole file, in the place of any that has its name."""

    def put_if_absent(self, name: str, data: FileContent) -> bool:
        """Write a whole file unless one has its name; whether it was written comes back.

        Of several at once one is written. An answer that was lost on the way may make this False
        for the one that was: what is there must be looked at.
        """

    def scratch(self) -> AbstractContextManager[BinaryIO]:
        """A file of this process's own to fill, which is then put; it goes in the end."""

    def names(self) -> list[str]:
        """The names of all files here, in order."""

    def remove(self) -> None:
        """Remove every file here; harmless when done twice."""

    def below(self, name: str) -> Storage:
        """The files whose names begin with a folder."""
