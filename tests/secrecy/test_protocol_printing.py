"""No secret of a round is printed, logged with an error, or sent: by its own values, looked for everywhere."""

from __future__ import annotations

import dataclasses
import io
import logging
import re
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from fheval import wire
from fheval.errors import FhevalError, InputError
from fheval.metrics.registry import auc_contribution
from fheval.party.epoch import EpochSecrets, _Bundle
from fheval.protocols import padded_verified, paper_malicious
from fheval.protocols.base import Receipt
from fheval.protocols.padded import RosterNotice
from fheval.protocols.padded_verified import SecretMaps
from fheval.protocols.paper_malicious import CommonRandomness
from fheval.protocols.release import RoundedRelease
from fheval.protocols.round import Denominator, PartySecrets, Verdict, leader_seal, party_unseal
from fheval.secrets import Secret, Stream, SystemRandomness
from protocols.rounds import ALL, PADDED, Cast, Wiretap, a_round, contributions_of, curve

RNG = SystemRandomness()
SEED = bytes(range(200, 232))

# Numbers that turn up nowhere by chance.
COUNTS = [curve(48611, 77773), curve(91807, 65537), curve(39119, 58067)]
TELLING = [
    str(number) for each in COUNTS for number in (each.positives, each.negatives, *each.t, *each.f) if number > 9999
]


def spelled(value: Any) -> list[str]:
    """How a value would look in a text."""
    if isinstance(value, bytes):
        return [value.hex(), repr(value)[2:-1], repr(list(value))[1:-1], str(int.from_bytes(value, "big"))]
    return [str(value)[:12]]


def assert_silent(text: str, *secrets: Any) -> None:
    for secret in secrets:
        for writing in spelled(secret):
            assert writing not in text


# Printing


def all_of(value: Any) -> str:
    """Every way in which a value ends up in a text."""
    return f"{value!r} {value} {value:} {[value]} {{'it': {value!r}}}"


def test_the_search_finds_what_is_printed() -> None:
    for value in (SEED, 123456789.5):
        with pytest.raises(AssertionError):
            assert_silent(repr(value), value)


def test_party_secrets_print_nothing() -> None:
    needles = (SEED, b"the-key-itself", b"the-seed-of-pads", b"the-master-seed")
    secrets = PartySecrets(
        seed=Secret(needles[0]), keys=(Secret(needles[1]),), pad_seed=Secret(needles[2]), master=Secret(needles[3])
    )
    assert_silent(all_of(secrets), *needles)
    assert_silent(all_of(EpochSecrets(suits="any", secrets=secrets)), *needles)
    with pytest.raises(TypeError):
        dataclasses.asdict(secrets)


def test_what_the_leader_seals_for_the_parties_prints_nothing() -> None:
    needles = (SEED, b"the-seed-of-pads", b"the-key-of-the-box", b"the-master-seed")
    content = _Bundle("any", *needles)
    assert_silent(all_of(content), *needles)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(content), type=_Bundle) == content


def test_common_randomness_prints_nothing() -> None:
    common = CommonRandomness.derive(Secret(SEED), a_round("paper-malicious", 3), 0)
    values = [common.r3, common.r4, common.r5, common.r6, common.r7, common.r8]
    assert_silent(all_of(common), *values, common.order, common.split_left)


def test_secret_maps_print_nothing() -> None:
    maps = SecretMaps.derive(Secret(SEED), a_round("padded-verified", 3), 0, 97, 0)
    assert_silent(all_of(maps), *[unit for unit in maps.units if unit > 9 and unit != 97], maps.units)


def test_blinding_prints_nothing() -> None:
    (drawn,) = RoundedRelease.plan([2**47], 1e-4).draw([Denominator(0)], RNG)
    assert_silent(all_of(drawn), drawn.scale, drawn.tilt, drawn.noise_x, drawn.noise_z)


def test_contributions_and_counts_print_nothing() -> None:
    for counts in COUNTS:
        text = all_of(counts) + all_of(auc_contribution(counts))
        assert not [number for number in TELLING if number in text]


def test_streams_and_secrets_print_nothing() -> None:
    assert_silent(all_of(Stream(Secret(SEED))) + all_of(Secret(SEED)), SEED)


def tapped(protocol: str, seed: bytes | None = None, monkeypatch: pytest.MonkeyPatch | None = None) -> Wiretap:
    """A whole round on the plaintext engine, where everything that is sent can be read."""
    if seed is not None and monkeypatch is not None:
        monkeypatch.setattr("fheval.protocols.round.new_seed", lambda _: Secret(seed))
    round_ = a_round(protocol, 3)
    tap = Wiretap(round_, contributions_of(round_, COUNTS), RNG)
    tap.play()
    return tap


@pytest.mark.parametrize("protocol", ALL)
def test_messages_print_sizes_and_no_content(protocol: str) -> None:
    for message in tapped(protocol).messages:
        text = all_of(message)
        assert "bytes>" in text or type(message) in (RosterNotice, Receipt)
        assert not re.search(r"\bb['\"]", text)
        assert "\\x" not in text
        assert len(repr(message)) < 3000


# Sending


