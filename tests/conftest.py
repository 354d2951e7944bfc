"""Settings for every test."""

from hypothesis import settings

# A deadline per example is a wall time, which depends on what else the machine is doing.
settings.register_profile("headcount", deadline=None)
settings.load_profile("headcount")
