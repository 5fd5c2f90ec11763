"""Every error that fheval raises on purpose, in one small hierarchy.

A message is one sentence that says what happened, then one that says what to do. The command line turns
`ConfigError`, `InputError` and `EngineError` into exit status 2 and every other one into 1.
"""

from __future__ import annotations


class FhevalError(Exception):
    """Base of all errors that a user can meet."""


class ConfigError(FhevalError):
    """The request itself cannot work: an option, a missing engine, a value out of range."""


class InputError(FhevalError):
    """The data cannot be used; the message names file, row and column where there are any."""


class LocalProtocolError(FhevalError):
    """This process broke the protocol: a bug of ours, never the peer's fault."""


class RemoteProtocolError(FhevalError):
    """A peer broke the protocol.

    `step` is the protocol step at which it showed, `culprit` the role or party that sent the message.
    """

    def __init__(self, message: str, *, step: str, culprit: str) -> None:
        super().__init__(message)
        self.step = step
        self.culprit = culprit


class VerificationFailed(RemoteProtocolError):  # noqa: N818 (the name is part of the public contract)
    """The aggregator's answer does not stand up to verification; there is no result."""

    def __init__(
        self,
        message: str = "The aggregator's answer failed verification: no result was accepted. "
        "Run a new round, and find out why this aggregator deviated.",
        *,
        step: str = "verification",
        culprit: str = "aggregator",
    ) -> None:
        super().__init__(message, step=step, culprit=culprit)


class EngineError(FhevalError):
    """An FHE engine refused: bytes it cannot read, a key that does not fit, a library that does not load."""


class CapacityError(EngineError):
    """The round needs more slots, levels or bits than the parameters have."""


class PrecisionError(EngineError):
    """The numbers of this round would not survive the parameters' precision."""


class UndefinedMetric(FhevalError):  # noqa: N818
    """The metric has no value on this data, for instance an AUC with one class only."""

    def __init__(
        self,
        message: str = "The metric is undefined: its denominator over all parties is zero, as for an AUC with samples "
        "of one class only. Add a party that has the other class.",
    ) -> None:
        super().__init__(message)


class CohortTooSmall(FhevalError):  # noqa: N818
    """Fewer parties than the minimum cohort: releasing a result would say too much about each."""


class TransportError(FhevalError):
    """Bytes did not arrive; the only error after which the same step may be tried again."""
