"""The protocols, one object in one file each; `PROTOCOLS` is the only list. See README.md for paper step → function."""

from __future__ import annotations

from fheval.errors import ConfigError
from fheval.protocols import committee, padded, padded_verified, paper_malicious, paper_semi_honest
from fheval.protocols.base import Protocol

__all__ = ["DEFAULT_PROTOCOL", "PROTOCOLS", "Protocol", "register"]


class _Registry(dict[str, Protocol]):
    def __missing__(self, name: str) -> Protocol:
        raise ConfigError(f"There is no protocol {name!r}. Choose one of: {', '.join(self)}.")


PROTOCOLS = _Registry()


def register(protocol: Protocol) -> None:
    """Make a protocol known by its name to everything that asks for one."""
    PROTOCOLS[protocol.name] = protocol


for _module in (padded, padded_verified, committee, paper_semi_honest, paper_malicious):
    register(_module.PROTOCOL)

DEFAULT_PROTOCOL = padded.PROTOCOL.name
