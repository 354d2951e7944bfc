"""The studio: the whole way from a file to a release in a browser, on this machine alone.

Its state is the TOML config and the run directory. Every screen is one call of the library, and
says which command does the same.
"""
