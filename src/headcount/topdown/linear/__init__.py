"""Variances and best linear unbiased estimates (BLUE, GLS) from noisy tree-structured measurements.

They say how exact an estimate can be, before and after noise is drawn. Everything here follows from
the tree of places, the queries and the variances of the noise. No count is needed to know how exact
a count will be, and none is asked for.
"""
