"""What is published: the release, its store and its receipt."""

from headcount.release.release import Dense, Release, Table

__all__ = ["Dense", "Release", "Table"]
