"""One way to play a party or a leader of any protocol: what differs between the protocols, side by side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import ModuleType

from fheval import wire
from fheval.engines import Engine, Parameters
from fheval.errors import ConfigError, RemoteProtocolError
from fheval.metrics.forms import Contribution
from fheval.protocols import padded, padded_verified, padding, paper_malicious, paper_semi_honest
from fheval.protocols.padded import PaddedCounts, PaddedResult, PadSums, RosterNotice, SlotLayout
from fheval.protocols.paper_malicious import BlindedResults, CountShares
from fheval.protocols.paper_semi_honest import BlindedResult, CountShare
from fheval.protocols.round import AGGREGATOR, Outcome, PartySecrets, Round
from fheval.secrets import Randomness
from fheval.wire import Message

# Below this an answer that "was verified" would mean little: 2^-40 is what is usually asked of a single guess.
LEAST_SOUNDNESS_BITS = 40.0


class Roles(ABC):
    """What a vault does in one protocol; the steps themselves are in `fheval.protocols`.

    `all_or_none` says whether one dropout spoils the round.
    """

    module: ModuleType
    upload: type[Message]
    answer: type[Message]
    all_or_none: bool = False

    @abstractmethod
    def parameter_sets(self, round_: Round) -> list[Parameters]:
        """The parameter sets that keys are made for; refuses a round that does not fit any."""

    @abstractmethod
    def submit(
        self,
        engine: Engine,
        round_: Round,
        secrets: PartySecrets,
        me: str,
        contributions: Sequence[Contribution],
        rng: Randomness,
    ) -> Message:
        """A party's upload."""

    @abstractmethod
    def open(
        self, engine: Engine, round_: Round, secrets: PartySecrets, roster: tuple[str, ...], answer: bytes
    ) -> Outcome:
        """Decrypt and, where the protocol does, verify the aggregator's answer for this roster."""

    def soundness_bits(self, round_: Round) -> float | None:  # noqa: ARG002 (a protocol that verifies overrides it)
        """How hard a wrong answer is to pass off, where the protocol verifies."""
        return None


class PaddedRoles(Roles):
    """A protocol with pads to give, and a leader who opens the answer for all."""

    module = padded
    upload = PaddedCounts
    answer = PaddedResult

    def layout(self, round_: Round) -> SlotLayout:
        """The slots of a round."""
        return padded.Layout.of(round_)

    def parameter_sets(self, round_: Round) -> list[Parameters]:
        """One set for each prime."""
        return padding.parameter_sets(self.layout(round_).primes)

    def submit(
        self,
        engine: Engine,  # noqa: ARG002 (a padded upload needs no ciphertext)
        round_: Round,
        secrets: PartySecrets,
        me: str,
        contributions: Sequence[Contribution],
        rng: Randomness,  # noqa: ARG002 (pads are derived)
    ) -> PaddedCounts:
        """Step 1."""
        upload: PaddedCounts = self.module.party_submit(round_, secrets, me, contributions)
        return upload

    def pads(self, engine: Engine, round_: Round, secrets: PartySecrets, me: str, roster: tuple[str, ...]) -> PadSums:
        """Step 3, leader: the sum of the roster's pads, encrypted."""
        notice = RosterNotice(round=round_.id, roster=roster)
        return padded.leader_answer(engine, round_, secrets, me, notice, self.layout)

    def open(
        self, engine: Engine, round_: Round, secrets: PartySecrets, roster: tuple[str, ...], answer: bytes
    ) -> Outcome:
        """Step 6, leader."""
        notice = RosterNotice(round=round_.id, roster=roster)
        result = wire.decode(answer, PaddedResult, sender=AGGREGATOR)
        outcome: Outcome = self.module.leader_open(engine, round_, secrets, notice, result)
        return outcome


class _PaddedVerified(PaddedRoles):
    module = padded_verified

    def layout(self, round_: Round) -> SlotLayout:
        return padded_verified.lay_out(round_)

    def soundness_bits(self, round_: Round) -> float:
        return padded_verified.soundness_of(round_, self.layout(round_))


class _PaperSemiHonest(Roles):
    module = paper_semi_honest
    upload = CountShare
    answer = BlindedResult

    def parameter_sets(self, round_: Round) -> list[Parameters]:
        return [paper_semi_honest.parameters(round_)]

    def submit(
        self,
        engine: Engine,
        round_: Round,
        secrets: PartySecrets,
        me: str,
        contributions: Sequence[Contribution],
        rng: Randomness,  # noqa: ARG002 (the engine draws)
    ) -> CountShare:
        (contribution,) = contributions
        return paper_semi_honest.party_submit(engine, round_, secrets, me, contribution)

    def open(
        self, engine: Engine, round_: Round, secrets: PartySecrets, roster: tuple[str, ...], answer: bytes
    ) -> Outcome:
        result = wire.decode(answer, BlindedResult, sender=AGGREGATOR)
        _require_roster(result.roster, roster)
        return paper_semi_honest.party_open(engine, round_, secrets, result)


class _PaperMalicious(Roles):
    module = paper_malicious
    upload = CountShares
    answer = BlindedResults
    all_or_none = True

    def parameter_sets(self, round_: Round) -> list[Parameters]:
        return [paper_malicious.parameters(round_)]

    def submit(
        self,
        engine: Engine,
        round_: Round,
        secrets: PartySecrets,
        me: str,
        contributions: Sequence[Contribution],
        rng: Randomness,
    ) -> CountShares:
        (contribution,) = contributions
        return paper_malicious.party_submit(engine, round_, secrets, me, contribution, rng)

    def open(
        self, engine: Engine, round_: Round, secrets: PartySecrets, roster: tuple[str, ...], answer: bytes
    ) -> Outcome:
        results = wire.decode(answer, BlindedResults, sender=AGGREGATOR)
        _require_roster(results.roster, roster)
        return paper_malicious.party_open(engine, round_, secrets, results)

    def soundness_bits(self, round_: Round) -> float:
        return paper_malicious.soundness_bits(paper_semi_honest.the_form(round_).terms, round_.splits)


def _require_roster(answered: tuple[str, ...], claimed: tuple[str, ...]) -> None:
    if answered != claimed:
        raise RemoteProtocolError(
            "The aggregator's answer names other parties than it has uploads of. The round was aborted.",
            step="result",
            culprit=AGGREGATOR,
        )


_ROLES: dict[str, Roles] = {
    roles.module.NAME: roles for roles in (PaddedRoles(), _PaddedVerified(), _PaperSemiHonest(), _PaperMalicious())
}


def roles_of(round_: Round) -> Roles:
    """How the round's protocol is played."""
    if round_.protocol not in _ROLES:
        raise ConfigError(f"There is no protocol {round_.protocol!r}. Choose one of: {', '.join(_ROLES)}.")
    return _ROLES[round_.protocol]
