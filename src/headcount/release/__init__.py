"""What is published: the release, its store and its receipt."""

from headcount.release.release import Release

__all__ = ["Release"]
