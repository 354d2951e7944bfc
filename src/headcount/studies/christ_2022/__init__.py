"""Swapping and differential privacy for minorities: Christ, Radway & Bellovin (2022).

M. Christ, S. Radway and S. M. Bellovin, "Differential privacy and swapping: examining
de-identification's impact on minority representation and privacy preservation in the U.S. Census",
IEEE Symposium on Security and Privacy. Nine block groups, five ways to swap people, a noisy
histogram, and an attacker with a list of names.
"""
