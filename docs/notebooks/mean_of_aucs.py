"""The mean of AUCs is not the AUC: fifteen sites, one data set, three ways to deal it out."""

# %% [markdown]
# # The mean of AUCs is not the AUC
#
# What fifteen sites report of themselves, averaged, is not what one would find over all of their rows. It can be
# higher or lower, and nothing in the average tells which. This notebook makes both cases from one data set and then
# asks `fheval`.
#
# Run it as a script (`python docs/notebooks/mean_of_aucs.py [FOLDER]`) or cell by cell in an editor that knows `# %%`.
# FOLDER holds the paper's published scores (`labels_10000.txt`, `pred_cons_10000.txt`); without them, the scores of
# `fheval demo` do.

# %%
import sys
from pathlib import Path

import numpy as np

import fheval

SITES = 15


def scores() -> tuple[np.ndarray, np.ndarray]:
    """Labels and scores: the paper's, or those of the demonstration."""
    named = [Path(word) for word in sys.argv[1:2] if Path(word).is_dir()]
    for folder in (*named, Path("../shared/data")):
        if (folder / "labels_10000.txt").is_file():
            return np.loadtxt(folder / "labels_10000.txt").astype(int), np.loadtxt(folder / "pred_cons_10000.txt")
    from fheval.cli.demo import hospitals

    every = hospitals()
    return np.concatenate([each.labels for each in every]), np.concatenate([each.scores for each in every])


labels, probabilities = scores()
rng = np.random.default_rng(1)

# %% [markdown]
# ## Three ways to say "the AUC of fifteen sites"


# %%
def auc(y: np.ndarray, s: np.ndarray) -> float:
    """The exact AUC, over all pairs, ties by half."""
    order = np.argsort(s, kind="stable")
    ordered, positive = s[order], y[order] == 1
    first, last = np.searchsorted(ordered, ordered, "left"), np.searchsorted(ordered, ordered, "right")
    negatives = np.concatenate([[0], np.cumsum(~positive)])
    below, ties = negatives[first], negatives[last] - negatives[first]
    return float((below + ties / 2)[positive].mean() / negatives[-1])


def shares(site: np.ndarray, s: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Each site's rows."""
    return [(labels[site == number], s[site == number]) for number in range(SITES)]


def told(name: str, site: np.ndarray, s: np.ndarray) -> tuple[float, float, float]:
    """Mean of the sites' own AUCs, weighted by their rows; pooled AUC; and what fheval says without pooling."""
    parties = shares(site, s)
    both = [(y, own) for y, own in parties if 0 < y.sum() < len(y)]
    mean = float(np.average([auc(y, own) for y, own in both], weights=[len(y) for y, _ in both]))
    private = fheval.evaluate(parties).auc
    print(f"{name:<22} mean of AUCs {mean:.3f}   pooled {auc(labels, s):.3f}   fheval {private:.4f}")
    return mean, auc(labels, s), private


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Probabilities."""
    return np.exp(-np.logaddexp(0.0, -logits))


inside = np.clip(probabilities, 1e-12, 1 - 1e-12)
logits = np.log(inside) - np.log1p(-inside)
by_chance = rng.integers(0, SITES, len(labels))

as_dealt = told("sites alike", by_chance, probabilities)

# %% [markdown]
# ## Sites whose scores are shifted
#
# Every site ranks its own patients as well as before, so that its own AUC does not change. But each adds its own
# constant to the logits, as another scanner or another coding habit would, and one threshold no longer means one
# thing. Whoever uses the model at all sites with one threshold gets the pooled AUC.

# %%
offsets = 2.2 * np.linspace(-1.0, 1.0, SITES)
shifted = told("shifted scores", by_chance, sigmoid(logits + offsets[by_chance]))

# %% [markdown]
# ## Sites that see different patients
#
# Here scores are untouched, but one site sees mostly easy negatives, another mostly easy positives, a third the cases
# in between. Within a site patients are alike and hard to tell apart; across sites they are not.

# %%
rank = np.argsort(np.argsort(probabilities)) / len(labels)
near = np.clip(rank + 1.3 * (rng.random(len(labels)) - 0.5), 0.0, 0.9999)
case_mix = told("different patients", np.floor(near * SITES).astype(int), probabilities)
