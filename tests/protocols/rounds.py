"""Rounds with known counts, played whole or role by role, for the tests of the protocols.

They are played by `fheval.protocols.play.Members`, as everywhere; `Cast` adds a way to stop between the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from fheval import wire
from fheval.counting import Counts
from fheval.engines import Engine, Parameters
from fheval.field import LinearMap
from fheval.metrics.registry import auc_batch, auc_contribution
from fheval.protocols import PROTOCOLS, padded, padded_verified, paper_malicious, paper_semi_honest
from fheval.protocols.base import Receipt, Stage
from fheval.protocols.play import Contributions, Members
from fheval.protocols.play import play as play_roles
from fheval.protocols.round import (
    DEFAULT_MAX_SAMPLES,
    Batch,
    Contribution,
    Form,
    PartySecrets,
    PublicSetup,
    Reading,
    Round,
    SealedVerdict,
    Verdict,
    new_round_id,
)
from fheval.secrets import Randomness, SystemRandomness
from fheval.wire import Message
from fheval_lab.clear import ClearEngine

CLEAR = ClearEngine()
PADDED = ("padded", "padded-verified")
PAPER = ("paper-semi-honest", "paper-malicious")
ALL = PADDED + PAPER

OPTIONS = {option.name: option for protocol in PROTOCOLS.values() for option in protocol.options}

# What a member is sent at each stage, nothing with the request for an upload, and what it answers.
Exchanges = dict[Stage, tuple[type[Message] | None, type[Message]]]
_OF_PADDED: Exchanges = {
    Stage.SUBMIT: (None, padded.PaddedCounts),
    Stage.PADS: (padded.RosterNotice, padded.PadSums),
    Stage.RESULT: (padded.PaddedResult, SealedVerdict),
    Stage.BROADCAST: (SealedVerdict, Receipt),
}
MESSAGES: dict[str, Exchanges] = {
    "padded": _OF_PADDED,
    "padded-verified": _OF_PADDED,
    "paper-semi-honest": {
        Stage.SUBMIT: (None, paper_semi_honest.CountShare),
        Stage.RESULT: (paper_semi_honest.BlindedResult, Receipt),
    },
    "paper-malicious": {
        Stage.SUBMIT: (None, paper_malicious.CountShares),
        Stage.RESULT: (paper_malicious.BlindedResults, Receipt),
    },
}


def named(count: int) -> tuple[str, ...]:
    """The names of that many parties."""
    return tuple(f"hospital-{number}" for number in range(1, count + 1))


def a_round(
    protocol: str,
    parties: Sequence[str] | int = 3,
    *,
    decision_points: int = 6,
    forms: Sequence[Form] | None = None,
    engine: Engine = CLEAR,
    max_samples: int = DEFAULT_MAX_SAMPLES,
    **fields: Any,
) -> Round:
    """A round with a fresh id; its first party leads unless the fields say otherwise.

    Options of protocols stand among the fields; as in a study, those that are the default are left out.
    """
    names = named(parties) if isinstance(parties, int) else tuple(parties)
    known = PROTOCOLS.get(protocol)
    given = {name: fields.pop(name) for name in OPTIONS if name in fields}
    defaults: dict[str, Any] = {
        "id": new_round_id(SystemRandomness()),
        "leader": names[0],
        "precision": known.default_precision if known else None,
        "batch": plain_batch(*forms) if forms else auc_batch(decision_points, max_samples),
        "options": tuple(sorted((name, value) for name, value in given.items() if value != OPTIONS[name].default)),
    }
    return Round(protocol=protocol, engine=engine.name, parties=names, max_samples=max_samples, **(defaults | fields))


def auc_form(decision_points: int, max_samples: int) -> Form:
    """The form of an AUC at so many points."""
    (form,) = auc_batch(decision_points, max_samples).forms
    return form


def plain_batch(*forms: Form) -> Batch:
    """Forms whose factors are counted as they are, for each form those on the left before those on the right."""
    starts = np.cumsum([0, *(2 * form.terms for form in forms)])
    return Batch(
        width=int(starts[-1]),
        bits=DEFAULT_MAX_SAMPLES.bit_length(),
        readings=tuple(
            Reading(form=form, left=_as_it_is(start, form.terms), right=_as_it_is(start + form.terms, form.terms))
            for form, start in zip(forms, starts, strict=False)
        ),
    )


def _as_it_is(start: int, count: int) -> LinearMap:
    return LinearMap.stretches(range(start, start + count), range(start + 1, start + count + 1))


def plain(*sides: tuple[Sequence[int], Sequence[int]]) -> Contribution:
    """One party's table for `plain_batch`, from the left and the right factors of each form."""
    return Contribution(np.concatenate([each for pair in sides for each in pair])[np.newaxis])


def sides_of(counts: Counts) -> tuple[list[int], list[int]]:
    """Left and right factors of an AUC, by hand: (T^1 … T^{N−1}, P) and (F^1 … F^{N−1}, 2Q)."""
    return [*counts.t.tolist(), counts.positives], [*counts.f.tolist(), 2 * counts.negatives]


def again(round_: Round, **changes: Any) -> Round:
    """The same round under a new id, and whatever else changes."""
    return replace(round_, **({"id": new_round_id(SystemRandomness())} | changes))


def counts_of(samples: Sequence[tuple[int, float]], decision_points: int) -> Counts:
    """The counts of one party, which may have no samples at all."""
    if not samples:
        return Counts.zero(decision_points)
    labels, scores = zip(*samples, strict=True)
    return Counts.from_scores(labels, scores, decision_points)


def pooled(counts: Sequence[Counts]) -> Counts:
    """What one holder of all the data would have counted."""
    return reduce(add, counts)


