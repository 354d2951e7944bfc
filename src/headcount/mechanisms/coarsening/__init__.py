"""Coarsening: larger areas, broader levels, multiples of a base; nothing is left to chance."""
