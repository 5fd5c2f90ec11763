"""The laboratory's commands; they appear in `fheval` where this distribution is installed."""
