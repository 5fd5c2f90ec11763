"""A first evaluation: five hospitals, one AUC with an interval, and what stands behind it."""

# %% [markdown]
# # A first evaluation
#
# Five hospitals hold the scores of one model on their own patients. Here they are five arrays in one process; in a
# consortium each stays in its own vault, and the same messages pass.

# %%
import numpy as np

import fheval
from fheval.cli.demo import hospitals

parties = [(each.labels, each.scores) for each in hospitals()]
[len(labels) for labels, _ in parties]

# %% [markdown]
# ## One number
#
# The default protocol is `padded`: the aggregator adds numbers under one-time pads and learns nothing. The result is
# rounded to four decimals, and `binning` bounds what counting at decision points did to it.

# %%
result = fheval.evaluate(parties)
print(f"AUC {result.auc:.4f}, binning error at most {result.binning:.4f}")

# %% [markdown]
# It is the AUC of the pooled rows:

# %%
labels = np.concatenate([each for each, _ in parties])
scores = np.concatenate([each for _, each in parties])
positive, negative = scores[labels == 1], scores[labels == 0]
pairs = (positive[:, None] > negative).mean() + 0.5 * (positive[:, None] == negative).mean()
print(f"pooled {pairs:.4f}")

# %% [markdown]
# ## With an interval
#
# Each party resamples its own rows and counts every resample; all of them ride on the same upload.

# %%
with_interval = fheval.evaluate(parties, ci=0.95)
(row,) = with_interval.results
print(f"{row.value:.4f}, 95 % interval {row.low:.4f} to {row.high:.4f}")
