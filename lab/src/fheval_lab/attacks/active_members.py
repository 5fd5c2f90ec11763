"""Deviations that only a committee knows: malformed keys and offers of a member, and an aggregator that shows each
member something else.

Each is played once against honest members, who must end the round before they have given anything to the deviating one
that depends on their numbers: at `pads` for a key or an offer, at `mix` for everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec
import numpy as np

from fheval.engines import Engine, container
from fheval.engines.container import PublicKeys
from fheval.errors import FhevalError
from fheval.protocols import PROTOCOLS
from fheval.protocols.base import Aggregator, Stage
from fheval.protocols.committee_messages import Offer, RosterNotice
from fheval.protocols.round import PublicSetup, public_digest
from fheval.wire import decode, encode
from fheval_lab.attacks.attacked import AttackedRound
from fheval_lab.attacks.committee_adversary import CommitteeAdversary, TwoRosters, WrongSum
from fheval_lab.attacks.consortium import Consortium, fresh_stream
from fheval_lab.attacks.strategy import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """What became of one deviation: whether the round ended, and whether anything of an honest member came first."""

    name: str
    caught: bool
    given: bool

    @property
    def holds(self) -> bool:
        return self.caught and not self.given

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds}


OfferChange = Callable[["DeviatingMember", Offer], Offer]
KeyChange = Callable[["DeviatingMember", PublicSetup], PublicSetup]


class DeviatingMember(AttackedRound):
    """A round whose second member does as it likes with its keys and its offer, and signs what it sends."""

    change_offer: OfferChange | None = None

    @property
    def culprit(self) -> str:
        return self.protocol.keepers(self.round)[1]

    @property
    def honest(self) -> list[str]:
        return [keeper for keeper in self.protocol.keepers(self.round) if keeper != self.culprit]

    def answer(self, party: str, stage: Stage, body: bytes) -> bytes:
        data = super().answer(party, stage, body)
        if stage is Stage.OFFER and party == self.culprit and self.change_offer is not None:
            data = encode(self.change_offer(self, decode(data, Offer, sender=party)))
            self.said[party][stage] = data
        return data

    def change_keys(self, change: KeyChange) -> None:
        """Tell all parties, under seal as it should, of other keys."""
        told = change(self, decode(self.publics[self.culprit], PublicSetup, sender=self.culprit))
        self.publics[self.culprit] = encode(told)
        self.made[self.culprit] = replace(self.made[self.culprit], publics=(public_digest(told),))

    def outcome_of(self, name: str, kind: type[Aggregator], first: Stage) -> Deviation:
        """Let an aggregator of this type play; an honest member must not have answered the stage `first`."""
        try:
            self.open(self.answer_of(kind))
            caught = False
        except FhevalError:
            caught = True
        given = any(first in self.said[keeper] for keeper in self.honest)
        return Deviation(name=name, caught=caught, given=given)


def deviate(consortium: Consortium, engine: Engine) -> Iterator[Deviation]:
    """Every deviation against a round of its own."""
    honest = type("HonestRelay", (CommitteeAdversary,), {"plot": Strategy, "earlier": ()})
    for name, change in offers(engine).items():
        round_ = _round(consortium, engine)
        round_.change_offer = change
        yield round_.outcome_of(f"offer: {name}", honest, Stage.PADS)
    for name, of_keys in keys(engine).items():
        round_ = _round(consortium, engine)
        round_.change_keys(of_keys)
        yield round_.outcome_of(f"key: {name}", honest, Stage.PADS)
    earlier = _round(consortium, engine)
    earlier.answer_of(honest)
    stale = type("StaleOffers", (_StaleOffer,), {"stale": earlier.said[earlier.culprit][Stage.OFFER]})
    for name, kind, first in (
        ("an offer of an earlier round", stale, Stage.PADS),
        ("two rosters for one round", TwoRosters, Stage.MIX),
        ("a wrong sum to all", WrongSum, Stage.MIX),
        ("a wrong sum to one", type("WrongToOne", (WrongSum,), {"to_all": False}), Stage.OPEN),
    ):
        yield _round(consortium, engine).outcome_of(f"shown: {name}", kind, first)


def _round(consortium: Consortium, engine: Engine) -> DeviatingMember:
    rng = fresh_stream()
    round_ = consortium.round(engine, rng)
    return DeviatingMember(PROTOCOLS[consortium.protocol], engine, round_, consortium.contributions(), rng)


class _StaleOffer(CommitteeAdversary):
    """Shows what the second member offered in an earlier round, whose ρ and u belong to that one."""

    plot = Strategy
    earlier = ()
    stale: bytes

    def notice(self, offers: dict[str, bytes]) -> RosterNotice:
        return super().notice(offers | {self.members[1]: self.stale})


# Offers


def offers(engine: Engine) -> dict[str, OfferChange]:
    """Malformed offers, by name; where nothing is encrypted only those of another form."""
    found: dict[str, OfferChange] = {
        "a prime too few": lambda _, offer: _with(offer, offer.ciphertexts[1:]),
        "a ciphertext too many": lambda _, offer: _with(offer, [(*each, each[0]) for each in offer.ciphertexts]),
        "a ciphertext cut short": lambda _, offer: _each(offer, lambda data: data[:-8]),
        "a ciphertext of another modulus": lambda _, offer: _with(offer, offer.ciphertexts[::-1]),
        "bytes at random": lambda round_, offer: _each(offer, lambda data: round_.rng.draw(len(data))),
        "what another member offered": _of_another,
        "the same for every prime": lambda _, offer: _with(offer, offer.ciphertexts[:1] * len(offer.ciphertexts)),
        "of another round": lambda _, offer: msgspec.structs.replace(offer, round="0" * len(offer.round)),
    }
    if engine.name in ENCRYPTING:
        found["a ciphertext that was worked on"] = lambda round_, offer: _each_prime(round_, offer, _dropped)
    return found


# Engines that have keys; elsewhere there is nothing to malform.
ENCRYPTING = ("seal", "openfhe")


def _with(offer: Offer, ciphertexts: Sequence[tuple[bytes, ...]]) -> Offer:
    return msgspec.structs.replace(offer, ciphertexts=tuple(ciphertexts))


def _each(offer: Offer, change: Callable[[bytes], bytes]) -> Offer:
    return _with(offer, [tuple(change(bytes(data)) for data in sheets) for sheets in offer.ciphertexts])


def _of_another(round_: DeviatingMember, offer: Offer) -> Offer:
    theirs = round_.said[round_.honest[0]][Stage.OFFER]
    return _with(offer, decode(theirs, Offer, sender=round_.honest[0]).ciphertexts)


def _each_prime(round_: DeviatingMember, offer: Offer, change: Callable[[DeviatingMember, int, bytes], bytes]) -> Offer:
    return _with(
        offer,
        [tuple(change(round_, n, bytes(data)) for data in sheets) for n, sheets in enumerate(offer.ciphertexts)],
    )


def _dropped(round_: DeviatingMember, n: int, data: bytes) -> bytes:
    """The same content a level lower, where the noise of a product does not go away."""
    chosen = round_.protocol.parameter_sets(round_.round)[n]
    own = round_.engine.generate_keys(chosen)
    evaluator = round_.engine.evaluator(chosen, own.public)
    key_id, limbs, payload = container.unpack(container.CIPHERTEXT, round_.engine.name, chosen, None, data)
    other_id, *_ = container.unpack(container.PUBLIC_KEYS, round_.engine.name, chosen, None, own.public)
    relabelled = container.pack(container.CIPHERTEXT, round_.engine.name, chosen, other_id, limbs, bytes(payload))
    lower = evaluator.dump(evaluator.drop_level(evaluator.load(relabelled)))
    _, limbs, payload = container.unpack(container.CIPHERTEXT, round_.engine.name, chosen, None, lower)
    return container.pack(container.CIPHERTEXT, round_.engine.name, chosen, key_id, limbs, bytes(payload))


# Keys


def keys(engine: Engine) -> dict[str, KeyChange]:
    """Malformed keys, by name; for engines that encrypt."""
    if engine.name not in ENCRYPTING:
        return {"a prime too few": lambda _, setup: msgspec.structs.replace(setup, keys=setup.keys[1:])}
    return {
        "a prime too few": lambda _, setup: msgspec.structs.replace(setup, keys=setup.keys[1:]),
        "zero": lambda round_, setup: _bodies(round_, setup, np.zeros_like),
        "constant": lambda round_, setup: _bodies(round_, setup, lambda body: np.full_like(body, 3)),
        "small": lambda round_, setup: _bodies(round_, setup, lambda body: body % np.uint64(64)),
        "cut short": lambda round_, setup: _bodies(round_, setup, lambda body: body[:-1]),
        "a uniform part of its own": _own_uniform_part,
        "another member's": _anothers_keys,
    }


def _bodies(
    round_: DeviatingMember, setup: PublicSetup, change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
) -> PublicSetup:
    """Change what of a key is sent."""
    made = []
    for chosen, data in zip(round_.protocol.parameter_sets(round_.round), setup.keys, strict=True):
        key_id, public = container.unpack_public(round_.engine.name, chosen, data, PublicKeys)
        body = change(np.frombuffer(public.encryption, dtype="<u8"))
        content = msgspec.msgpack.encode(msgspec.structs.replace(public, encryption=body.tobytes()))
        made.append(container.pack(container.PUBLIC_KEYS, round_.engine.name, chosen, key_id, 0, content))
    return msgspec.structs.replace(setup, keys=tuple(made))


def _own_uniform_part(round_: DeviatingMember, setup: PublicSetup) -> PublicSetup:
    """Whole keys, in whose uniform part there may be anything."""
    sets = round_.protocol.parameter_sets(round_.round)
    return msgspec.structs.replace(setup, keys=tuple(round_.engine.generate_keys(each).public for each in sets))


def _anothers_keys(round_: DeviatingMember, setup: PublicSetup) -> PublicSetup:
    theirs = decode(round_.publics[round_.honest[0]], PublicSetup, sender=round_.honest[0])
    return msgspec.structs.replace(setup, keys=theirs.keys)
