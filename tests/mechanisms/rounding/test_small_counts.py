"""Small count rounding: the peer's outputs, the optimum, and cells that sums give away."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from headcount.errors import ConfigError, HeadcountError, InputError
from headcount.mechanisms.rounding import small_counts
from headcount.mechanisms.rounding.small_counts import (
    SmallCounts,
    choose,
    known_cells,
    round_small_counts,
    round_small_counts_exactly,
)
from tests.mechanisms.rounding.small_tables import (
    PEER,
    TOTAL_ROWS_COLUMNS,
    best_by_trying,
    margins,
    squares,
)

PEER_SUMS = margins(PEER.shape, TOTAL_ROWS_COLUMNS)


def rounded_peer(seed: int = 0, **settings):
    rank = np.random.default_rng(seed).permutation(PEER.size)
    return round_small_counts(PEER.ravel(), PEER_SUMS, SmallCounts(**settings), rank=rank)


@pytest.mark.parametrize("seed", range(5))
def test_base_5_gives_the_output_of_the_peer(seed):
    found = PEER_SUMS.T @ rounded_peer(seed, base=5)
    assert found.tolist() == [28, 15, 8, 5, 7, 5, 5, 5, 6]


def test_without_repeating_the_peer_s_output_is_one_of_two_equally_good_ones():
    """Both differ from the truth by 26 in squares; which one comes out, the order of ties says."""
    found = {
        tuple((PEER_SUMS.T @ rounded_peer(s, base=5, repeat=False, known=False)).tolist())
        for s in range(20)
    }
    assert found == {(27, 16, 6, 5, 7, 5, 4, 5, 6), (27, 11, 11, 5, 7, 5, 4, 5, 6)}
    truth = PEER_SUMS.T @ PEER.ravel()
    assert len({int(((np.array(one) - truth) ** 2).sum()) for one in found}) == 1


@pytest.mark.parametrize("seed", range(5))
def test_base_3_up_to_4_gives_the_inner_cells_of_the_peer(seed):
    found = rounded_peer(seed, base=3, largest=4).reshape(PEER.shape)
    assert found.T.tolist() == [[6, 1, 0], [0, 0, 3], [3, 3, 0], [3, 3, 0], [4, 2, 0]]


def test_the_peer_s_output_is_also_the_optimum():
    found = round_small_counts_exactly(PEER.ravel(), PEER_SUMS, SmallCounts(base=5))
    assert (PEER_SUMS.T @ found).tolist() == [28, 15, 8, 5, 7, 5, 5, 5, 6]
    assert squares(PEER.ravel(), found, PEER_SUMS) == 13


def tiny_tables(many: int):
    random = np.random.default_rng(7)
    for number in range(many):
        shape = [(2, 3), (3, 3), (2, 2, 2)][number % 3]
        sets = TOTAL_ROWS_COLUMNS if len(shape) == 2 else [(0, 1), (1, 2)]
        counts = random.poisson(1.5, int(np.prod(shape)))
        largest = None if number % 2 else 4
        settings = SmallCounts(base=int(random.integers(2, 5)), known=False, largest=largest)
        yield counts, margins(shape, sets), settings, random.permutation(len(counts))


def check_tables(many: int) -> int:
    """How often the greedy answer is as good as the exact one."""
    as_good = 0
    for counts, sums, settings, rank in tiny_tables(many):
        exact = round_small_counts_exactly(counts, sums, settings)
        greedy = round_small_counts(counts, sums, settings, rank=rank)
        best = best_by_trying(counts, sums, settings)
        assert squares(counts, exact, sums) == best
        assert squares(counts, greedy, sums) >= best
        for found in (exact, greedy):
            published = sums.T @ found
            assert np.all((published > settings.most) | (published % settings.base == 0))
            assert 2 * abs(int(found.sum() - counts.sum())) <= settings.base
            unchanged = (counts > settings.most) | (counts % settings.base == 0)
            assert np.array_equal(found[unchanged], counts[unchanged])
        as_good += squares(counts, greedy, sums) == best
    return as_good


def test_exact_is_what_trying_everything_finds_on_30_tables():
    assert check_tables(30) >= 15


@pytest.mark.slow
def test_exact_is_what_trying_everything_finds_on_200_tables():
    assert check_tables(200) >= 100


def reference_choice(sums, lack, order, base: int, wanted: int):
    """The greedy choice as lists, in the peer's words: what is free, and what was raised last."""
    matrix = sums.toarray()
    shared = base * (matrix @ matrix.T)
    gain, free = matrix @ lack, list(order)
    raised: list[int] = []

    def raise_best():
        best = max(free, key=lambda i: gain[i])  # the first of equals
        free.remove(best)
        raised.insert(0, best)
        gain[:] -= shared[best]

    while len(raised) < wanted:
        raise_best()
    for _ in range(wanted + 100):
        low = min(raised, key=lambda i: gain[i], default=-1)
        if not raised or low == raised[0]:
            break
        raised.remove(low)
        free.insert(0, low)
        gain[:] += shared[low]
        raise_best()
    return set(raised)


