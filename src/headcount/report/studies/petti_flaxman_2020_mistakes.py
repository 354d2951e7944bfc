"""Where the paper, its appendix and its code differ, and what that changes."""

from __future__ import annotations

from headcount.report.model import Column, Table

_ROWS = (
    (
        "The noise of the appendix",
        "geometric noise with parameter ε/2",
        "ε/2 goes to a generator that takes a success probability p; the true loss is −ln(1 − p)",
        "little for small ε; no noise at all can be drawn for p of 1 and more",
    ),
    (
        "EPL agrees with ε",
        "EPL of pure noise comes out near ε",
        "the noise loses ε/2; the rest is the upward bias of a maximum over 2,663 errors",
        "the main evidence for EPL: with more errors it settles near ε/2 (see the figures)",
    ),
    (
        "One-way sensitivity",
        "EPL hardly depends on bandwidth, percentile and multiplier",
        "the function ignores the three arguments: the tables are the same draws, read in order",
        "the claim: with the arguments used, EPL changes by factors of 3 to 100",
    ),
    (
        "Composition example",
        "optimal weights for two measurements",
        "the weights stay at 0.25 and 0.75 while both losses move from 0.1 to 0.9",
        "the table describes a method nobody would use",
    ),
    (
        "Invariant example",
        "exact totals of enumeration districts",
        "a penalty (weight 100) on the totals of 39 counties",
        "nothing is held exactly; what invariants do is not shown",
    ),
    (
        "Variance of the noise",
        "(1 − e^−z)² / (2e^−z)",
        "2e^−z / (1 − e^−z)²: the formula is printed upside down",
        "nothing: the code never uses it",
    ),
    (
        "Weights of the optimisation",
        "weights grow with the noise",
        "they are one over the variance",
        "nothing: the Census Bureau's code is right; the other way errors are 4 to 10 times larger",
    ),
    (
        "Sampling, four runs",
        "four samples of every size",
        "the seed is always the same: one sample, counted four times",
        "the numbers for states rest on 51 values and jump about",
    ),
    (
        "Loss of samples",
        "one recipe for TopDown and samples",
        "the printed losses of samples come from an older run (99th percentile, multiplier 1.5)",
        "those of totals are printed 1.5 to 12 times too high; the paper's figure 2 hardly changes",
    ),
    (
        "Homogeneity index",
        "empty cells among 24; 22 is the most",
        "24 less ages × races × ethnicities present; 23 occurs",
        "places are grouped a little differently: both are in our figure",
    ),
    (
        "Noise of a query",
        "67.5 % of a level's ε",
        "one notebook multiplies by 0.9 again, which is already in the 67.5 %",
        "11 % more noise in one illustration",
    ),
)


def mistakes_table() -> Table:
    """What is printed, what was done, and what difference it makes."""
    return Table(
        name="mistakes",
        caption="Where text and code of the paper part ways.",
        columns=(
            Column(key="where", label="What"),
            Column(key="printed", label="Printed"),
            Column(key="done", label="In fact"),
            Column(key="changes", label="What it changes"),
        ),
        rows=_ROWS,
        notes="headcount follows the mathematics and offers the published variant where a "
        "published table depends on it.",
    )
