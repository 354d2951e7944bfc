"""Errors on a tree in which all units of a level are alike, and how they change with its noise.

With k children of every unit above depth d, precision H_d and what is exact E_d (tree.py),

    B_d = k U_(d+1)  given what is exact,    U_d = (B_d^-1 + H_d)^-1,    at the leaf B = infinite
    V_0 = U_0,    V_d = (1 - 1/k) U_d + V_(d-1) / k^2

Each of k equal children has 1/k of the sum, and of what is left open of it. The slopes of a number
that depends on all V_d, in the precisions, follow by the chain rule, from the last step to the
first: one pass back costs as much as one forward, whatever the number of shares.
"""

from __future__ import annotations

import numpy as np

from headcount.arrays import Floats
from headcount.topdown.linear.known import cleared, divided, largest, pseudo_inverse, symmetric


class EvenTree:
    """V at every depth, of several components of one size: components x size x size.

    where
        precision   H: depths x components x size x size
        exact       E of each depth: size x directions
        fans        how many children a unit of each depth has
    """

    def __init__(self, precision: Floats, exact: list[Floats], fans: Floats) -> None:
        self._fans, one = fans, np.eye(precision.shape[-1])
        self._shape = precision.shape
        self._estimates: list[Floats] = []
        self._steps: list[tuple[Floats, Floats]] = []
        for depth in reversed(range(len(precision))):
            if not self._estimates:  # at the leaf (I + B H)^-1 B is H^-1, and what is exact is last
                whole = divided(np.broadcast_to(one, precision[depth].shape), precision[depth])
                keeps = _keeps(whole, exact[depth])
                estimate = cleared(keeps @ whole, whole)
                step = (estimate, keeps)
            else:
                below = fans[depth] * self._estimates[0]
                keeps = _keeps(below, exact[depth])
                below = cleared(symmetric(keeps @ below), below)
                turned = divided(np.broadcast_to(one, below.shape), one + below @ precision[depth])
                estimate, step = turned @ below, (turned @ below, turned @ keeps)
            self._estimates.insert(0, symmetric(estimate))
            self._steps.insert(0, step)
        self.covariances: Floats = np.stack(self._estimates)
        for depth in range(1, len(precision)):
            share = 1 / fans[depth - 1]
            from_above = share**2 * self.covariances[depth - 1]
            self.covariances[depth] = (1 - share) * self._estimates[depth] + from_above

    def slopes(self, of_covariance: Floats) -> Floats:
        """From the slopes of a number in each V those in each H, both symmetric."""
        of_estimate, down = np.zeros(self._shape), of_covariance.copy()
        for depth in reversed(range(1, len(down))):
            share = 1 / self._fans[depth - 1]
            of_estimate[depth] += (1 - share) * down[depth]
            down[depth - 1] += share**2 * down[depth]
        of_estimate[0] += down[0]
        found = np.zeros(self._shape)
        for depth, (estimate, turned) in enumerate(self._steps):
            back = of_estimate[depth]
            # dU = -U dH U + (turned dB turned'), and B is k times the U below.
            found[depth] = -estimate.swapaxes(-1, -2) @ back @ estimate
            if depth + 1 < len(self._steps):
                passed = turned.swapaxes(-1, -2) @ back @ turned
                of_estimate[depth + 1] += self._fans[depth] * passed
        return found


def _keeps(covariance: Floats, exact: Floats) -> Floats:
    """P = I - C E (E'C E)^+ E': P C is the covariance once E'x is known, and changes as P dC P'."""
    one = np.broadcast_to(np.eye(covariance.shape[-1]), covariance.shape)
    if not exact.size:
        return one
    of_sums = covariance @ exact
    inverse = pseudo_inverse(exact.T @ of_sums, scale=largest(covariance))
    return np.asarray(one - of_sums @ inverse @ exact.T)
