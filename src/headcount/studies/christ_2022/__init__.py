"""Swapping and differential privacy for minorities: Christ, Radway & Bellovin (2022)."""
