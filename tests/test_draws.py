"""Seeded draws stay the same whatever the version of numpy; digests were made with numpy 2.4.6."""

import ast
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import headcount
import headcount_papers
from headcount.draws import binomial, multinomial

ROOT = Path(__file__).parent.parent
MANY = 20_000
SMALL, LARGE = np.arange(MANY) % 1_000, (np.arange(MANY) % 1_000) * 1_000
CHANCES = np.linspace(0, 1, MANY)


def digest(drawn) -> str:
    whole = np.ascontiguousarray(drawn)
    if whole.dtype.kind == "f":  # the last bit of an exponential may depend on the processor
        whole = whole.astype(np.float32)
    text = f"{whole.dtype.kind}{whole.dtype.itemsize}{whole.shape}".encode()
    return sha256(text + whole.tobytes()).hexdigest()[:16]


GENERATOR = {
    "beta": lambda rng: rng.beta(0.5, 2.5, MANY),
    "choice": lambda rng: (
        rng.choice(7, MANY, p=[0.1, 0.2, 0.3, 0.1, 0.1, 0.1, 0.1]).tolist()
        + rng.choice(MANY, MANY // 3, replace=False).tolist()
        + rng.choice(MANY, 50, replace=False, shuffle=False).tolist()
    ),
    "dirichlet": lambda rng: rng.dirichlet(np.linspace(0.05, 3, 10), 1_000),
    "exponential": lambda rng: rng.exponential(1.0, MANY),
    "gamma": lambda rng: rng.gamma(np.geomspace(0.01, 100, MANY)),
    "geometric": lambda rng: rng.geometric(np.linspace(0.001, 1, MANY)),
    "hypergeometric": lambda rng: rng.hypergeometric(SMALL * 7, SMALL * 5, SMALL * 3),
    "integers": lambda rng: np.concatenate(
        [rng.integers(0, 85, MANY, dtype=np.int16), rng.integers(0, SMALL + 1)]
    ),
    "lognormal": lambda rng: rng.lognormal(0.0, 1.5, MANY),
    "multivariate_hypergeometric": lambda rng: rng.multivariate_hypergeometric(
        SMALL[:1_000], 5_000, method="marginals"
    ),
    "negative_binomial": lambda rng: rng.negative_binomial(SMALL + 1, 0.3),
    "normal": lambda rng: rng.normal(28.0, 5.5, MANY),
    "permutation": lambda rng: rng.permutation(MANY),
    "permuted": lambda rng: rng.permuted(np.arange(MANY).reshape(20, -1), axis=1),
    "poisson": lambda rng: rng.poisson(np.geomspace(1e-3, 1e4, MANY)),
    "random": lambda rng: rng.random(MANY),
    "shuffle": lambda rng: rng.shuffle(shuffled := np.arange(MANY)) or shuffled,
    "standard_exponential": lambda rng: rng.standard_exponential(MANY),
    "standard_gamma": lambda rng: rng.standard_gamma(np.geomspace(0.01, 100, MANY)),
    "standard_normal": lambda rng: rng.standard_normal(MANY),
    "uniform": lambda rng: rng.uniform(0.3, 0.7, MANY),
}
OURS = {
    "binomial": lambda rng: binomial(rng, SMALL, CHANCES),
    "binomial of many": lambda rng: binomial(rng, LARGE, CHANCES),
    "binomial of one chance": lambda rng: binomial(rng, 700, 0.13, (40, MANY // 40)),
    "multinomial": lambda rng: multinomial(rng, 10**7, np.full(MANY, 1 / MANY)),
    "multinomial by row": lambda rng: multinomial(
        rng, LARGE[:1_000], np.tile([0.1, 0.0, 0.6, 0.3, 0.0], (1_000, 1))
    ),
}
GOLDEN = {
    "beta": "01c8d58452422285",
    "choice": "f7695df28ce6028c",
    "dirichlet": "dbcab21d1129d84d",
    "exponential": "dbfc133e0d2ea465",
    "gamma": "2e7c7c60ebd45d10",
    "geometric": "095f3d63451d077e",
    "hypergeometric": "5586d80e5387be4c",
    "integers": "cd19923a71892a2e",
    "lognormal": "b137d732d24508a3",
    "multivariate_hypergeometric": "4bfe33e68144872f",
    "negative_binomial": "84d7dfc52dd420d5",
    "normal": "6be30019105e4537",
    "permutation": "4ed2c1e5020f2960",
    "permuted": "52d78478321bb94d",
    "poisson": "5013ebd061c3c6f8",
    "random": "fee81f7283ff9001",
    "shuffle": "4ed2c1e5020f2960",
    "standard_exponential": "dbfc133e0d2ea465",
    "standard_gamma": "2e7c7c60ebd45d10",
    "standard_normal": "7a350281f59583c7",
    "uniform": "71074db5ffec18c9",
    "binomial": "d554a2f9c210ebd8",
    "binomial of many": "44f4e591200595a6",
    "binomial of one chance": "fdcc177f454e8d5a",
    "multinomial": "f22f72a4edc72989",
    "multinomial by row": "176c444d637f0efb",
}


@pytest.mark.parametrize("name", [*GENERATOR, *OURS])
def test_the_stream_of_each_call_is_that_of_the_locked_version(name):
    draw = (GENERATOR | OURS)[name]
    assert digest(draw(np.random.default_rng(5))) == GOLDEN[name]


def test_every_method_of_a_generator_that_is_used_has_its_golden_digest():
    methods = {name for name in dir(np.random.Generator) if not name.startswith("_")}
    called = set()
    packages = [Path(str(one.__file__)).parent for one in (headcount, headcount_papers)]
    seeded = (*packages, ROOT / "benchmarks", ROOT / "tests" / "support")
    for path in (path for folder in seeded for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of = ast.unparse(node.func.value)
                if "rng" in of or "generator" in of or of.startswith("np.random"):
                    called.add(node.func.attr)
    # binomial and multinomial of a Generator changed in numpy 2.5: headcount.draws has its own.
    assert not {"binomial", "multinomial"} & called
    called -= {"spawn"}  # of a SeedSequence, which numpy keeps as it is
    assert called & methods == set(GENERATOR)


@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.integers(0, 60), st.floats(0, 1)), min_size=1, max_size=30),
)
def test_binomials_of_small_numbers_are_those_of_any_version(seed, rows):
    n, p = (np.array(one) for one in zip(*rows, strict=True))
    theirs, ours = np.random.default_rng(seed), np.random.default_rng(seed)
    assert binomial(ours, n, p).tolist() == theirs.binomial(n, p).tolist()
    assert ours.random() == theirs.random()  # and as many bits were taken


@given(
    st.integers(0, 2**32),
    st.lists(st.integers(0, 60), min_size=1, max_size=5),
    st.lists(st.integers(0, 9), min_size=2, max_size=9).filter(any),
)
def test_multinomials_of_small_numbers_are_those_of_any_version(seed, people, weights):
    chances = np.tile(np.array(weights) / sum(weights), (len(people), 1))
    theirs, ours = np.random.default_rng(seed), np.random.default_rng(seed)
    assert multinomial(ours, people, chances).tolist() == (
        theirs.multinomial(people, chances).tolist()
    )
    one = multinomial(ours, people[0], chances[0])
    assert one.tolist() == theirs.multinomial(people[0], chances[0]).tolist()
    alike = multinomial(ours, [people[0]] * 3, chances[0])
    assert alike.tolist() == theirs.multinomial(people[0], chances[0], size=3).tolist()
    assert ours.random() == theirs.random()


def test_binomials_of_large_numbers_follow_the_law():
    n, p = 500, 0.3
    drawn = binomial(np.random.default_rng(1), n, p, (100_000,))
    edges = np.arange(120, 181)

    def p_value(chance):
        low = stats.binom.cdf(edges, n, chance)
        expected = np.diff(low, prepend=0, append=1) * len(drawn)
        found = np.bincount(np.searchsorted(edges, drawn), minlength=len(expected))
        return stats.chisquare(found, expected).pvalue

    assert p_value(p) > 1e-3
    assert p_value(p + 0.001) < 1e-6  # the control


@pytest.mark.parametrize("p", [[0.5, 0.6], [1.1, -0.1], [0.2, 0.2]])
def test_chances_that_are_none_are_refused(p):
    with pytest.raises(ValueError, match="must be 0 or more and add to 1"):
        multinomial(np.random.default_rng(0), 5, p)
