"""Where randomness comes from: the operating system's generator, streams derived from the seed, and nowhere else."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fheval.engines import container
from fheval.protocols import padded, paper_malicious, paper_semi_honest
from fheval.protocols.padding import LinearCircuit
from fheval.protocols.release import RoundedRelease
from fheval.protocols.round import Round, leader_set_up
from fheval.secrets import Randomness, Secret, Stream, SystemRandomness
from protocols.rounds import ALL, CLEAR, PADDED, PAPER, Cast, Wiretap, a_round, contributions_of, curve

COUNTS = [curve(40, 70), curve(0, 25), curve(9, 1)]


def everything_sent(round_: Round, rng: Randomness) -> list[tuple[str, bytes]]:
    """All messages of a whole round on the plaintext engine, which adds no randomness of its own."""
    tap = Wiretap(round_, contributions_of(round_, COUNTS), rng)
    tap.play()
    return tap.sent


def stream(number: int) -> Stream:
    return Stream(Secret(number.to_bytes(32, "big")))


# The argument decides everything


@pytest.mark.parametrize("protocol", ALL)
def test_a_round_is_a_function_of_its_randomness(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same bytes in, same bytes out: there is no source of randomness beside the argument and the engine's own."""
    monkeypatch.setattr(container, "os", _Numbered())
    round_ = a_round(protocol, 3)
    assert everything_sent(round_, stream(1)) == everything_sent(round_, stream(1))


class _Numbered:
    """Stands for `os` in the envelope, whose key ids are no secret."""

    def urandom(self, count: int) -> bytes:
        assert count == container.KEY_ID_BYTES
        return bytes(count)


@pytest.mark.parametrize("protocol", ALL)
def test_other_randomness_changes_every_message_that_hides_something(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "os", _Numbered())
    round_ = a_round(protocol, 3)
    differ = [
        kind
        for (kind, one), (_, other) in zip(
            everything_sent(round_, stream(1)), everything_sent(round_, stream(2)), strict=True
        )
        if one != other
    ]
    # The plaintext engine does not encrypt: what it sends differs only where the protocol itself hides.
    if protocol in PADDED:
        leader = ["pads, asked", "pads, answered", "result, asked", "result, answered", "broadcast, asked"]
        assert differ == ["submit, answered"] * 3 + leader
    elif protocol == "paper-malicious":
        assert differ == ["submit, answered"] * 3 + ["result, asked"]
    else:
        assert differ == ["result, asked"]


@pytest.mark.parametrize("protocol", ALL)
def test_the_system_randomness_is_the_operating_systems(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `os.urandom` replaced, whole rounds repeat; so nothing else is asked for random bytes."""
    round_ = a_round(protocol, 3)
    runs = []
    for _ in range(2):
        source = stream(3)
        monkeypatch.setattr(os, "urandom", source.draw)
        runs.append(everything_sent(round_, SystemRandomness()))
    assert runs[0] == runs[1]


@pytest.mark.parametrize("protocol", ALL)
def test_predictable_generators_are_left_alone(protocol: str) -> None:
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    everything_sent(a_round(protocol, 3), SystemRandomness())
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # type: ignore[index]  # noqa: NPY002


# What is fresh in every round


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Notes every c, every K, b, e_1, e_2, every unit, every mask and every cover that an aggregator draws."""
    notes: list[Any] = []

    def note(function: Callable[..., Any], text: Callable[[Any], Any] = lambda value: value) -> Callable[..., Any]:
        def noting(*arguments: Any) -> Any:
            value = function(*arguments)
            notes.append(text(value))
            return value

        return noting

    for module in (paper_semi_honest, paper_malicious):
        monkeypatch.setattr(module, "draw_blinding", note(module.draw_blinding))
    monkeypatch.setattr(
        RoundedRelease,
        "draw",
        note(RoundedRelease.draw, lambda drawn: tuple((b.scale, b.tilt, b.noise_x, b.noise_z) for b in drawn)),
    )
    monkeypatch.setattr(LinearCircuit, "mask", note(LinearCircuit.mask, lambda numbers: numbers.tobytes()))
    monkeypatch.setattr(padded.SlotLayout, "draw_cover", note(padded.SlotLayout.draw_cover))
    units = note(padded.Aggregator._exact_blinding, lambda pair: pair[0].tobytes())
    monkeypatch.setattr(padded.Aggregator, "_exact_blinding", units)
    return notes


@pytest.mark.parametrize(
    ("protocol", "options", "per_round"),
    [
        ("paper-semi-honest", {}, 1),
        ("paper-malicious", {}, 2),
        # A cover, K, b, e_1, e_2 once, and a mask for each of four primes.
        ("padded", {}, 6),
        # A cover, and a unit and a mask for each of two primes, or of four.
        ("padded", {"precision": None}, 5),
        ("padded-verified", {}, 9),
    ],
    ids=str,
)
def test_blinding_is_drawn_anew_for_every_answer(
    protocol: str, options: dict[str, Any], per_round: int, drawn: list[Any]
) -> None:
    cast = Cast(a_round(protocol, 3, **options))
    own = contributions_of(cast.round, COUNTS)
    # The same uploads answered by two aggregators, and another round.
    for each in (cast, cast, cast.next()):
        each.result_of(each.served(own))
    assert len(drawn) == 3 * per_round
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("protocol", PAPER)
def test_the_factor_of_the_paper_protocols_comes_from_the_argument(protocol: str, drawn: list[float]) -> None:
    for number in (1, 1, 2):
        everything_sent(a_round(protocol, 3), stream(number))
    first, second, third = np.split(np.array(drawn), 3)
    assert first.tolist() == second.tolist()
    assert not set(first) & set(third)


def test_set_up_makes_a_new_seed_every_time() -> None:
    round_ = a_round("padded", 3)
    seeds = {leader_set_up(CLEAR, round_, [], SystemRandomness())[0].seed.reveal() for _ in range(100)}
    assert len(seeds) == 100
    assert {len(seed) for seed in seeds} == {32}


def test_round_ids_do_not_repeat() -> None:
    assert len({a_round("padded", 3).id for _ in range(1000)}) == 1000
