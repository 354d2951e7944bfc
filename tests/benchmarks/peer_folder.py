"""A folder of peer files on a tiny population; the peer is headcount itself, with seeds."""

from __future__ import annotations

import csv
import gzip
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.peer_e2e import peer_settings
from benchmarks.peer_files import Peer, Releases, read_peer
from headcount.noise import KeyedNoise, RunKey
from headcount.tabulate import tabulate

SHAPE = (3, 2, 3)
PADDED = ("{:02d}{:03d}0{:04d}", (2, 2, 3))
OTHER = ("{:02d}{:03d}", (3, 4))


def write_truth(folder: Path, *, codes: str, sizes: tuple[int, ...], seed: int = 0) -> list[str]:
    """The files of truth and units, and a file of totals with one exact release."""
    rng = np.random.default_rng(seed)
    leaves = [codes.format(*place) for place in product(*(range(1, n + 1) for n in sizes))]
    units, cells, totals = [], [], []
    for k, leaf in enumerate(leaves):
        quarters = np.array([int(rng.integers(20, 60)), k % 3 == 0, k % 4 == 1], dtype=np.int64)
        if k == 1:
            quarters[:] = 0  # vacant units only
        units.append([leaf, *quarters, 2])
        people = np.zeros(SHAPE, dtype=np.int64)
        for kind in np.flatnonzero(quarters):
            many = int(quarters[kind] * (3 if kind == 0 else 25))
            shares = rng.dirichlet([0.4] * (SHAPE[1] * SHAPE[2]))
            people[kind] = rng.multinomial(many, shares).reshape(SHAPE[1:])
        cells += [[leaf, *at, int(people[at])] for at in zip(*np.nonzero(people), strict=True)]
        totals.append(["1", 0, leaf, people.sum(), people.sum()])
    write(folder / "tiny_units.csv", ["geocode", "q0", "q1", "q2", "vacant"], units)
    write(folder / "tiny_truth_cells.csv", ["geocode", "kind", "age", "group", "count"], cells)
    write(folder / "tiny_ed_totals.csv", ["eps", "rep", "geocode", "true", "dp"], totals)
    return leaves


def write(path: Path, header: list[str], rows: list[list[object]]) -> None:
    """One CSV file."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def release(peer: Peer, epsilon: Fraction, *, seed: int, runs: int) -> Releases:
    """Seeded releases."""
    counts = tabulate(peer.population)
    noise = KeyedNoise(RunKey.from_seed(seed), "topdown", b"data", b"config")
    made = peer_settings(peer, epsilon).on(counts.domain).run(counts, noise, runs=range(runs))
    dense = made.as_counts().dense(counts.geography.leaf)
    cells = dense.reshape(runs, dense.shape[1], SHAPE[0], -1).sum(axis=2)
    return Releases(totals=dense.sum(axis=2), cells=cells)


def write_releases(folder: Path, peer: Peer, releases: dict[str, Releases]) -> None:
    """The files of totals and of counts, every level of the latter left out but the leaf."""
    units = [str(code) for code in peer.population.geography.units[-1]]
    true = tabulate(peer.population).totals()
    names = [f"a{a}_g{g}" for a in range(SHAPE[1]) for g in range(SHAPE[2])]
    totals, counts = [], []
    for epsilon, made in releases.items():
        assert made.cells is not None
        for rep, u in product(range(len(made.totals)), range(len(units))):
            total = made.totals[rep, u]
            totals.append([epsilon, rep, units[u], true[u], total])
            counts.append(["ED", units[u], epsilon, rep, "x", total, 0, 0, 0, *made.cells[rep, u]])
    counts.append(["ED", units[0], "true", -1, *[0] * (5 + len(names))])
    header = ["level", "geocode", "eps", "rep", "noise", "total", "h0", "h1", "h2", *names]
    write(folder / "tiny_ed_totals.csv", ["eps", "rep", "geocode", "true", "dp"], totals)
    write(folder / "counts.csv", header, counts)
    (folder / "tiny_counts.csv.gz").write_bytes(gzip.compress((folder / "counts.csv").read_bytes()))


def change(path: Path, *, column: str, row: int, value: str) -> None:
    """Write another value into one place of a CSV file."""
    table = pl.read_csv(path, infer_schema=False)
    values = table[column].to_list()
    values[row] = value
    table.with_columns(pl.Series(column, values)).write_csv(path)


def tiny_peer(folder: Path, *, layout: tuple[str, tuple[int, ...]] = PADDED, runs: int = 4) -> Peer:
    """A whole folder, read back."""
    codes, sizes = layout
    write_truth(folder, codes=codes, sizes=sizes)
    # The first file of totals is exact everywhere, which tells nothing about levels; those of
    # the true tree come from a release that moves one person to the next leaf of its state.
    first = pl.read_csv(folder / "tiny_ed_totals.csv", infer_schema=False)
    moved = first["dp"].cast(pl.Int64).to_list()
    per_state = len(moved) // sizes[0]
    for state in range(sizes[0]):
        moved[state * per_state] += 1
        moved[(state + 1) * per_state - 1] -= 1
    first.with_columns(pl.Series("dp", moved)).write_csv(folder / "tiny_ed_totals.csv")
    peer = read_peer(folder, "tiny")
    made = {"1": release(peer, Fraction(1), seed=1, runs=runs)}
    write_releases(folder, peer, made)
    return read_peer(folder, "tiny")
