"""The version, written once: the build, the receipt and the documents all read it from here."""

__version__ = "0.1.0"
