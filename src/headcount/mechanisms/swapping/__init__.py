"""Households, or people, change places: what the three swapping mechanisms share."""
