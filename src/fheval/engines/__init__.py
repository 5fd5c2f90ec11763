"""FHE libraries behind one small interface; see `base` for it and `parameters` for the named sets."""

from __future__ import annotations

from collections.abc import Callable

from fheval.engines.base import Engine, Evaluator, KeyHolder, RunningSum
from fheval.engines.container import Ciphertext, Factor, Keys
from fheval.engines.parameters import Parameters, Vector
from fheval.errors import ConfigError

__all__ = [
    "Ciphertext",
    "Engine",
    "Evaluator",
    "Factor",
    "KeyHolder",
    "Keys",
    "Parameters",
    "RunningSum",
    "Vector",
    "available_engines",
    "load_engine",
    "why_unavailable",
]


def _load_openfhe() -> Engine:
    from fheval.engines.openfhe.engine import OpenFheEngine

    return OpenFheEngine()


def _load_seal() -> Engine:
    from fheval.engines.seal import SealEngine

    return SealEngine()


# In the order of preference: the first that loads is the default.
_LOADERS: dict[str, Callable[[], Engine]] = {"openfhe": _load_openfhe, "seal": _load_seal}

_REMEDIES = {
    "openfhe": "Its wheels load on Python 3.10 with glibc 2.35 or newer and on 3.12 with glibc 2.39 or newer; "
    "run from such an environment (`make setup` makes .venv-openfhe) or choose --engine seal.",
    "seal": "Install tenseal for this Python, or choose --engine openfhe.",
}


def load_engine(name: str | None = None) -> Engine:
    """Load the named engine, or the first that loads; `ConfigError` says why one cannot and what to do."""
    if name is None:
        for candidate in _LOADERS:
            if why_unavailable(candidate) is None:
                return _LOADERS[candidate]()
        raise ConfigError(f"No FHE engine loads here. {_REMEDIES['seal']}")
    if name not in _LOADERS:
        raise ConfigError(f"There is no engine {name!r}. Choose one of: {', '.join(_LOADERS)}.")
    reason = why_unavailable(name)
    if reason is not None:
        raise ConfigError(f"The engine {name} does not load on this Python ({reason}). {_REMEDIES[name]}")
    return _LOADERS[name]()


def why_unavailable(name: str) -> str | None:
    """The import error of an engine that cannot load, or None for one that can."""
    try:
        _LOADERS[name]()
    except ImportError as error:
        return str(error).partition("\n")[0]
    return None


def available_engines() -> tuple[str, ...]:
    """The engines that load here, the default first."""
    return tuple(name for name in _LOADERS if why_unavailable(name) is None)
