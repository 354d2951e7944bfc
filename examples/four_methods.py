# %% [markdown]
# # Four methods on one population
#
# Noise, noise that adds up, a sample and swapped households, beside each other in the same terms:
# how far off counts are, and what each method promises. The population is synthetic and public.

# %%
from fractions import Fraction

import headcount as hc

households = hc.towns(people=1500, counties=2, seed=7)
population = hc.to_population(households, ("sex", "hispanic"))
population

# %% [markdown]
# A comparison draws from a seed and writes no release. Choosing a method by looking at confidential
# data is itself unprotected: choose on public data like yours, or on the predicted errors.

# %%
found = hc.compare(
    population,
    cases={
        "geometric": hc.Geometric(epsilon=1),
        "topdown": hc.TopDown(epsilon=1),
        "a tenth": hc.Sampling(fraction=Fraction(1, 10)),
        "swapping": hc.HouseholdSwapping(rate=Fraction(1, 20)),
    },
    replicates=2,
)
memo = found.tables["memo"]
memo.select("case", "guarantee", "leaf_error", "leaf_percent")

# %%
found.plot()

# %% [markdown]
# The whole comparison as a page, and the part of it that may be published.

# %%
found.report("comparison.html")
found.publish("to-publish.html")
