"""What is published: the release, its store and its receipt."""

from headcount.release.release import CountsRelease, Dense, LevelTable, Release, TablesRelease

__all__ = ["CountsRelease", "Dense", "LevelTable", "Release", "TablesRelease"]
