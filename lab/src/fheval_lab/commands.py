"""The laboratory's commands, as `fheval` lists them where this distribution is installed."""

# In the form of `fheval.cli.COMMANDS`. This module is read for every `fheval --help`, so it imports nothing.
COMMANDS = (
    ("reproduce", "fheval_lab.cli.reproduce", "The paper's tables and figures, run again beside the printed values."),
    ("attack", "fheval_lab.cli.attack", "Every attack on a protocol, and how often it was caught."),
    ("bench", "fheval_lab.cli.bench", "Ratios between protocols, engines and baselines, measured in one run."),
    ("baseline", "fheval_lab.cli.baseline", "The AUC by what fheval is compared with: DPAUC, or MPC."),
)
