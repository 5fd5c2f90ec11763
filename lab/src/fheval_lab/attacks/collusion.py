"""One party hands everything to the aggregator: what do the two know about the other parties' counts?

Their joint view is all that passes the aggregator, and the party's own secrets. A pad is a function of a seed, the
round and a nonce, so they try every seed that theirs lead to; and they open what the leader encrypted, if they have
keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from fheval import wire
from fheval.engines import Engine, Parameters
from fheval.protocols import PROTOCOLS, padding
from fheval.protocols.base import Seat, Stage
from fheval.protocols.padded import PadSums
from fheval.protocols.round import NONCE_BYTES, IntegerVector, PartySecrets, Round, leader_set_up, pad_seed
from fheval.secrets import Secret, SystemRandomness
from fheval_lab.attacks.attacked import AttackedRound
from fheval_lab.attacks.chance import same_distribution
from fheval_lab.attacks.consortium import Consortium, fresh_stream
from fheval_lab.attacks.released_pair import LeakRate
from fheval_lab.attacks.suite import adversary_of
from fheval_lab.attacks.views import Likeness

ROUNDS = 3
# Moduli at which pads are tried out: small fields, and the smallest ring that pads on integers come in.
PRIMES = (101, 1009)
RING_BITS = 32
VALUES = 20_000


def collude(consortium: Consortium, engine: Engine, rounds: int = ROUNDS) -> list[LeakRate]:
    """The last party and the aggregator try to recognise the others' data, and to open what the leader encrypted."""
    recognised = compared = opened = ciphertexts = 0
    for _ in range(rounds):
        attacked = consortium.attacked(engine, fresh_stream())
        *others, traitor = attacked.round.parties
        held = attacked.protocol.secrets_of(attacked.round, attacked.secrets, traitor)
        recognised += sum(recognises(attacked, held, victim) for victim in others)
        compared += len(others)
        found = list(leaders_ciphertexts(attacked))
        opened += sum(opens(engine, held, *each) for each in found)
        ciphertexts += len(found)
    return [
        LeakRate(name="collude-recognise-data", tries=compared, right=recognised, conceded=0.0),
        LeakRate(name="collude-open-pads", tries=ciphertexts, right=opened, conceded=0.0),
    ]


def recognises(attacked: AttackedRound, held: PartySecrets, victim: str) -> bool:
    """Whether the secrets confirm a right guess of another party's data: they make its upload once more."""
    upload = next(each for each in attacked.uploads() if each.sender == victim)
    return any(
        _uploaded(attacked, PartySecrets(seed=held.seed, pad_seed=seed), victim, upload.nonce) == upload.values
        for seed in reachable_seeds(held, victim)
    )


def reachable_seeds(held: PartySecrets, victim: str) -> Iterator[Secret[bytes]]:
    """Every seed that a party has, and what would be the victim's if it were the master."""
    for seed in (held.seed, held.pad_seed, *([held.master] if held.master else [])):
        yield seed
        yield pad_seed(seed, victim)


def _uploaded(attacked: AttackedRound, secrets: PartySecrets, party: str, nonce: bytes) -> bytes:
    seat = Seat(
        engine=attacked.engine,
        round=attacked.round,
        me=party,
        secrets=secrets,
        rng=attacked.rng,
        contribution=attacked.contributions[party],
    )
    values: bytes = attacked.protocol.submit(seat, nonce).values  # type: ignore[attr-defined]
    return values


def leaders_ciphertexts(attacked: AttackedRound) -> Iterator[tuple[int, Parameters, bytes]]:
    """What the leader encrypts for the aggregator: the number of the parameter set, the set, and a ciphertext."""
    setup, rng = attacked.public, attacked.rng
    playing = attacked.protocol.aggregator(attacked.engine, attacked.round, setup, rng).play()
    ask = next(playing)
    while ask.stage is not Stage.PADS:
        ask = playing.send(attacked.replies(ask))
    ((leader, data),) = attacked.replies(ask)
    pads = wire.decode(data, PadSums, sender=leader)
    sets = attacked.protocol.parameter_sets(attacked.round)
    for index, (chosen, sheets) in enumerate(zip(sets, pads.ciphertexts, strict=True)):
        for ciphertext in _flat(sheets):
            yield index, chosen, ciphertext


