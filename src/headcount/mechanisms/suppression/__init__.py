"""Suppression: withholding cells, and others so that these cannot be worked out."""