def exact(counts: Counts) -> Fraction:
    """num/den of the pooled counts."""
    return Fraction(counts.numerator(), counts.denominator())


def curve(positives: int, negatives: int, decision_points: int = 6, bend: float = 0.5) -> Counts:
    """Counts of a smooth curve with that many samples of each class; a smaller `bend` is a better model."""
    steps = np.linspace(0, 1, decision_points)
    grid = Counts.zero(decision_points).grid
    return Counts(
        tp=np.rint(positives * steps**bend).astype(np.int64), fp=np.rint(negatives * steps).astype(np.int64), grid=grid
    )


def contributions_of(round_: Round, counts: Sequence[Counts]) -> dict[str, Contribution]:
    """Each party's contribution, in the order of the round."""
    return {party: auc_contribution(each) for party, each in zip(round_.parties, counts, strict=True)}


def play(round_: Round, contributions: Contributions, engine: Engine = CLEAR, rng: Randomness | None = None) -> Verdict:
    """The whole round, all roles."""
    return play_roles(PROTOCOLS[round_.protocol], engine, round_, contributions, rng or SystemRandomness())


def parameters_of(round_: Round) -> list[Parameters]:
    """The parameter sets that the round's protocol asks for."""
    return PROTOCOLS[round_.protocol].parameter_sets(round_)


def layout_of(round_: Round) -> padded.SlotLayout:
    """The slots of a padded round."""
    return padded_verified.lay_out(round_) if round_.protocol == "padded-verified" else padded.Layout.of(round_)


class Cast(Members):
    """The members of one round, asked for one step at a time, and aggregators that are told what to receive when.

    Keys may be taken over from an earlier round.
    """

    def __init__(
        self,
        round_: Round,
        engine: Engine = CLEAR,
        rng: Randomness | None = None,
        keys: tuple[PartySecrets, PublicSetup] | None = None,
    ) -> None:
        super().__init__(PROTOCOLS[round_.protocol], engine, round_, {}, rng or SystemRandomness(), keys=keys)

    @property
    def public(self) -> PublicSetup:
        """The set-up as the aggregator reads it."""
        return wire.decode(self.setup, PublicSetup, sender=self.round.leader)

    @property
    def keys(self) -> tuple[PartySecrets, PublicSetup]:
        """All that a later round can take over."""
        return self.secrets, self.public

    def next(self, **changes: Any) -> Cast:
        """A further round with the same keys and seed."""
        return Cast(again(self.round, **changes), self.engine, self.rng, self.keys)

    def upload(self, party: str, contribution: Contribution) -> Any:
        """What a party sends."""
        self.contributions = {**self.contributions, party: contribution}
        sent = self.answer(party, Stage.SUBMIT, b"")
        return wire.decode(sent, self.protocol.aggregator.upload, sender=party)

    def aggregator(self) -> Any:
        """An honest aggregator that has received nothing yet."""
        return self.protocol.aggregator(self.engine, self.round, self.public, self.rng)

    def served(self, contributions: Contributions) -> Any:
        """An aggregator that has received these uploads."""
        aggregator = self.aggregator()
        for party, own in contributions.items():
            aggregator.receive(self.upload(party, own))
        return aggregator

    def pads(self, notice: padded.RosterNotice) -> padded.PadSums:
        """The leader's answer to the roster, in a padded round."""
        sent = self.answer(self.round.leader, Stage.PADS, wire.encode(notice))
        return wire.decode(sent, padded.PadSums, sender=self.round.leader)

    def result_of(self, aggregator: Any) -> Any:
        """The aggregator's result, after the leader gave its pads if the protocol has any."""
        if self.round.protocol in PADDED:
            return aggregator.result(self.pads(aggregator.close()))
        return aggregator.result()

    def open(self, result: Any, roster: tuple[str, ...] | None = None) -> Verdict:
        """What the opening party makes of the result, or why it refuses; by default for those whom it names."""
        uploaded = result.roster if roster is None else roster
        return self.protocol.open(self.engine, self.round, self.secrets, uploaded, wire.encode(result))

    def slots(self, result: Any) -> list[Any]:
        """Everything that a key holder finds in the ciphertexts of a result."""
        if self.round.protocol == "paper-semi-honest":
            grouped = [result.ciphertexts]
        elif self.round.protocol == "paper-malicious":
            grouped = [tuple(data for run in result.runs for data in run)]
        else:
            grouped = list(result.ciphertexts)
        return [
            self.engine.key_holder(chosen, key).decrypt(data)
            for chosen, key, ciphertexts in zip(parameters_of(self.round), self.secrets.keys, grouped, strict=True)
            for data in ciphertexts
        ]


class Wiretap(Members):
    """Members of whom everything that passes between them and the aggregator is kept, in order.

    `sent` has the bytes with what they are, `messages` the same as their receiver reads them.
    """

    def __init__(self, round_: Round, contributions: Contributions, rng: Randomness, engine: Engine = CLEAR) -> None:
        super().__init__(PROTOCOLS[round_.protocol], engine, round_, contributions, rng)
        self.sent: list[tuple[str, bytes]] = []
        self.messages: list[Any] = []
        self._note("set-up", PublicSetup, self.setup)

    def answer(self, party: str, stage: Stage, body: bytes) -> bytes:
        """What one member answers."""
        asked, answered = MESSAGES[self.round.protocol][stage]
        if asked is None:
            assert body == b""
        else:
            self._note(f"{stage.value}, asked", asked, body)
        data = super().answer(party, stage, body)
        self._note(f"{stage.value}, answered", answered, data)
        return data

    def _note(self, what: str, kind: type[Message], data: bytes) -> None:
        self.sent.append((what, data))
        self.messages.append(wire.decode(data, kind, sender="a role"))
