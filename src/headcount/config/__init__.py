"""Typed TOML at the edge: every setting checked before any data is read."""
