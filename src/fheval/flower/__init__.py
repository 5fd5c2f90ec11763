"""Rounds over Flower: the only place that imports `flwr`. See README.md.

For apps of one's own: `attach`, `deposit`, `PrivateMetrics` and `trial`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fheval.flower.simulated import Trial, trial
    from fheval.flower.training import PrivateMetrics, attach, deposit, error_of

__all__ = ["VAULT_SOCKET", "PrivateMetrics", "Trial", "attach", "deposit", "error_of", "trial"]

# What a SuperNode's configuration calls the path of the vault's socket. It stands here because the shim, which the
# aggregator's code may replace, must not load the module that starts SuperNodes.
VAULT_SOCKET = "vault"

_HOMES = {
    "Trial": "simulated",
    "trial": "simulated",
    "PrivateMetrics": "training",
    "attach": "training",
    "deposit": "training",
    "error_of": "training",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
