"""Where the files of an unfinished run are kept: a folder, or a place in an object store."""

from headcount.storage.disk import DiskStorage
from headcount.storage.protocol import FileContent, Storage
from headcount.storage.uri import storage_at

__all__ = ["DiskStorage", "FileContent", "Storage", "storage_at"]
