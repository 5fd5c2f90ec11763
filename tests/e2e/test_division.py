"""Outsourced division under real CKKS: right within its bounds, and no further."""

from __future__ import annotations

import numpy as np
import pytest

from division_oracle import in_plaintext
from fheval.engines import load_engine, why_unavailable
from fheval_lab.baselines.division import TOLERANCE, Approximation, Method, divide

pytestmark = pytest.mark.skipif(
    why_unavailable("openfhe") is not None, reason="the engine openfhe does not load here; run in .venv-openfhe"
)


@pytest.mark.parametrize(("method", "effort", "depth"), [("chebyshev", 27, 7), ("newton", 5, 10)])
def test_openfhe_divides_within_the_bounds_and_no_further(method: Method, effort: int, depth: int) -> None:
    chosen = Approximation(method=method, effort=effort, low=2.5e9, high=1e10)
    dens = np.array([1e6, 2.5e9, 6e9, 1e10])
    result = divide(load_engine("openfhe"), chosen, 0.75 * dens, dens)
    assert result.depth == depth
    assert result.aucs[1:] == pytest.approx([0.75] * 3, abs=TOLERANCE)
    assert result.aucs[1:] == pytest.approx(in_plaintext(chosen, 0.75 * dens, dens).tolist()[1:], abs=1e-7)
    assert result.aucs[0] < 0.1
