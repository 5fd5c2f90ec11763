"""Two models and a subgroup: differences, p-values, and a forest plot."""

# %% [markdown]
# # Two models, two groups
#
# Is the new model better, and for whom? Three hospitals have the scores of both models on the same patients.

# %%
import numpy as np

import fheval

rng = np.random.default_rng(7)


def hospital(rows: int) -> fheval.Table:
    """Patients of which a fifth die, and two models of different quality."""
    died = (rng.random(rows) < 0.2).astype(int)
    illness = rng.normal(size=rows) + 1.5 * died
    new = 1 / (1 + np.exp(-(1.2 * illness - 1.8)))
    old = 1 / (1 + np.exp(-(0.8 * illness + rng.normal(size=rows) - 1.8)))
    sex = rng.choice(["F", "M"], rows).tolist()
    return fheval.Table.of(died, {"new": new, "old": old}, groups=sex)


parties = [hospital(rows) for rows in (900, 600, 500)]
result = fheval.evaluate(parties, group_column="sex", ci=0.95)
for row in result.results:
    name = ", ".join(filter(None, (row.model, row.group)))
    print(f"{name:<22} {row.value:7.4f}   {row.low:7.4f} to {row.high:7.4f}")

# %% [markdown]
# ## As a forest plot
#
# The same picture as in a report: each number and its interval on one axis, differences apart.

# %%
from fheval.drawing.figures import fragment
from fheval.report.forests import forests


class Pictures:
    """Shows figures below a cell."""

    def __init__(self, figures: tuple) -> None:
        self.figures = figures

    def _repr_html_(self) -> str:
        return fragment(*self.figures)


drawn = forests(result.protocol, result.results, ("new", "old"), result.confidence)
Pictures(drawn)
