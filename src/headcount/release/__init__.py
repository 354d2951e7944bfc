"""What is published: the release, its store and its receipt."""

from headcount.release.release import CountsRelease, Dense, Release, Table, TablesRelease

__all__ = ["CountsRelease", "Dense", "Release", "Table", "TablesRelease"]
