"""TopDown: noisy measurements at every level, then least squares and rounding from the top."""
