# %% [markdown]
# # Choose epsilon
#
# Write down first how good which counts must be; then take the smallest epsilon that meets it. How
# far off noise will be follows from the method alone, so that no data are needed: only the list of
# units and the levels of attributes, which are public.

# %%
from fractions import Fraction

import polars as pl

import headcount as hc
from headcount.noise.laws import reach

units = pl.DataFrame(
    {
        "county": [f"{county:02}" for county in range(1, 4) for _ in range(8)],
        "tract": [f"{county:02}{tract:02}" for county in range(1, 4) for tract in range(1, 9)],
    }
)
nobody = units.with_columns(sex=pl.lit("female"), age=pl.lit(0))
population = hc.read(
    nobody,
    geography=["county", "tract"],
    attributes={"sex": hc.levels("female", "male"), "age": hc.bins(0, 18, 65)},
    kind="people",
    units=units,
)

# %% [markdown]
# For each epsilon, how far 19 of 20 answers will be off, in people, before post-processing.

# %%
rows = []
for epsilon in (Fraction(1, 2), 1, 2, 4, 8):
    design = hc.TopDown(epsilon=epsilon).on(population.domain)
    rows += [
        {
            "epsilon": float(epsilon),
            "level": one.level,
            "query": one.query,
            "within": reach(one.law),
        }
        for one in design.plan
    ]
answers = pl.DataFrame(rows)
answers.pivot("epsilon", index=["level", "query"], values="within")

# %% [markdown]
# "A tract's total within 50 people" is met from here on.

# %%
met = answers.filter(level="tract", query="total").filter(pl.col("within") <= 50)
enough = met["epsilon"].min()
print(f"a tract's total is within 50, 19 times of 20, from epsilon {enough:g} on")
