"""What is published: the release, its store and its receipt."""

from headcount.release.layout import Dense, LevelTable
from headcount.release.release import CountsRelease, Release, TablesRelease

__all__ = ["CountsRelease", "Dense", "LevelTable", "Release", "TablesRelease"]
