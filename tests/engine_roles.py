"""Both roles of one key set on one engine, for tests; and bytes that an adversary put a correct checksum on."""

from __future__ import annotations

from dataclasses import dataclass

from fheval.engines import Ciphertext, Engine, Evaluator, KeyHolder, Keys, Parameters, Vector, container, load_engine
from fheval_lab.clear import ClearEngine

ENGINE_NAMES = ("clear", "seal", "openfhe")


def engine_named(name: str) -> Engine:
    """Any of the three engines, the plaintext twin included."""
    return ClearEngine() if name == "clear" else load_engine(name)


@dataclass(frozen=True)
class Roles:
    """A key holder and an evaluator under the same keys."""

    engine: Engine
    parameters: Parameters
    keys: Keys
    holder: KeyHolder
    evaluator: Evaluator

    @classmethod
    def fresh(cls, engine: Engine, parameters: Parameters) -> Roles:
        """Make keys and take both roles."""
        keys = engine.generate_keys(parameters)
        return cls(
            engine,
            parameters,
            keys,
            engine.key_holder(parameters, keys.secret),
            engine.evaluator(parameters, keys.public),
        )

    def loaded(self, values: Vector) -> Ciphertext:
        """Encrypt as the key holder, load as the evaluator."""
        return self.evaluator.load(self.holder.encrypt(values))

    def opened(self, ciphertext: Ciphertext) -> Vector:
        """Dump as the evaluator, decrypt as the key holder."""
        return self.holder.decrypt(self.evaluator.dump(ciphertext))

    def forged(self, kind: int, data: bytes, payload: bytes, limbs: int | None = None) -> bytes:
        """Put another payload into an envelope, with a checksum that is right."""
        key_id, honest_limbs, _ = container.unpack(kind, self.engine.name, self.parameters, None, data)
        told = honest_limbs if limbs is None else limbs
        return container.pack(kind, self.engine.name, self.parameters, key_id, told, payload)

    @property
    def primes(self) -> list[int]:
        """Of a fresh ciphertext, in the order of its rows."""
        if self.engine.name == "seal":
            from fheval.engines.seal import _setting

            return _setting(self.parameters).primes
        from fheval.engines.openfhe.setting import setting_of

        return setting_of(self.parameters)._shape("secret").primes

    def payload(self, kind: int, data: bytes) -> bytes:
        """What is inside the envelope."""
        return bytes(container.unpack(kind, self.engine.name, self.parameters, None, data)[2])


def bfv_product(plain_modulus: int) -> Parameters:
    """BFV with room for one ciphertext product followed by one plaintext product."""
    return Parameters(
        name="bfv-8192-depth1",
        scheme="bfv",
        ring=8192,
        modulus_bits=(43, 43, 44, 44, 44),
        depth=1,
        plain_modulus=plain_modulus,
    )
