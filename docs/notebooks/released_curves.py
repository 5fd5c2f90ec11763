"""Curves by consent: what the global counts show, and what they cost in privacy."""

# %% [markdown]
# # Curves, by consent
#
# A ratio says little about the rows behind it. Where all parties agree, a study may release the global counts at every
# decision point instead: ROC, precision-recall, calibration and decision curves follow from them. The aggregator still
# learns nothing.

# %%
import fheval
from fheval.cli.demo import hospitals

parties = [(each.labels, each.scores) for each in hospitals()]
study = fheval.Study.of(name="curves", release="curve", reveals="counts")
result = fheval.evaluate(parties, study=study)
for row in result.results:
    print(f"{row.metric:<20} {row.value:.4f}")

# %% [markdown]
# ## The pictures of a report

# %%
from fheval.drawing.figures import fragment
from fheval.report.curves import curve_figures


class Pictures:
    """Shows figures below a cell."""

    def _repr_html_(self) -> str:
        return fragment(*curve_figures(result.curves))


Pictures()

# %% [markdown]
# ## What it tells
#
# Counts say far more than a metric. `fheval study check` says so before anybody signs:

# %%
from fheval.disclosure import disclosed_by

disclosed_by(study, 500).reveals
