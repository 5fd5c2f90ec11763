"""Writes protocols.json: what parties derive and upload, answers that must be accepted, and answers that must not.

Everything is computed in Python integers and floats, from the specification and without the package; only the streams
come from make_derive.py beside it. Run, in the folder tests: python -m vectors.make_protocols
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

from vectors.make_derive import Label, expanded, hkdf, key_stream, labelled

SEED = bytes(range(100, 132))
MASTER = bytes(range(200, 232))
DIGEST = bytes(range(32))
PARTIES = ["north", "east", "west"]
NONCES = {party: bytes([number] * 16) for number, party in enumerate(PARTIES)}
PRIMES = [70368743669761, 70368743587841, 70368743489537]
# Of an exact release of integers that travel under pads of their own.
WIDE_PRIMES = [1125899906826241, 1125899906629633]

# N = 4 decision points: T^1 … T^3, P on the left; F^1 … F^3, 2Q on the right.
LEFT = {"north": [3, 7, 9, 5], "east": [0, 0, 0, 0], "west": [2, 10, 20, 12]}
RIGHT = {"north": [1, 0, 2, 6], "east": [4, 4, 1, 18], "west": [0, 1, 1, 4]}
TERMS = 4
SPLITS = 3
# One run over each of four primes, or three over each of three.
VERIFIED = {1: [*PRIMES, 70368743374849], 3: PRIMES}

# A study as a list of its fields, in their order: name; grid (kind, points, scores, listed points); metrics; models;
# classes; column of groups; minimum of a group; interval; resamples; by cluster; range of targets; release; protocol;
# options; precision; minimum cohort; bound on samples; least rows; least and most rows of a party; rounds; seconds
# between them; last day; who learns; what is revealed; who checks; who leads; epsilon; delta; how many collude; most
# rows of a cluster; groups.
STUDIES: dict[str, list[Any]] = {
    "an AUC": [
        "", ["even", 1000, "probability", []], ["auc"], [""], [], None, 20, None, 0, False, None, "ratios",
        "padded", [], 1e-4, 3, 1 << 24, None, 2, None, 10, None, None, "members", "ratios", [], [],
        None, None, 1, None, [],
    ],
    "everything": [
        "sepsis-2026", ["logit", 300, "logit", []], ["auc", "recall@0.3"], ["old", "new"], ["a", "b", "ü"],
        "sex", 40, 0.95, 500, True, [-1.5, 1e6], "ratios", "padded-verified", [["runs", 3]], None, 5, 1 << 33,
        1000, 20, 2_000_000, 12, 604800, "2031-12-31", "members and aggregator", "counts", ["north", "west"],
        ["east"], None, None, 1, None, ["F", "M"],
    ],
    "a curve": [
        "", ["explicit", 3, "any", [4.0, 0.0, -4.0]], ["auc"], ["one model"], [], None, 20, None, 0, False, None,
        "curve", "padded", [], 1e-4, 3, 1000, None, 2, None, 10, None, None, "members", "ratios", [], [],
        None, None, 1, None, [],
    ],
    "a noisy curve": [
        "", ["wide", 41, "probability", []], ["auc", "recall@0.3"], [""], [], "sex", 20, 0.95, 0, True, None,
        "noisy-curve", "padded", [], 1e-4, 12, 1 << 24, 1000, 2, None, 10, None, None, "members", "ratios", [], [],
        1.5, 1e-6, 2, 5, ["F", "M"],
    ],
}  # fmt: skip

# A map that gives two numbers of three: the first, and twice the sum of all less the second. With C_j the sum of the
# first j numbers, these are C_1 and C_1 − C_2 + 2·C_3; so the entries of the rows end at 1 and 4.
MAP = [[1, 4], [1, 1, 2, 3], [1, 1, -1, 2]]
# The sum of all, and nothing, which is zero times C_0.
TOTAL = [[1, 2], [3, 0], [1, 0]]

# A round as a list of its fields: id; hash of the study; protocol; engine; parties; leader; groups; batch; sums; slices
# of them; precision; minimum cohort; bound on samples; options; checkers; noise (kind, scale, honest parties). A batch
# is its columns, bits, slices, lines, readings, columns of the data where they have more, groups, and models; a reading
# is its form (products above and below, magnitude, proper, scale in bits, most), both maps, which lines, whether of
# pairs, and whether its denominator is of labels alone.
ROUNDS: dict[str, list[Any]] = {
    "an AUC": [
        "00" * 16, "an AUC", "padded", "openfhe", PARTIES, "east", [],
        [3, 25, 1, 1, [[[1, 1, 1 << 47, True, 0, 0], MAP, TOTAL, "every", False, True]], 0, 0, 1],
        0, 1, 1e-4, 3, 1 << 24, [], [], None,
    ],
    "two groups and a long bound": [
        "5f" * 16, "everything", "padded-verified", "seal", PARTIES, "north", ["F", "M"],
        [
            3, 38, 18, 501,
            [
                [[1, 1, 1 << 61, True, 4, 0], MAP, MAP, "data", False, False],
                [[1, 1, 1 << 61, True, 4, 0], MAP, TOTAL, "resamples", False, False],
                [[1, 1, 7, False, 0, 5], TOTAL, MAP, "data", True, True],
            ],
            7, 2, 3,
        ],
        0, 18, None, 5, 1 << 33, [["runs", 3]], ["north", "west"], None,
    ],
    "counts": ["0a" * 16, "a curve", "padded", "seal", PARTIES, "west", [], None, 24, 1, 1e-4, 3, 1000, [], [], None],
    "counts under noise": [
        "0c" * 16, "a noisy curve", "padded", "seal", PARTIES, "west", ["F", "M"], None, 246, 3, 1e-4, 2, 1000, [], [],
        ["laplace", 0.15, 10],
    ],
    "a choice": [
        "0b" * 16, "an AUC", "paper-semi-honest", "seal", [f"party-{number}" for number in range(20)], "party-7", [],
        [3, 25, 1, 1, [[[1, 1, 1 << 47, True, 0, 0], TOTAL, TOTAL, "every", False, False]], 0, 0, 1],
        0, 1, None, 3, 1 << 24, [["packing", "compact"]], [], None,
    ],
}  # fmt: skip


def packed_value(value: Any) -> bytes:
    """MessagePack, in the shortest form of each value (https://github.com/msgpack/msgpack/blob/master/spec.md)."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, int):
        assert 0 <= value < 1 << 64
        if value < 0x80:
            return bytes([value])
        size = next(size for size in (1, 2, 4, 8) if value < 1 << 8 * size)
        return {1: b"\xcc", 2: b"\xcd", 4: b"\xce", 8: b"\xcf"}[size] + value.to_bytes(size, "big")
    if isinstance(value, bytes):
        assert len(value) < 256
        return b"\xc4" + bytes([len(value)]) + value
    if isinstance(value, str):
        data = value.encode()
        assert len(data) < 256
        return (bytes([0xA0 | len(data)]) if len(data) < 32 else b"\xd9" + bytes([len(data)])) + data
    assert len(value) < 65536
    head = bytes([0x90 | len(value)]) if len(value) < 16 else b"\xdc" + len(value).to_bytes(2, "big")
    return head + b"".join(packed_value(each) for each in value)


def study_bytes(name: str) -> bytes:
    """A study as it travels: the magic word, the version, and its type's name before its fields."""
    return packed_value(["FHEV", 1, ["Study", *STUDIES[name]]])


def study_hash(name: str) -> bytes:
    return sha256(b"fheval/1 study\0" + study_bytes(name)).digest()


def round_digest(name: str) -> bytes:
    fields = list(ROUNDS[name])
    fields[1] = study_hash(fields[1])
    fields[7] = None if fields[7] is None else batch_of(fields[7])
    return sha256(b"fheval/1 round\0" + packed_value(fields)).digest()


def batch_of(fields: list[Any]) -> list[Any]:
    """A batch as it is hashed: of a map the ends of rows, the places and the coefficients, eight bytes each."""
    *shape, readings, first, groups, models = fields
    return [
        *shape,
        [
            [form, *([_words(part) for part in each] for each in (left, right)), *of]
            for form, left, right, *of in readings
        ],
        first,
        groups,
        models,
    ]


def _words(values: list[int]) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


class Stream:
    """The key stream of one usage and list of labels, from its beginning."""

    def __init__(self, usage: str, *labels: Label) -> None:
        self._key = hkdf(SEED, labelled(usage, *labels))
        self._used = 0

    def draw(self, count: int) -> bytes:
        data = key_stream(self._key, self._used + count)[self._used :]
        self._used += count
        return data

    def below(self, bound: int) -> int:
        """As many whole bytes as the bound needs, the surplus bits cleared, drawn again until below it."""
        bits = (bound - 1).bit_length()
        while True:
            value = int.from_bytes(self.draw((bits + 7) // 8), "little") & ((1 << bits) - 1)
            if value < bound:
                return value

    def words(self, count: int) -> list[int]:
        data = self.draw(8 * count)
        return [int.from_bytes(data[8 * index : 8 * index + 8], "little") for index in range(count)]

    def residues(self, modulus: int, count: int) -> list[int]:
        """Words with the surplus bits cleared, those that are too large thrown away, until there are enough."""
        mask = (1 << (modulus - 1).bit_length()) - 1
        kept: list[int] = []
        while len(kept) < count:
            kept += [word & mask for word in self.words(count - len(kept)) if word & mask < modulus]
        return kept

    def log_uniform(self, low: int, high: int) -> float:
        """An exponent, then mantissas until one is kept, each with the probability 1/mantissa."""
        exponent = low + self.below(high - low)
        while True:
            mantissa = (1 << 52) + self.below(1 << 52)
            if self.below(mantissa) < 1 << 52:
                return math.ldexp(mantissa, exponent - 52)


# paper-malicious


def common(run: int) -> dict[str, Any]:
    """r_3 … r_8, the bits b and the permutation π of one run."""
    stream = Stream("paper-malicious/common", DIGEST, run)
    r = [stream.log_uniform(-2, 2) for _ in range(6)]
    data = stream.draw((TERMS + 7) // 8)
    b = [bool(data[index // 8] >> (7 - index % 8) & 1) for index in range(TERMS)]
    keys = stream.words(TERMS * SPLITS)
    return {"r": r, "split_left": b, "order": sorted(range(len(keys)), key=keys.__getitem__)}


def masks(run: int, side: str) -> dict[str, list[int]]:
    """Integers in ±2^16 for all but the last party, whose masks make the sum zero; one more than there are terms."""
    drawn = {}
    for party in PARTIES[:-1]:
        words = Stream("paper-malicious/mask", DIGEST, run, side, party).words(TERMS + 1)
        drawn[party] = [round(((word >> 11) * 2.0**-52 - 1) * 2**16) for word in words]
    drawn[PARTIES[-1]] = [-sum(column) for column in zip(*drawn.values(), strict=True)]
    return drawn


def sums() -> tuple[int, int]:
    """num and den over all parties."""
    left = [sum(LEFT[party][index] for party in PARTIES) for index in range(TERMS)]
    right = [sum(RIGHT[party][index] for party in PARTIES) for index in range(TERMS)]
    products = [x * y for x, y in zip(left, right, strict=True)]
    return sum(products[:-1]), products[-1]


def blinded(run: int, num: float, den: float, c: float) -> list[float]:
    """X = c·(r_0·num + r_1·den) and Y = c·r_2·den."""
    r3, r4, r5, r6, r7, r8 = common(run)["r"]
    return [c * (r3 * r4 * num + r5 * r6 * den), c * r7 * r8 * den]


def answers_on_floats() -> Iterator[dict[str, Any]]:
    num, den = sums()
    honest = [blinded(0, num, den, 1.5), blinded(1, num, den, 40.0)]
    shift = den * 4e-6
    yield {"name": "honest", "runs": honest, "ratio": num / den}
    yield {"name": "below five decimals", "runs": [honest[0], blinded(1, num + shift, den, 40.0)], "ratio": num / den}
    shift = den * 6e-6
    yield {"name": "five decimals apart", "runs": [honest[0], blinded(1, num + shift, den, 40.0)]}
    yield {"name": "one run tampered with", "runs": [honest[0], [honest[1][0] * 1.01, honest[1][1]]]}
    yield {"name": "both runs scaled alike", "runs": [[x * 1.01, y] for x, y in honest]}
    yield {"name": "first answer given twice", "runs": [honest[0], honest[0]]}
    yield {"name": "runs swapped", "runs": honest[::-1]}
    yield {"name": "num and den swapped", "runs": [[y, x] for x, y in honest]}
    yield {"name": "constants", "runs": [[1e6, 1e6], [1e6, 1e6]]}
    yield {"name": "no denominator", "runs": [[honest[0][0] * 1e6, 0.0], [honest[1][0] * 1e6, 0.0]]}
    yield {"name": "above one", "runs": [blinded(0, 2 * den, den, 1e6), blinded(1, 2 * den, den, 1e6)]}
    yield {"name": "below zero", "runs": [blinded(0, -den, den, 1e6), blinded(1, -den, den, 1e6)]}
    yield {"name": "nothing", "runs": [[0.0, 0.0], [0.0, 0.0]], "error": "UndefinedMetric"}


# padded and padded-verified


def packed(values: list[int]) -> str:
    """Six bytes each, filled up to whole words."""
    data = b"".join(value.to_bytes(6, "little") for value in values)
    return (data + bytes(-len(data) % 8)).hex()


def pad_integers(party: str, digest: bytes, count: int, size: int) -> list[int]:
    """A party's pad: numbers of so many bytes from one stream, whose first counter is 2."""
    seed = expanded(MASTER, labelled("pad seed", party))
    data = key_stream(expanded(seed, labelled("padded/pad", digest, NONCES[party])), size * count, first=2)
    return [int.from_bytes(data[start : start + size], "little") for start in range(0, len(data), size)]


def pads(party: str, digest: bytes, primes: list[int], count: int) -> list[list[int]]:
    """A party's pad for each prime: numbers of 128 bits from one stream, the primes one behind the other."""
    numbers = pad_integers(party, digest, count * len(primes), 16)
    return [
        [number % prime for number in numbers[index * count : (index + 1) * count]]
        for index, prime in enumerate(primes)
    ]


def padded_upload(party: str) -> str:
    """Counts of 25 bits, eight of them, under pads of 96 bits: twelve bytes each."""
    pad = pad_integers(party, DIGEST, 2 * TERMS, 12)
    values = [(x + y) % (1 << 96) for x, y in zip(LEFT[party] + RIGHT[party], pad, strict=True)]
    return b"".join(value.to_bytes(12, "little") for value in values).hex()


class Maps:
    """r_3 … r_8, and u, w for the numerator's side and the denominator's, of one run over one prime."""

    def __init__(self, run: int, prime: int) -> None:
        stream = Stream("padded-verified/maps", DIGEST, run, prime, 0)
        self.prime = prime
        self.r = [1 + stream.below(prime - 1) for _ in range(6)]
        self.pairs = [self._pair(stream, length) for length in (TERMS, 1)]

    def _pair(self, stream: Stream, length: int) -> tuple[list[int], list[int]]:
        while True:
            u, w = stream.residues(self.prime, length), stream.residues(self.prime, length)
            if (1 + dot(u, w)) % self.prime:
                return u, w

    def hidden(self, left: list[int], right: list[int]) -> tuple[list[int], list[int]]:
        """(T̂, D_T) and (F̂, D_F)."""
        r3, r4, r5, r6, r7, r8 = self.r
        t = [r3 * x for x in left[:-1]] + [r5 * left[-1]]
        f = [r4 * x for x in right[:-1]] + [r6 * right[-1]]
        t_hat, f_hat = self._mixed(t, f, *self.pairs[0])
        d_t, d_f = self._mixed([r7 * left[-1]], [r8 * right[-1]], *self.pairs[1])
        return t_hat + d_t, f_hat + d_f

    def _mixed(self, t: list[int], f: list[int], u: list[int], w: list[int]) -> tuple[list[int], list[int]]:
        along, across = dot(w, t), dot(u, f) * pow(1 + dot(u, w), -1, self.prime)
        t_hat = [(x + y * along) % self.prime for x, y in zip(t, u, strict=True)]
        f_hat = [(x - y * across) % self.prime for x, y in zip(f, w, strict=True)]
        return t_hat, f_hat

    def answer(self, num: int, den: int, c: int) -> list[int]:
        """X = c·(r_3r_4·num + r_5r_6·den) and Y = c·r_7r_8·den."""
        r3, r4, r5, r6, r7, r8 = self.r
        return [c * (r3 * r4 * num + r5 * r6 * den) % self.prime, c * r7 * r8 * den % self.prime]


def dot(a: list[int], b: list[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def verified_upload(party: str, primes: list[int], runs: int) -> str:
    values = []
    for prime, pad in zip(primes, pads(party, DIGEST, primes, 2 * runs * (TERMS + 1)), strict=True):
        lefts: list[int] = []
        rights: list[int] = []
        for run in range(runs):
            left, right = Maps(run, prime).hidden(LEFT[party], RIGHT[party])
            lefts += left
            rights += right
        values += [(x + y) % prime for x, y in zip(lefts + rights, pad, strict=True)]
    return packed(values)


def answers_in_fields(primes: list[int], runs: int) -> Iterator[dict[str, Any]]:
    num, den = sums()
    last = 2 * runs - 1

    def answers(n: int, d: int) -> list[list[int]]:
        return [
            [value for run in range(runs) for value in Maps(run, prime).answer(n, d, 1 + 5 * run + prime % 97)]
            for prime in primes
        ]

    def altered(prime: int, place: int, change: int) -> list[list[int]]:
        changed = [[*each] for each in answers(num, den)]
        changed[prime][place] = (changed[prime][place] + change) % primes[prime]
        return changed

    def permuted(order: list[int]) -> list[list[int]]:
        return [[each[index] for index in order] for each in answers(num, den)]

    def doubled(first: int) -> list[list[int]]:
        """X twice as large from this prime on."""
        return [
            [2 * value % prime if index % 2 == 0 and number >= first else value for index, value in enumerate(each)]
            for number, (each, prime) in enumerate(zip(answers(num, den), primes, strict=True))
        ]

    yield {"name": "honest", "answers": answers(num, den), "ratio": written(Fraction(num, den))}
    yield {"name": "nothing scored right", "answers": answers(0, den), "ratio": written(Fraction(0))}
    yield {"name": "everything scored right", "answers": answers(den, den), "ratio": written(Fraction(1))}
    yield {"name": "X of one run and prime plus one", "answers": altered(0, 0, 1)}
    yield {"name": "Y of the last run and prime minus one", "answers": altered(len(primes) - 1, last, -1)}
    yield {"name": "X of all runs twice as large", "answers": doubled(0)}
    for first in range(1, len(primes)):
        yield {"name": f"X twice as large after {first} primes", "answers": doubled(first)}
    yield {"name": "the first prime's answer given for all", "answers": [answers(num, den)[0] for _ in primes]}
    if runs > 1:
        yield {"name": "first run's answer given for all", "answers": permuted([0, 1] * runs)}
        yield {"name": "runs swapped", "answers": permuted([2, 3, 0, 1, *range(4, 2 * runs)])}
    yield {"name": "X and Y swapped", "answers": permuted([place ^ 1 for place in range(2 * runs)])}
    yield {"name": "constants", "answers": [[7] * (2 * runs) for _ in primes]}
    yield {"name": "no denominator", "answers": [[7, 0] * runs for _ in primes]}
    yield {"name": "one run without denominator", "answers": [[*each[:last], 0] for each in answers(num, den)[:1]]
           + answers(num, den)[1:]}  # fmt: skip
    yield {"name": "above one in all runs", "answers": answers(den + 1, den)}
    yield {"name": "below zero in all runs", "answers": answers(-1, den)}
    yield {"name": "primes that tell different ratios", "answers": [answers(num, den)[0], *answers(num + 1, den)[1:]]}
    yield {"name": "nothing", "answers": [[0] * (2 * runs) for _ in primes], "error": "UndefinedMetric"}


def written(ratio: Fraction) -> list[int]:
    return [ratio.numerator, ratio.denominator]


def vectors() -> dict[str, Any]:
    """All of them; an answer without a ratio must fail, by default in the verification."""
    num, den = sums()
    return {
        "seed": SEED.hex(),
        "master": MASTER.hex(),
        "nonces": {party: nonce.hex() for party, nonce in NONCES.items()},
        "pad_seeds": {party: expanded(MASTER, labelled("pad seed", party)).hex() for party in PARTIES},
        "digest": DIGEST.hex(),
        "studies": [
            {"name": name, "fields": fields, "bytes": study_bytes(name).hex(), "hash": study_hash(name).hex()}
            for name, fields in STUDIES.items()
        ],
        "rounds": [
            {
                "name": name,
                "fields": fields,
                "digest": round_digest(name).hex(),
                "pads": {party: pads(party, round_digest(name), PRIMES[:2], 3) for party in PARTIES},
            }
            for name, fields in ROUNDS.items()
        ],
        "parties": PARTIES,
        "primes": PRIMES,
        "left": LEFT,
        "right": RIGHT,
        "num": num,
        "den": den,
        "paper-malicious": {
            "splits": SPLITS,
            "runs": [common(run) | {side: masks(run, side) for side in ("tr", "fr")} for run in range(2)],
            "answers": list(answers_on_floats()),
        },
        "padded": {"primes": WIDE_PRIMES, "uploads": {party: padded_upload(party) for party in PARTIES}},
        "padded-verified": [
            {
                "runs": runs,
                "primes": primes,
                "uploads": {party: verified_upload(party, primes, runs) for party in PARTIES},
                "answers": list(answers_in_fields(primes, runs)),
            }
            for runs, primes in VERIFIED.items()
        ],
    }


if __name__ == "__main__":
    Path(__file__).with_name("protocols.json").write_text(json.dumps(vectors(), indent=1) + "\n", encoding="utf-8")
