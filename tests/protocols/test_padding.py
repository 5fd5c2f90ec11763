"""Pads, packed uploads, their sum, and the layout of the slots, against Python integers."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fheval import field
from fheval.engines.parameters import plain_moduli
from fheval.errors import CapacityError, LocalProtocolError, RemoteProtocolError
from fheval.protocols import padding
from fheval.protocols.padding import IntegerSum, SlotPlan, UploadSum, pack, packed_size, pad, pad_bits
from fheval.protocols.round import PartySecrets, pad_seed
from fheval.secrets import Secret, SystemRandomness, residues
from protocols.rounds import a_round, again

PRIMES = plain_moduli(3)
RNG = SystemRandomness()
SEED = Secret(bytes(range(32)))


def unpacked(data: bytes, count: int) -> list[int]:
    return [int.from_bytes(data[6 * index : 6 * index + 6], "little") for index in range(count)]


# Packing


@given(st.lists(st.integers(0, 2**48 - 1), max_size=9))
def test_six_bytes_a_value_and_whole_words(values: list[int]) -> None:
    data = pack([np.array(values, dtype=np.uint64)])
    assert unpacked(data, len(values)) == values
    assert len(data) == packed_size(len(values)) == -(-6 * len(values) // 8) * 8
    assert not any(data[6 * len(values) :])


def test_the_primes_lie_one_behind_the_other() -> None:
    parts = [np.array([1, 2, 3], dtype=np.uint64), np.array([2**46 - 1, 0, 7], dtype=np.uint64)]
    assert unpacked(pack(parts), 6) == [1, 2, 3, 2**46 - 1, 0, 7]


# The sum of uploads


@pytest.mark.parametrize("uploads", [1, 2, 63, 64, 65, 127, 128, 200])
@pytest.mark.parametrize("per_prime", [1, 2, 3, 8])
def test_the_sum_of_uploads_is_that_of_python_integers(uploads: int, per_prime: int) -> None:
    values = [[residues(RNG, prime, per_prime) for prime in PRIMES] for _ in range(uploads)]
    total = UploadSum(per_prime * len(PRIMES))
    for each in values:
        total.add(pack(each), "a party")
    expected = [
        [sum(int(each[index][place]) for each in values) % prime for place in range(per_prime)]
        for index, prime in enumerate(PRIMES)
    ]
    assert [found.tolist() for found in total.totals(PRIMES)] == expected


@pytest.mark.parametrize("uploads", [64, 1000])
def test_the_largest_values_do_not_overflow(uploads: int) -> None:
    total = UploadSum(2 * len(PRIMES))
    largest = pack([np.array([prime - 1, 2**48 - 1], dtype=np.uint64) for prime in PRIMES])
    for _ in range(uploads):
        total.add(largest, "a party")
    expected = [[uploads * (prime - 1) % prime, uploads * (2**48 - 1) % prime] for prime in PRIMES]
    assert [found.tolist() for found in total.totals(PRIMES)] == expected


def test_nothing_added_is_zero_and_asking_twice_changes_nothing() -> None:
    total = UploadSum(len(PRIMES))
    assert [found.tolist() for found in total.totals(PRIMES)] == [[0]] * 3
    total.add(pack([np.array([5], dtype=np.uint64)] * 3), "a party")
    assert total.totals(PRIMES) == total.totals(PRIMES) == [np.array([5])] * 3


def test_a_view_of_received_bytes_is_added_like_bytes() -> None:
    total = UploadSum(len(PRIMES))
    total.add(memoryview(pack([np.array([5], dtype=np.uint64)] * 3)), "a party")  # type: ignore[arg-type]
    assert total.totals(PRIMES) == [np.array([5])] * 3


@pytest.mark.parametrize("size", [0, 23, 25, 32])
def test_an_upload_of_another_size_is_refused_and_not_added(size: int) -> None:
    total = UploadSum(4)
    assert packed_size(4) == 24
    with pytest.raises(RemoteProtocolError, match=f"sent {size} bytes of padded counts instead of 24"):
        total.add(bytes(b"\1" * size), "a party")
    assert [found.tolist() for found in total.totals(PRIMES[:2])] == [[0, 0]] * 2


def test_ten_thousand_uploads_need_no_more_memory_than_two_blocks_of_them() -> None:
    upload = pack([residues(RNG, prime, 200) for prime in PRIMES])
    assert peak_of(upload, 10_000) <= peak_of(upload, 128) + 32 * len(upload)


def test_the_measure_of_memory_would_notice_uploads_that_are_kept() -> None:
    upload = pack([residues(RNG, prime, 200) for prime in PRIMES])
    assert peak_of(upload, 256, keep=True) > peak_of(upload, 128) + 32 * len(upload)


def peak_of(upload: bytes, times: int, *, keep: bool = False) -> int:
    """The most memory that is in use at once, in bytes, over what was there before."""
    tracemalloc.start()
    try:
        total = UploadSum(200 * len(PRIMES))
        kept = []
        for _ in range(times):
            arrived = bytes(bytearray(upload))
            total.add(arrived, "a party")
            if keep:
                kept.append(arrived)
        total.totals(PRIMES)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Pads


def test_no_two_pads_are_alike() -> None:
    rounds = [a_round("padded", 3), a_round("padded", 3), a_round("padded-verified", 3)]
    rounds.append(again(rounds[0], id=rounds[0].id, study=b"another"))
    seeds = [SEED, Secret(bytes(32))]
    drawn = [
        pad(pad_seed(seed, party), round_, nonce, 24).tobytes()
        for seed in seeds
        for round_ in rounds
        for party in ("hospital-1", "hospital-2")
        for nonce in (bytes(16), bytes(15) + b"1")
    ]
    assert len(set(drawn)) == len(drawn)
    # Not even half of a value occurs again, in whatever place.
    assert len({value for each in drawn for value in np.frombuffer(each, dtype=np.uint64)}) == 48 * len(drawn)


def test_everyone_with_the_seed_derives_the_same_pad_and_a_longer_one_goes_on_where_it_ends() -> None:
    round_ = a_round("padded", 3)
    again_ = pad(Secret(bytes(range(32))), round_, bytes(16), 8)
    assert pad(SEED, round_, bytes(16), 9).tolist()[:32] == again_.tolist()


@given(st.lists(st.integers(0, 2**128 - 1), min_size=1, max_size=6), st.sampled_from([3, 101, *PRIMES]))
def test_limbs_are_reduced_as_the_integers_that_they_are(values: list[int], prime: int) -> None:
    data = b"".join(value.to_bytes(16, "little") for value in values)
    limbs = np.frombuffer(data, dtype="<u4").astype(np.uint64)
    for found in (
        *padding.reduced(limbs, 32, [prime]),
        *padding.reduced(np.frombuffer(data, dtype="<u8"), 64, [prime]),
    ):
        assert found.tolist() == [value % prime for value in values]
    # So many sums of limbs do not overflow either.
    (found,) = padding.reduced(limbs * np.uint64(2**32 - 1), 32, [prime])
    assert found.tolist() == [value * (2**32 - 1) % prime for value in values]


@pytest.mark.parametrize("modulus", [3, 97, 2**16 + 1])
def test_pads_are_uniform(modulus: int) -> None:
    """For a small modulus a sum modulo a power of two would show at once."""
    count = 200_000
    (drawn,) = padding.reduced(pad(SEED, a_round("padded", 3), bytes(16), count).view("<u8"), 64, [modulus])
    assert int(drawn.max()) < modulus
    bins = min(modulus, 97)
    observed = np.bincount(drawn.astype(np.int64) % bins, minlength=bins)
    sizes = np.array([len(range(residue, modulus, bins)) for residue in range(bins)]) * count / modulus
    chi_square = float((((observed - sizes) ** 2) / sizes).sum())
    assert abs(chi_square - (bins - 1)) < 6 * np.sqrt(2 * (bins - 1))


def test_a_pad_hides_every_value_and_comes_off_again() -> None:
    round_ = a_round("padded", 3)
    hidden = [np.array([0, 1, prime - 1, 5], dtype=np.uint64) for prime in PRIMES]
    total = UploadSum(4 * len(PRIMES))
    leaders, nonces = PartySecrets(seed=SEED, pad_seed=SEED, master=SEED), bytes(range(48))
    for party, nonce in zip(round_.parties, padding.split_nonces(nonces, round_.parties), strict=True):
        own = PartySecrets(seed=SEED, pad_seed=leaders.pad_seed_of(party))
        total.add(padding.party_pad(round_, own, nonce, PRIMES, hidden), party)
        with pytest.raises(LocalProtocolError, match="no master"):
            padding.leader_pad_sums(round_, own, round_.parties, nonces, PRIMES, 4)
    with pytest.raises(RemoteProtocolError, match="one nonce for each"):
        padding.leader_pad_sums(round_, leaders, round_.parties, nonces[1:], PRIMES, 4)
    sums = padding.leader_pad_sums(round_, leaders, round_.parties, nonces, PRIMES, 4)
    for prime, padded_sum, pads, values in zip(PRIMES, total.totals(PRIMES), sums, hidden, strict=True):
        difference = field.subtract(padded_sum, pads, prime)
        assert difference.tolist() == [3 * int(value) % prime for value in values]
        assert not set(padded_sum.tolist()) & set(difference.tolist())


# Integers under pads


def hidden_and_summed(bits: int, counts: list[list[int]]) -> list[list[int]]:
    """V modulo each prime, from uploads of these counts, a cover, and the pads of whoever made them."""
    round_ = a_round("padded", len(counts))
    leaders, nonces = PartySecrets(seed=SEED, pad_seed=SEED, master=SEED), RNG.draw(16 * len(counts))
    total = IntegerSum(len(counts[0]), bits)
    for party, nonce, own in zip(round_.parties, padding.split_nonces(nonces, round_.parties), counts, strict=True):
        secrets = PartySecrets(seed=SEED, pad_seed=leaders.pad_seed_of(party))
        upload = padding.party_pad_integers(round_, secrets, nonce, bits, np.array(own, dtype=np.int64))
        assert len(upload) == bits // 8 * len(own)
        total.add(upload, party)
    cover = RNG.draw(bits // 8 * len(counts[0]))
    covers, covered = IntegerSum(len(counts[0]), bits), total.covered(cover, PRIMES)
    covers.add(cover, "the aggregator")
    assert len(covered) == len(cover)
    shares = padding.leader_uncover(round_, leaders, round_.parties, nonces, PRIMES, covered, bits)
    return [
        field.subtract(share, own, prime).tolist()
        for share, own, prime in zip(shares, covers.totals(PRIMES), PRIMES, strict=True)
    ]


@given(
    st.sampled_from([96, 128, 160]),
    st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(st.integers(-(2**30), 2**30), min_size=width, max_size=width), min_size=3, max_size=5
        )
    ),
)
@settings(max_examples=50, deadline=None)
def test_integers_come_out_of_their_pads_as_they_went_in(bits: int, counts: list[list[int]]) -> None:
    """Negative ones as well; a wrong one comes once in 2^60."""
    sums = [sum(column) for column in zip(*counts, strict=True)]
    assert hidden_and_summed(bits, counts) == [[value % prime for value in sums] for prime in PRIMES]


def test_an_upload_is_the_count_plus_the_pad_modulo_a_power_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    pads = [0, 2**96 - 1, 2**64 - 1, 2**32 - 5, 12345]
    counts = [7, 1, 1, 2**40 + 5, -12346]
    limbs = np.frombuffer(b"".join(value.to_bytes(12, "little") for value in pads), dtype="<u4")
    monkeypatch.setattr(padding, "pad", lambda *_: limbs)
    secrets = PartySecrets(seed=SEED, pad_seed=SEED)
    upload = padding.party_pad_integers(a_round("padded", 3), secrets, bytes(16), 96, np.array(counts))
    expected = [(x + y) % 2**96 for x, y in zip(counts, pads, strict=True)]
    assert [int.from_bytes(upload[start : start + 12], "little") for start in range(0, 60, 12)] == expected


@pytest.mark.parametrize("bits", [32, 96, 128])
@pytest.mark.parametrize("uploads", [1, 2, 64, 65, 200])
def test_integers_are_added_modulo_their_power_of_two(bits: int, uploads: int) -> None:
    values = [[int.from_bytes(RNG.draw(bits // 8), "little") for _ in range(5)] for _ in range(uploads)]
    values[0] = [2**bits - 1] * 5
    total = IntegerSum(5, bits)
    for own in values:
        total.add(b"".join(value.to_bytes(bits // 8, "little") for value in own), "a party")
    sums = [sum(column) % 2**bits for column in zip(*values, strict=True)]
    assert [found.tolist() for found in total.totals(PRIMES)] == [[each % prime for each in sums] for prime in PRIMES]


def test_a_cover_lies_on_the_sum_as_another_upload_would() -> None:
    for total, primes in ((IntegerSum(5, 96), PRIMES), (UploadSum(5 * len(PRIMES)), PRIMES)):
        uploads = [
            RNG.draw(60) if isinstance(total, IntegerSum) else pack([residues(RNG, prime, 5) for prime in PRIMES])
            for _ in range(3)
        ]
        for upload in uploads[:2]:
            total.add(upload, "a party")
        before, covered = total.totals(primes), total.covered(uploads[2], primes)
        # The sum itself is as it was.
        assert [each.tolist() for each in total.totals(primes)] == [each.tolist() for each in before]
        total.add(uploads[2], "a party")
        assert covered == total.covered(bytes(len(covered)), primes)
        assert covered != uploads[2]


def test_pads_have_fifty_bits_more_than_all_values_of_a_round_together() -> None:
    for bits, values in ((1, 1), (25, 198), (25, 1998), (29, 240_000), (66, 7), (90, 1 << 20)):
        wide = pad_bits(bits, values)
        assert wide % 32 == 0
        # The probability that any of the values steps over the end.
        assert values * 2**bits <= 2 ** (wide - 50)
        assert values * 2**bits > 2 ** (wide - 50 - 34)


def test_narrow_pads_would_give_wrong_sums() -> None:
    """Half of 2^32 steps over the end of 32 bits every other time."""
    right = wrong = 0
    for found in zip(*hidden_and_summed(32, [[2**30] * 200, [2**30] * 200, [0] * 200]), strict=True):
        right += found == tuple(2**31 % prime for prime in PRIMES)
        wrong += found == tuple((2**31 - 2**32) % prime for prime in PRIMES)
    assert right + wrong == 200
    assert min(right, wrong) > 50


# The slots


SHAPES = st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=3), min_size=1, max_size=6)


def planned(shape: list[list[int]], slots: int) -> SlotPlan:
    """A plan whose groups have stretches of these lengths."""
    bounds = iter(pairwise(np.cumsum([0, *(length for group in shape for length in group)]).tolist()))
    return SlotPlan.of([[np.arange(*next(bounds)) for _ in group] for group in shape], slots)


@given(SHAPES, st.integers(3, 200))
@settings(max_examples=200)
def test_sheets_are_filled_one_after_the_other(shape: list[list[int]], slots: int) -> None:
    plan = planned(shape, slots)
    lengths = [length for group in shape for length in group]
    products = sum(lengths)
    assert plan.source.tolist() == list(range(products))
    assert plan.ends == tuple(np.cumsum([sum(group) for group in shape]))
    needed = 2 * products + len(lengths)
    left, right, stretches = np.split(np.arange(needed, dtype=np.uint64), [products, 2 * products])
    sheets = plan.lay(left, stretches, right)
    assert [len(sheet) for sheet in sheets] == plan.ciphertexts
    assert len(sheets) == plan.sheets
    # Everything is there, once, and no ciphertext has more than it holds.
    assert sorted(np.concatenate([data for sheet in sheets for data in sheet]).tolist()) == list(range(needed))
    assert max(len(data) for sheet in sheets for data in sheet) <= slots
    if needed <= slots:
        assert plan.ciphertexts == [1]
        assert plan.used == needed
    else:
        # A right factor lies on its left one.
        for sheet in sheets:
            if len(sheet) == 2:
                upper, lower = sheet
                assert (lower - upper[: len(lower)] == products).all()


@given(SHAPES, st.integers(3, 200), st.data())
@settings(max_examples=200)
def test_sums_go_by_groups_as_products_do(shape: list[list[int]], slots: int, data: st.DataObject) -> None:
    """Left and right factors, and what is in the slots of stretches, group by group, folded or not."""
    plan, prime = planned(shape, slots), 97
    count = len(plan.source)
    numbers = st.lists(st.integers(0, prime - 1), min_size=count, max_size=count)
    left, right = (np.array(data.draw(numbers), dtype=np.uint64) for _ in range(2))
    weights = np.arange(1, len(plan.stretches) + 1, dtype=np.uint64)
    each, weight = zip(left.tolist(), right.tolist(), strict=True), iter(weights.tolist())
    products, sums = [], []
    for group in shape:
        pairs = [(next(weight), [next(each) for _ in range(length)]) for length in group]
        products.append(sum(w * a * b for w, some in pairs for a, b in some) % prime)
        sums.append(sum(w + sum(a + b for a, b in some) for w, some in pairs) % prime)
    weighted = field.multiply(plan.spread(weights), left, prime)
    assert plan.by_group(plan.dots(weighted, right, prime), prime).tolist() == products
    slots_of_result = np.concatenate(
        [
            np.sum([np.pad(part, (0, len(sheet[0]) - len(part))) for part in sheet], axis=0)
            for sheet in plan.lay(left, weights, right)
        ]
    ) % np.uint64(prime)
    assert plan.sums(slots_of_result, prime).tolist() == sums
    slots_of_result[plan.corrected] += np.uint64(5)
    assert plan.sums(slots_of_result, prime).tolist() == [(total + 5) % prime for total in sums]


def test_a_sum_that_could_overflow_is_refused() -> None:
    longest = np.arange(padding.MOST_PRODUCTS)
    plan = SlotPlan.of([[longest]], 8192)
    full = np.full(plan.used, PRIMES[0] - 1, dtype=np.uint64)
    assert plan.sums(full, PRIMES[0]).tolist() == [-plan.used % PRIMES[0]]
    with pytest.raises(CapacityError, match="fewer decision points"):
        SlotPlan.of([[np.arange(len(longest) + 1)]], 8192)


def test_the_primes_are_apart_and_large() -> None:
    assert len(set(PRIMES)) == 3
    assert prod(PRIMES) > 2**137
