"""Rounding: counts as multiples of a base, cell by cell or with every sum kept."""
