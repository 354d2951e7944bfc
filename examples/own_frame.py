# %% [markdown]
# # From a data frame to a release
#
# A frame of polars, pandas, pyarrow or DuckDB becomes a population, is protected, and leaves as a
# frame. The people here are made up; put your own frame, or the path of a file, in their place.

# %%
import numpy as np
import polars as pl

import headcount as hc

dice = np.random.default_rng(2020)
tracts = [f"{county}{tract:02}" for county in ("01", "03", "05") for tract in range(1, 9)]
tract = dice.choice(tracts, size=6000)
people = pl.DataFrame(
    {
        "county": [one[:2] for one in tract],
        "tract": tract,
        "age": dice.integers(0, 95, size=6000),
        "sex": dice.choice(["1", "2"], size=6000),
    }
)

# %% [markdown]
# Where people live goes from the top down. Levels that are listed are public; what is not said is
# found in the data, as by `headcount init`, and then the guarantee says so. The list of units is
# read from the data here: `units=` takes a public one.

# %%
population = hc.read(
    people,
    geography=["county", "tract"],
    attributes={
        "age": hc.bins(0, 18, 65),
        "sex": hc.levels({"1": "male", "2": "female"}),
    },
)
population

# %% [markdown]
# TopDown measures totals, attributes and their combinations at every level, with noise from the
# operating system, and makes counts of them that add up. Nothing is recorded in a ledger here: for
# a release that is published, write a config and use `headcount protect`, or `hc.protect`.

# %%
release = hc.protect(population, hc.TopDown(epsilon=1))
release

# %%
release.plot("county", by="age")

# %%
protected = release.to_polars("tract", tidy=True)
protected.write_csv("protected.csv")
protected.head()

# %% [markdown]
# How far from the truth? This looks at the data: it is as confidential as they are.

# %%
scores = hc.evaluate(release, population, choice=hc.Choice(attacks=()))
scores

# %%
scores.plot("error")