def _flat(parts: object) -> Iterator[bytes]:
    if isinstance(parts, (bytes, memoryview)):
        yield bytes(parts)
    elif isinstance(parts, Iterable):
        for part in parts:
            yield from _flat(part)


def opens(engine: Engine, held: PartySecrets, index: int, chosen: Parameters, ciphertext: bytes) -> bool:
    """Whether a party has the key of this ciphertext."""
    if index >= len(held.keys):
        return False
    engine.key_holder(chosen, held.keys[index]).decrypt(ciphertext)
    return True


def moduli(consortium: Consortium, engine: Engine) -> tuple[int, ...]:
    """What uploads are tried out modulo: that of the ring where a protocol pads integers, else small primes."""
    layout = adversary_of(PROTOCOLS[consortium.protocol]).lay_out(consortium.round(engine, SystemRandomness()))
    return (1 << RING_BITS,) if layout.bits else PRIMES


def compare_joint_views(protocol: str, engine: Engine, modulus: int) -> list[Likeness]:
    """In a small field or ring: the view of both, for a victim with no counts at all and for one with large counts.

    The numbers compared are the victim's upload, as it is and less every pad that the two can come up with.
    """
    consortium, rng = Consortium(protocol=protocol), SystemRandomness()
    round_ = consortium.round(engine, rng)
    secrets, _ = leader_set_up(engine, round_, [], rng)
    *_, victim, traitor = round_.parties
    held = PROTOCOLS[protocol].secrets_of(round_, secrets, traitor)
    own = PROTOCOLS[protocol].secrets_of(round_, secrets, victim)
    views = [_joint_view(round_, own, held, victim, modulus, count) for count in (0, modulus // 2)]
    return [
        Likeness(name=f"collude-mod-{modulus}-{number}", numbers=len(one), chance=same_distribution(one, other))
        for number, (one, other) in enumerate(zip(*views, strict=True), start=1)
    ]


def _joint_view(
    round_: Round, own: PartySecrets, held: PartySecrets, victim: str, modulus: int, count: int
) -> list[npt.NDArray[np.uint64]]:
    rng = SystemRandomness()
    nonce, nonce_of_traitor = rng.draw(NONCE_BYTES), rng.draw(NONCE_BYTES)
    hide, seen = (_in_ring, _pad_of_ring) if modulus == 1 << RING_BITS else (_in_field, _pad_of_field)
    upload = hide(round_, own, nonce, modulus, np.full(VALUES, count))
    guesses = [seen(seed, round_, nonce, modulus) for seed in reachable_seeds(held, victim)]
    guesses.append(seen(held.pad_seed, round_, nonce_of_traitor, modulus))
    return [upload, *((upload + np.uint64(modulus) - each) % np.uint64(modulus) for each in guesses)]


def _in_field(
    round_: Round, own: PartySecrets, nonce: bytes, prime: int, counts: IntegerVector
) -> npt.NDArray[np.uint64]:
    reader = padding.UploadSum(VALUES)
    reader.add(padding.party_pad(round_, own, nonce, [prime], [counts.astype(np.uint64)]), "")
    (upload,) = reader.totals([prime])
    return upload


def _pad_of_field(seed: Secret[bytes], round_: Round, nonce: bytes, prime: int) -> npt.NDArray[np.uint64]:
    (pad,) = padding.reduced(padding.pad(seed, round_, nonce, VALUES).view("<u8"), 64, [prime])
    return pad


def _in_ring(
    round_: Round, own: PartySecrets, nonce: bytes, _modulus: int, counts: IntegerVector
) -> npt.NDArray[np.uint64]:
    upload = padding.party_pad_integers(round_, own, nonce, RING_BITS, counts)
    return np.frombuffer(upload, dtype="<u4").astype(np.uint64)


def _pad_of_ring(seed: Secret[bytes], round_: Round, nonce: bytes, _modulus: int) -> npt.NDArray[np.uint64]:
    return padding.pad(seed, round_, nonce, VALUES, bits=RING_BITS).astype(np.uint64)
