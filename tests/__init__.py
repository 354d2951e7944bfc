"""The tests, which mirror the package."""
