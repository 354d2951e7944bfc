"""Settings of rounding that offices have published."""
