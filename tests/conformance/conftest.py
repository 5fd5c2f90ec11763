"""Engines and key sets for the conformance suite; keys are made once, because that is the slow part."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from engine_roles import ENGINE_NAMES, Roles, bfv_product, engine_named
from fheval.engines import Engine, why_unavailable
from fheval.engines.parameters import CKKS_PAPER, bfv_linear, plain_moduli

SUM_WIDTH = 8


@pytest.fixture(scope="session", params=ENGINE_NAMES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Every engine that loads here, one after the other."""
    name: str = request.param
    reason = None if name == "clear" else why_unavailable(name)
    if reason is not None:
        pytest.skip(f"The engine {name} does not load here: {reason}")
    return engine_named(name)


@pytest.fixture(scope="session")
def key_set(engine: Engine) -> Callable[[str], Roles]:
    """The roles under one of the named sets, made when first asked for."""
    modulus = plain_moduli(1)[0]
    named = {
        "ckks": CKKS_PAPER.with_slot_sums(SUM_WIDTH),
        "bfv": bfv_product(modulus),
        "linear": bfv_linear(modulus),
    }
    return cache(lambda name: Roles.fresh(engine, named[name]))


@pytest.fixture(scope="session")
def ckks(key_set: Callable[[str], Roles]) -> Roles:
    """The paper's set, with rotation keys for sums over eight slots."""
    return key_set("ckks")


@pytest.fixture(scope="session")
def bfv(key_set: Callable[[str], Roles]) -> Roles:
    """BFV with a product."""
    return key_set("bfv")


@pytest.fixture(scope="session")
def linear(key_set: Callable[[str], Roles]) -> Roles:
    """BFV for linear work."""
    return key_set("linear")


@pytest.fixture(scope="session", params=["ckks", "bfv", "linear"])
def roles(request: pytest.FixtureRequest, key_set: Callable[[str], Roles]) -> Roles:
    """Each parameter set in turn."""
    return key_set(request.param)