@pytest.mark.parametrize("protocol", ALL)
def test_no_message_carries_the_seed_or_what_is_derived_from_it(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[Any] = []
    for module in (paper_malicious, padded_verified):
        monkeypatch.setattr(module, "derive", noted(module.derive, rounds))
    tap = tapped(protocol, SEED, monkeypatch)
    sent = b"".join(data for _, data in tap.sent)
    assert SEED not in sent
    for drawn in rounds:
        assert drawn not in sent
    # What is there is found: each party's name travels, and the first two protocols derive nothing but pads.
    assert b"hospital-1" in sent
    assert bool(rounds) == (protocol in ("padded-verified", "paper-malicious"))


def noted(derive: Callable[..., Stream], notes: list[bytes]) -> Callable[..., Stream]:
    """`derive` that notes the first bytes of every stream it gives."""

    def derive_and_note(*labels: Any) -> Stream:
        notes.append(derive(*labels).draw(16))
        return derive(*labels)

    return derive_and_note


def test_no_message_carries_a_multiplier_a_permutation_or_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    tap = tapped("paper-malicious", SEED, monkeypatch)
    sent = b"".join(data for _, data in tap.sent)
    round_ = next(message.round for message in tap.messages if hasattr(message, "runs"))
    found = a_round("paper-malicious", 3, id=round_)
    for run in range(2):
        common = CommonRandomness.derive(Secret(SEED), found, run)
        for value in (common.r3, common.r4, common.r5, common.r6, common.r7, common.r8):
            assert struct.pack("<d", value) not in sent
        assert common.order.astype("<i8").tobytes()[:64] not in sent
        for party in found.parties:
            mask = paper_malicious.party_masks(Secret(SEED), found, run, party, "tr")
            assert mask.tobytes()[:16] not in sent
            assert mask.astype(np.complex128).tobytes()[:32] not in sent


def test_the_outcome_is_sent_sealed_only() -> None:
    """What the parties learn passes the aggregator, which must not."""
    for protocol in PADDED:
        tap = tapped(protocol)
        leader = ["pads, asked", "pads, answered", "result, asked", "result, answered"]
        assert [what for what, _ in tap.sent] == [
            "set-up",
            *["submit, answered"] * 3,
            *leader,
            "broadcast, asked",
            "broadcast, answered",
        ]
        sealed, passed_on, receipt = (data for _, data in tap.sent[-3:])
        assert sealed == passed_on
        assert receipt == wire.encode(Receipt(round=tap.round.id))
        (verdict, *_) = tap.verdicts.values()
        for number in verdict.ratio().as_integer_ratio():
            assert str(number).encode() not in sealed


# Errors


def steps_of(protocol: str) -> dict[str, Callable[[], object]]:
    """A failure of each kind, at steps that have secrets at hand."""
    cast = Cast(a_round(protocol, 3))
    own = contributions_of(cast.round, COUNTS)
    upload = cast.upload("hospital-1", own["hospital-1"])
    result = cast.result_of(cast.served(own))
    undefined = cast.result_of(cast.served(contributions_of(cast.round, [curve(48611, 0)] * 3)))
    cut_off = wire.encode(upload)[:-9]
    return {
        "stranger": lambda: cast.aggregator().receive(changed(upload, sender="stranger")),
        "garbled upload": lambda: cast.aggregator().receive(garbled(upload)),
        "garbled answer": lambda: cast.open(garbled(result)),
        "undefined": lambda: cast.open(undefined),
        "another round": lambda: cast.next().open(result),
        "too few": lambda: cast.result_of(cast.served({"hospital-1": own["hospital-1"]})),
        "cut off": lambda: wire.decode(cut_off, type(upload), sender="hospital-1"),
    }


def altered_verdict() -> object:
    secrets = PartySecrets(seed=Secret(SEED), pad_seed=Secret(SEED))
    round_ = a_round("padded", 3)
    verdict = Verdict(ratios=(Fraction(48611, 77773),), roster=round_.parties)
    sealed = leader_seal(round_, secrets, verdict, RNG)
    return party_unseal(round_, secrets, changed(sealed, box=sealed.box[::-1]))


def changed(message: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(message, **fields)


def garbled(message: Any) -> Any:
    """The same message with bytes missing from its first large field, however deep."""

    def cut(value: Any) -> Any:
        return (cut(value[0]), *value[1:]) if isinstance(value, tuple) else bytes(value)[:-3]

    name = next(name for name in ("runs", "ciphertexts", "values") if hasattr(message, name))
    return changed(message, **{name: cut(getattr(message, name))})


def lie() -> object:
    """An aggregator that doubles one upload."""
    cast = Cast(a_round("padded-verified", 3))
    own = contributions_of(cast.round, COUNTS)
    aggregator = cast.served(own)
    aggregator.uploads.add(cast.upload("hospital-1", own["hospital-1"]).values, "hospital-1")
    return cast.open(cast.result_of(aggregator))


STEPS = {f"{protocol}: {name}": step for protocol in ALL for name, step in steps_of(protocol).items()}
STEPS |= {"padded-verified: a lie": lie, "verdict: altered": altered_verdict}


def logged(step: Callable[[], object]) -> str:
    """What a log holds after the step failed and its error was logged with its traceback."""
    written = io.StringIO()
    log = logging.Logger("a role", level=logging.DEBUG)
    log.addHandler(logging.StreamHandler(written))
    try:
        step()
    except FhevalError:
        log.exception("The round failed.")
    return written.getvalue()


@pytest.mark.parametrize("step", STEPS)
def test_a_logged_error_shows_no_secret(step: str) -> None:
    text = logged(STEPS[step])
    assert "Traceback" in text
    assert not [number for number in TELLING if number in text]
    assert_silent(text, SEED)


def test_the_search_of_the_log_notices_a_count() -> None:
    def careless() -> None:
        raise InputError(f"{COUNTS[0].positives} positives are too many.")

    assert [number for number in TELLING if number in logged(careless)]
