"""An engine that makes keys once: set-up is the slow part of a round, and a replay needs the earlier round's keys."""

from __future__ import annotations

from fheval.engines import Engine, Evaluator, KeyHolder, Keys, Parameters
from fheval.secrets import Secret


class ReusedKeys(Engine):
    """Wraps an engine; every round with the same parameters gets the same keys, and roles that are loaded already.

    For experiments only: the keys belong to nobody.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.name = engine.name
        self._keys: dict[Parameters, Keys] = {}
        self._holders: dict[Parameters, KeyHolder] = {}
        self._evaluators: dict[Parameters, Evaluator] = {}

    def generate_keys(self, parameters: Parameters, uniform_from: bytes = b"") -> Keys:  # noqa: ARG002
        if parameters not in self._keys:
            keys = self._engine.generate_keys(parameters)
            self._keys[parameters] = keys
            self._holders[parameters] = self._engine.key_holder(parameters, keys.secret)
            self._evaluators[parameters] = self._engine.evaluator(parameters, keys.public)
        return self._keys[parameters]

    def key_holder(self, parameters: Parameters, secret: Secret[bytes]) -> KeyHolder:  # noqa: ARG002
        return self._holders[parameters]

    def evaluator(
        self,
        parameters: Parameters,
        public: bytes,  # noqa: ARG002
        uniform_from: bytes = b"",  # noqa: ARG002
    ) -> Evaluator:
        return self._evaluators[parameters]
