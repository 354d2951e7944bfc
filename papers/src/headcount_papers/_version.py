"""The version: that of headcount, with which these papers were run."""

__version__ = "0.1.0"
