"""Composition roots: a config becomes a release, and a release is scored and attacked."""
