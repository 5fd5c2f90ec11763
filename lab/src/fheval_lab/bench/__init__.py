"""How long aggregators take, as ratios within one run."""
