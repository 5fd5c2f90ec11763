"""The aggregator's side of a consortium: who is asked what next, whatever carries the bytes."""
