"""One data set dealt out to parties at random, as the paper does it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fheval.errors import ConfigError
from fheval.secrets import SEED_BYTES, Randomness, Secret, SystemRandomness, derive, permutation


def split_rows(rows: int, parties: int, rng: Randomness) -> list[NDArray[np.intp]]:
    """Deal the rows 0 … rows − 1 out at random, equally many to each party to within one."""
    if rows < parties:
        raise ConfigError(f"{rows} rows do not go round {parties} parties. Give more data or fewer parties.")
    return np.array_split(permutation(rng, rows), parties)


def split_randomness(seed: int | None) -> Randomness:
    """What a split is drawn from: the same for the same seed, and never the same without one."""
    if seed is None:
        return SystemRandomness()
    if seed.bit_length() > 8 * SEED_BYTES:
        raise ConfigError(f"--seed has {seed.bit_length()} bits and may have {8 * SEED_BYTES}. Use a smaller number.")
    return derive(Secret(seed.to_bytes(SEED_BYTES, "big")), "simulate/split")
