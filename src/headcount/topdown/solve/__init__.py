"""Constrained least squares and controlled rounding; outcomes are data, never only printed."""
