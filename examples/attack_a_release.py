# %% [markdown]
# # Attack a release
#
# What could somebody work out who knows where everybody lives, their sex and their age? The truth
# is used only to score the claims. The people are synthetic.

# %%
from fractions import Fraction

import polars as pl

import headcount as hc

households = hc.towns(people=1000, counties=1, seed=3)
population = hc.to_population(households, ("age", "sex", "race", "hispanic"))
attacker = "reidentification"

# %% [markdown]
# Counts published as they are, and the same counts protected.

# %%
methods = {
    "as they are": hc.Identity(),
    "a tenth": hc.Sampling(fraction=Fraction(1, 10)),
    "topdown": hc.TopDown(epsilon=1),
}
found = {
    name: hc.attack(hc.protect(population, method), population, attacker)
    for name, method in methods.items()
}
found["as they are"]

# %%
rows = [
    found[name].table.head(1).select(pl.lit(name).alias("release"), pl.all()) for name in methods
]
claims = pl.concat(rows, how="diagonal_relaxed")
claims

# %%
found["topdown"].plot()
