"""Ciphertexts with other content and an envelope that is right: a checksum holds no adversary off."""

from __future__ import annotations

from fheval.engines import Parameters, container
from fheval_lab.attacks.strategy import Strategy


def garbled(ciphertext: bytes, strategy: Strategy, engine: str, parameters: Parameters) -> bytes:
    """The ciphertext with its content as the strategy has it, and its checksum made anew."""
    if not strategy.garbles:
        return ciphertext
    key_id, limbs, payload = container.unpack(container.CIPHERTEXT, engine, parameters, None, ciphertext)
    return container.pack(container.CIPHERTEXT, engine, parameters, key_id, limbs, strategy.garble(bytes(payload)))