def test_the_compiled_choice_is_that_of_plain_lists():
    random = np.random.default_rng(3)
    for _ in range(40):
        sums = csr_array((random.random((12, 6)) < 0.4).astype(np.int64))
        lack = random.integers(-4, 9, 6)
        order, wanted = random.permutation(12), int(random.integers(0, 13))
        rank = np.empty(12, dtype=np.int64)
        rank[order] = np.arange(12)
        columns = sums.tocsc()
        up = choose(
            sums.indptr.astype(np.int64),
            sums.indices.astype(np.int64),
            columns.indptr.astype(np.int64),
            columns.indices.astype(np.int64),
            np.asarray(sums @ lack, dtype=np.int64),
            rank,
            3,
            wanted,
        )
        assert set(np.flatnonzero(up).tolist()) == reference_choice(sums, lack, order, 3, wanted)


def test_a_large_table_has_no_small_count_left_and_adds_up():
    shape = (100, 2, 25)
    sums = margins(shape, [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
    random = np.random.default_rng(1)
    counts = random.poisson(1.0, sums.shape[0])
    rank = random.permutation(len(counts))
    found = round_small_counts(counts, sums, SmallCounts(base=3), rank=rank)
    published = sums.T @ found
    assert not np.any((published > 0) & (published < 3))
    assert np.abs(published - sums.T @ counts).max() <= 3
    naive = np.where(counts < 3, np.rint(counts / 3) * 3, counts).astype(np.int64)
    assert squares(counts, found, sums) < squares(counts, naive, sums) / 10
    inner = found[settings_small(found)]
    assert len(inner), "some small inner cells may stay as long as no sum shows them"
    every = SmallCounts(base=3, all_inner=True)
    found = round_small_counts(counts, sums, every, rank=rank)
    assert not np.any((found > 0) & (found < 3))


def settings_small(counts):
    return SmallCounts(base=3).small(counts)


def known_by_rank(sums, counts):
    """Cells that a linear combination of sums gives, where sums of 0 are known to be empty."""
    matrix = sums.toarray()
    known = matrix[:, matrix.T @ counts == 0].any(axis=1)
    while True:
        left = np.flatnonzero(~known)
        rest = matrix[left]
        rank = np.linalg.matrix_rank(rest) if rest.size else 0
        found = known.copy()
        for i, cell in enumerate(left):
            unit = np.zeros((len(left), 1))
            unit[i] = 1
            found[cell] = np.linalg.matrix_rank(np.hstack([rest, unit])) == rank
        # known cells leave sums of what is left, which may be 0 again
        hidden = matrix[:, (matrix * np.where(found, 0, counts)[:, None]).sum(axis=0) == 0]
        found |= hidden.any(axis=1)
        if np.array_equal(found, known):
            return known
        known = found


def test_cells_that_sums_give_away_are_those_that_ranks_say():
    random = np.random.default_rng(11)
    seen = 0
    for _ in range(150):
        sums = csr_array((random.random((8, 6)) < 0.35).astype(np.int64))
        counts = random.poisson(1.0, 8)
        found = known_cells(sums, counts)
        assert found.tolist() == known_by_rank(sums, counts).tolist()
        seen += 0 < found.sum() < 8
    assert seen > 50


def hidden_cell():
    """Cell 0 is in no small sum, yet it is (0 + 1) + (0 + 2) + (1 + 2) - 2 (1 + 2), halved."""
    pairs = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]])
    return csr_array(pairs), np.array([2, 9, 7])


def test_a_small_cell_that_the_sums_give_away_is_rounded_too():
    sums, counts = hidden_cell()
    assert known_cells(sums, counts).all()
    rank = np.arange(3)
    left = round_small_counts(counts, sums, SmallCounts(base=3, known=False), rank=rank)
    assert left.tolist() == [2, 9, 7]
    found = round_small_counts(counts, sums, SmallCounts(base=3), rank=rank)
    assert found.tolist() == [3, 9, 7]
    exactly = round_small_counts_exactly(counts, sums, SmallCounts(base=3))
    assert exactly.tolist() == [3, 9, 7]


def test_a_check_for_known_cells_that_does_not_end_is_an_error(monkeypatch):
    monkeypatch.setattr(small_counts, "LONGEST", 1)
    sums = margins((4, 5, 3), [(0, 1), (1, 2), (0, 2)])
    counts = np.random.default_rng(2).poisson(3, 60) + 1
    with pytest.raises(HeadcountError, match=r"sums give away is not known after 1 iter"):
        known_cells(sums, counts)


def test_counts_and_sums_that_do_not_fit_are_refused():
    sums, counts = hidden_cell()
    for refused in (
        lambda c, s: round_small_counts(c, s, SmallCounts(), rank=np.arange(3)),
        lambda c, s: round_small_counts_exactly(c, s, SmallCounts()),
    ):
        with pytest.raises(InputError, match=r"found \(2,\) counts and sums of 3 cells"):
            refused(counts[:2], sums)
        with pytest.raises(InputError, match="found a cell that counts other than once"):
            refused(counts, 2 * sums)
        with pytest.raises(InputError, match="found a count below 0"):
            refused(-counts, sums)
    with pytest.raises(ConfigError, match="largest: found 1, expected 2 or more: counts below"):
        SmallCounts(base=3, largest=1)
    with pytest.raises(ConfigError, match="base: found 1, expected 2 or more"):
        SmallCounts(base=1)


def test_a_table_without_small_counts_stays():
    counts = np.full(6, 10)
    sums = margins((2, 3), TOTAL_ROWS_COLUMNS)
    assert np.array_equal(round_small_counts_exactly(counts, sums, SmallCounts()), counts)
    unchanged = round_small_counts(counts, sums, SmallCounts(), rank=np.arange(6))
    assert np.array_equal(unchanged, counts)
