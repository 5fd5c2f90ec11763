"""A round, what it asks for, what its parties share, and what it comes to: the nouns that all protocols have in common.

A party counts a table of integers, x. A metric is asked for as a ratio form, num/den, each a sum of products, whose
left and right factors are public linear maps of one line of the table. Summed over the parties the table is X, and

    L = left map of X      R = right map of X      num = Σ_{i < numerator} L_i·R_i      den = Σ_{numerator ≤ i} L_i·R_i.

Behind its last number every line has a one, so that a ratio of counts is a form as well: its right factors are ones.

Protocols know tables, maps and ratio forms, and nothing of metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from fractions import Fraction
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import combinations
from math import comb
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from fheval.engines import Engine, Parameters
from fheval.errors import CohortTooSmall, ConfigError, LocalProtocolError, RemoteProtocolError, UndefinedMetric
from fheval.field import LinearMap, Residues
from fheval.privacy.sampling import Noise
from fheval.secrets import Randomness, SealBroken, Secret, expand_all, new_seed, seal, unseal
from fheval.wire import Message

ROUND_ID_BYTES = 16
# Drawn for every upload: a vault whose ledger was rolled back answers a round again, and must not reuse a pad.
NONCE_BYTES = 16

AGGREGATOR = "aggregator"

# A public bound on the samples of all parties together; every protocol sizes its numbers by it.
DEFAULT_MAX_SAMPLES = 1 << 24
# Counts are integers of 64 bits with a sign, and T^n is the sum of two.
MOST_SAMPLES = 1 << 62
# Six bytes each, and as many again for each tag.
MOST_SUMS = 1 << 20
DEFAULT_MINIMUM_COHORT = 3

# The largest ratios are doubles, with up to 2^1074 below the line: 324 digits each, a sign, and msgpack's lengths.
_RATIO_BYTES = 704
# A count has at most 46 bits.
_COUNT_BYTES = 9
_FIXED_BYTES = 256

IntegerVector = npt.NDArray[np.int64]
IntegerTable = npt.NDArray[np.int64]

# What a study may set of a protocol: whole numbers and choices.
OptionValue = int | str


# Far more than any release has primes for.
MOST_SCALE_BITS = 1024


class FormError(ConfigError, ValueError):
    """A form that cannot be; also a `ValueError`, so that msgspec refuses a message that carries one."""


class Form(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """The public shape of one ratio: how many products each side has, and a bound on num and den.

    The bound is magnitude·2^scale_bits, since a message carries integers of 64 bits. Neither num nor den is negative,
    though single products may be. A ratio is `proper` when num ≤ den always holds; of others it may be known that they
    are at `most` so much, 0 where it is not.
    """

    numerator: int
    denominator: int
    magnitude: int
    proper: bool = True
    scale_bits: int = 0
    most: int = 0

    def __post_init__(self) -> None:
        if min(self.numerator, self.denominator, self.magnitude) < 1 or not 0 <= self.scale_bits <= MOST_SCALE_BITS:
            raise FormError("A ratio form has no products or no bound. Ask the sender for the round again.")

    @classmethod
    def bounded(cls, *, numerator: int, denominator: int, bound: int, proper: bool = True, most: int = 0) -> Form:
        """A form with a bound of any size, which is at least 2; a large one is rounded up.

        >>> Form.bounded(numerator=1, denominator=1, bound=2**100 - 1).bound == 2**100
        True
        """
        scale = max(0, bound.bit_length() - 62)
        magnitude = max(2, -(-bound >> scale))
        return cls(
            numerator=numerator,
            denominator=denominator,
            magnitude=magnitude,
            proper=proper,
            scale_bits=scale,
            most=most,
        )

    @property
    def bound(self) -> int:
        """What neither num nor den exceeds."""
        return self.magnitude << self.scale_bits

    @property
    def largest(self) -> int:
        """What an honest ratio does not exceed."""
        return 1 if self.proper else self.most or self.bound

    @property
    def terms(self) -> int:
        return self.numerator + self.denominator


class Denominator(msgspec.Struct, frozen=True, array_like=True):
    """Which denominator a form has: those of one kind and line are equal, the lines of a kind nearly so."""

    kind: int
    line: int = 0


class Reading(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One ratio of lines of a table: its form, and how the factors of its products follow from a line.

    It is `of` every line, of the data alone, or of their resamples alone; the latter follows a reading of the data,
    and its denominators scatter about those. A reading of `pairs` finds the lines of two groups behind one another, and
    is asked of every two groups. Where its denominator is `of_labels` alone, it is the same for all models.
    """

    form: Form
    left: LinearMap
    right: LinearMap
    of: Literal["every", "data", "resamples"] = "every"
    pairs: bool = False
    of_labels: bool = False

    @property
    def below(self) -> tuple[LinearMap, ...]:
        """The maps of its denominator."""
        rows = range(self.form.numerator, self.form.terms)
        return tuple(side[row] for row in rows for side in (self.left, self.right))

    @property
    def reach(self) -> int:
        """How long a line is at least that it reads."""
        return max(self.left.reach, self.right.reach)


class Batch(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A table that every party counts, and what is read from it.

    It has `width` columns, and for each of so many `slices` of the data one line for the data themselves and one for
    each of their resamples, `lines` in all. Where the data are counted more finely than their resamples, the lines of
    the data have `first` columns, and stand before all others. Slices are of everyone and of each of so many `groups`,
    and so on, those of the first of so many `models` before those of the next. Behind its last column every line has
    the constant one, which nobody uploads. No number of the table, summed over all parties, has more than so many
    `bits`.
    """

    width: int
    bits: int
    slices: int = 1
    lines: int = 1
    readings: tuple[Reading, ...]
    first: int = 0
    groups: int = 0
    models: int = 1

    def __post_init__(self) -> None:
        if self.first and any(each.of == "every" for each in self.readings):
            raise FormError("Lines of different lengths cannot be read alike. Ask the sender for the round again.")

    @property
    def size(self) -> int:
        """How many integers the table has."""
        return self.slices * ((self.first or self.width) + (self.lines - 1) * self.width)

    @property
    def forms(self) -> tuple[Form, ...]:
        """One for each reading and line, in this order."""
        return tuple(each.form for each in self.readings for _ in range(self.lines_read(each)))

    def lines_of(self, reading: Reading) -> range:
        """Which lines of a slice are read; the data are line 0."""
        return range(reading.of == "resamples", 1 if reading.of == "data" else self.lines)

    def sources(self, reading: Reading) -> list[tuple[int, ...]]:
        """Of which slice each line is read, or of which two."""
        if not reading.pairs:
            return [(number,) for number in range(self.slices)]
        firsts = range(0, self.slices, 1 + self.groups)
        return [(one + a, one + b) for one in firsts for a, b in combinations(range(1, 1 + self.groups), 2)]

    def lines_read(self, reading: Reading) -> int:
        """How many lines are read in all, without listing them: a description may ask for very many."""
        pairs = self.slices // (1 + self.groups) * comb(self.groups, 2)
        return (pairs if reading.pairs else self.slices) * len(self.lines_of(reading))

    @property
    def denominators(self) -> tuple[Denominator, ...]:
        """Which denominator each form has: readings with the same maps below the line have the same.

        One that is of labels alone is read from the first model's lines for all of them, so that it is the same for
        sure, whatever a party counted.
        """
        kinds: dict[tuple[tuple[LinearMap, ...], tuple[int, ...]], int] = {}
        of_resamples: dict[tuple[LinearMap, ...], tuple[LinearMap, ...]] = {}
        found = []
        for before, each in zip((None, *self.readings), self.readings, strict=False):
            below = each.below
            if each.of == "resamples" and before is not None:
                below = before.below
                if of_resamples.setdefault(below, each.below) != each.below:
                    raise LocalProtocolError("Resamples have two denominators where the data have one.")
            for where in self.sources(each):
                if each.of_labels:
                    where = tuple(one % (self.slices // self.models) for one in where)
                kind = kinds.setdefault((below, where), len(kinds))
                found += [Denominator(kind, line) for line in self.lines_of(each)]
        return tuple(found)

    @property
    def has_ones(self) -> bool:
        """Whether any factor takes the constant one."""
        return any(each.reach > self._width_for(each) for each in self.readings)

    def _width_for(self, reading: Reading) -> int:
        width = self.first or self.width if reading.of == "data" else self.width
        return 2 * width if reading.pairs else width

    def factors(self, table: IntegerTable) -> tuple[IntegerVector, IntegerVector]:
        """The left and the right factors of all products, form by form, of one party.

        Where parties bring their factors, the one comes from each of them, and num and den are so many times as large.
        """
        left, right = self._factors(table.reshape(1, -1), 1, LinearMap.of_integers)
        return left[0], right[0]

    def factors_modulo(self, tables: Residues, moduli: tuple[int, ...], *, one: int) -> tuple[Residues, Residues]:
        """The same of a sum, modulo primes, a row for each. The maps commute with sums over parties, and with pads.

        What is added up to the sum has shares of the constant `one`: 1 in one of them and 0 in the others.
        """
        return self._factors(tables, one, lambda each, lines: each.of_residues(lines, moduli))

    def _factors(self, tables: Any, one: int, apply: Callable[[LinearMap, Any], Any]) -> tuple[Any, Any]:
        factors: list[tuple[Any, Any]] = [(None, None)] * len(self.readings)
        # Without resamples all are read from the same lines, at once.
        kinds = [("data" if self.lines == 1 else each.of, each.pairs) for each in self.readings]
        for kind in dict.fromkeys(kinds):
            chosen = [number for number, each in enumerate(kinds) if each == kind]
            mine = [self.readings[number] for number in chosen]
            lines = self._lines(tables, mine[0])
            lines = np.concatenate([lines, np.full((*lines.shape[:-1], 1), one, dtype=lines.dtype)], axis=-1)
            both = apply(_stacked((*(each.left for each in mine), *(each.right for each in mine))), lines)
            # All left factors come first.
            start, behind = 0, both.shape[-1] // 2
            for number, each in zip(chosen, mine, strict=True):
                stop = start + each.form.terms
                left, right = both[..., start:stop], both[..., behind + start : behind + stop]
                if each.of_labels and self.models > 1:
                    for side in (left, right):
                        below = side.reshape(len(tables), self.models, -1, each.form.terms)[..., each.form.numerator :]
                        below[:, 1:] = below[:, :1]
                factors[number] = (left.reshape(len(tables), -1), right.reshape(len(tables), -1))
                start = stop
        lefts, rights = zip(*factors, strict=True)
        return np.concatenate(lefts, axis=1), np.concatenate(rights, axis=1)

    def _lines(self, tables: Any, reading: Reading) -> Any:
        """The lines of each table that a reading is of, one below the other; those of two groups behind one another."""
        count = len(tables)
        if not self.first:
            read = self.lines_of(reading)
            lines = tables.reshape(count, self.slices, self.lines, self.width)[:, :, read.start : read.stop]
        elif reading.of == "data":
            lines = tables[:, : self.slices * self.first].reshape(count, self.slices, 1, self.first)
        else:
            lines = tables[:, self.slices * self.first :].reshape(count, self.slices, self.lines - 1, self.width)
        if reading.pairs:
            where = np.array(self.sources(reading), dtype=np.intp).reshape(-1, 2)
            lines = np.concatenate([lines[:, where[:, 0]], lines[:, where[:, 1]]], axis=3)
        return lines.reshape(count, -1, lines.shape[3])


@lru_cache(maxsize=64)
def _stacked(maps: tuple[LinearMap, ...]) -> LinearMap:
    return LinearMap.stack(maps)


@dataclass(frozen=True, slots=True)
class Contribution:
    """One party's private table of counts, and what it declares of its groups.

    Its shape is (slices·lines, width) or, where lines have different lengths, one line of all of them.
    """

    table: IntegerTable = field(repr=False)
    declared: IntegerVector | None = field(default=None, repr=False)


class RoundCall(Message, frozen=True, kw_only=True):
    """A round as the aggregator calls it: which study, among whom, led by whom. All else follows from the study.

    `study` is the study's hash.
    """

    id: str
    study: bytes
    engine: str
    parties: tuple[str, ...]
    leader: str


@dataclass(frozen=True, kw_only=True)
class Round:
    """One attempt at a study, as every role knows it: the aggregator's call, and what follows from the study.

    `precision` is the width of the release's rounding, None for an exact release. A round has a batch of ratios or,
    where the parties consent to learn counts themselves, asks for so many `sums` of `slices`: never both. `options` are
    the protocol's own. `checkers` open the result as the leader does, if they are among the parties. All `groups` are
    counted, and those that are large enough are opened: with g of them, of each 1 + g slices of the data the first is
    of everyone. Of the `noise` on sums, if there is any, every party draws a share of its own, anew for every upload;
    it hides small groups as well, so that all are opened.
    """

    id: str
    study: bytes = b""
    protocol: str
    engine: str
    parties: tuple[str, ...]
    leader: str
    groups: tuple[str, ...] = ()
    batch: Batch | None = None
    sums: int = 0
    slices: int = 1
    precision: float | None = None
    minimum_cohort: int = DEFAULT_MINIMUM_COHORT
    max_samples: int = DEFAULT_MAX_SAMPLES
    options: tuple[tuple[str, OptionValue], ...] = ()
    checkers: tuple[str, ...] = ()
    noise: Noise | None = None

    def __post_init__(self) -> None:
        if len(set(self.parties)) != len(self.parties):
            raise ConfigError("A party is named twice in the round. Give every party its own name.")
        if self.leader not in self.parties:
            raise ConfigError(f"The leader {self.leader!r} is not a party of the round. Pick one of the parties.")
        require_terms(self.precision, self.minimum_cohort, self.max_samples)
        if self.batch is None and not 1 <= self.sums <= MOST_SUMS:
            raise ConfigError(f"A round needs at least one evaluation, and has room for {MOST_SUMS} counts.")
        if self.batch is not None and self.sums:
            raise ConfigError("A round releases ratios or counts. Ask for one of them.")
        if self.noise is not None and not self.sums:
            raise ConfigError("Noise is added to counts, and this round releases ratios.")

    @property
    def call(self) -> RoundCall:
        return RoundCall(**{name: getattr(self, name) for name in RoundCall.__struct_fields__})

    @cached_property
    def forms(self) -> tuple[Form, ...]:
        """All ratios, in the order in which they are released."""
        return () if self.batch is None else self.batch.forms

    @cached_property
    def denominators(self) -> tuple[Denominator, ...]:
        """Which denominator each of them has."""
        return () if self.batch is None else self.batch.denominators

    @property
    def bound_of_factors(self) -> int:
        """What neither num nor den exceeds where every party brings its own factors, and so its own ones."""
        ones = len(self.parties) if self.batch is not None and self.batch.has_ones else 1
        return ones * max(form.bound for form in self.forms)

    @property
    def undecided(self) -> tuple[str, ...]:
        """The groups of which it is decided in the round whether they are opened."""
        return self.groups if self.noise is None else ()

    def slices_of(self, groups: Sequence[str], slices: int) -> list[int]:
        """Which of so many slices of the data are of everyone or of one of these groups."""
        chosen = [0, *(1 + number for number, group in enumerate(self.groups) if group in groups)]
        return [first + one for first in range(0, slices, 1 + len(self.groups)) for one in chosen]

    def forms_of(self, groups: Sequence[str]) -> list[int]:
        """Which forms are read from these slices."""
        if self.batch is None:
            raise LocalProtocolError("A round of counts has no forms.")
        published = set(self.slices_of(groups, self.batch.slices))
        found: list[int] = []
        first = 0
        for each in self.batch.readings:
            lines = len(self.batch.lines_of(each))
            for where in self.batch.sources(each):
                found += range(first, first + lines) if published.issuperset(where) else ()
                first += lines
        return found

    def factors(self, own: Contribution) -> tuple[IntegerVector, IntegerVector]:
        """A party's left and right factors of all products, form by form."""
        if self.batch is None:
            raise LocalProtocolError("A round of counts has no products.")
        return self.batch.factors(own.table)

    def factors_by_form(self, own: Contribution) -> list[tuple[IntegerVector, IntegerVector]]:
        """The same, a pair for each form."""
        left, right = self.factors(own)
        ends = np.cumsum([form.terms for form in self.forms])[:-1]
        return list(zip(np.split(left, ends), np.split(right, ends), strict=True))

    @cached_property
    def digest(self) -> bytes:
        """A hash over every field, to bind messages and derived randomness to this very round.

        It covers what follows from the study as well: parties that derived different forms share no pad.
        """
        values = [getattr(self, each.name) for each in fields(self)]
        return sha256(b"fheval/1 round\0" + msgspec.msgpack.encode(values)).digest()

    def require_cohort(self, present: Sequence[str]) -> None:
        """Refuse to go on with fewer parties than the minimum cohort, or with strangers."""
        strangers = sorted(set(present) - set(self.parties))
        if strangers or len(set(present)) != len(present):
            raise RemoteProtocolError(
                f"The roster names unknown or repeated parties {strangers}. The round was aborted.",
                step="roster",
                culprit=AGGREGATOR,
            )
        self.require_parties(len(present))

    def require_parties(self, count: int) -> None:
        """Refuse to go on with fewer parties than the minimum cohort."""
        if count < self.minimum_cohort:
            raise CohortTooSmall(
                f"Only {count} parties are present and the minimum cohort is {self.minimum_cohort}. "
                "Wait for more parties and run a new round."
            )


def require_terms(precision: float | None, minimum_cohort: int, max_samples: int) -> None:
    """Refuse terms under which no round makes sense."""
    if not 1 <= minimum_cohort <= MOST_SAMPLES:
        raise ConfigError(f"The minimum cohort must be between 1 and {MOST_SAMPLES}. Use a number such as 3.")
    if precision is not None and not 0 < precision < 1:
        raise ConfigError(f"A precision of {precision} makes no sense. Use a number such as 1e-4, or exact.")
    if not 1 <= max_samples <= MOST_SAMPLES:
        raise ConfigError(f"max_samples must be between 1 and {MOST_SAMPLES}. Use what the parties really have.")


def new_round_id(rng: Randomness) -> str:
    """Draw the name of a round; it never repeats."""
    return rng.draw(ROUND_ID_BYTES).hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartySecrets:
    """What one party holds of an epoch and the aggregator lacks.

    All parties share `seed`, and each has a `pad_seed` of its own. Those who open answers have `keys`, one FHE secret
    key per parameter set. The leader has the `master`, from which all pad seeds are derived. With a committee, each of
    its members gives every party a pad seed, all of which are in `pad_seeds`, and the digest of its public keys.
    """

    seed: Secret[bytes]
    pad_seed: Secret[bytes]
    keys: tuple[Secret[bytes], ...] = ()
    master: Secret[bytes] | None = None
    pad_seeds: tuple[Secret[bytes], ...] = ()
    publics: tuple[bytes, ...] = ()

    def pad_seed_of(self, party: str) -> Secret[bytes]:
        """Leader: any party's pad seed."""
        return next(self.pad_seeds_of([party]))

    def pad_seeds_of(self, parties: Iterable[str]) -> Iterator[Secret[bytes]]:
        """Leader: the pad seed of each of these parties."""
        if self.master is None:
            raise LocalProtocolError("Other parties' pads are the leader's to derive. This party has no master.")
        return pad_seeds(self.master, parties)


def pad_seeds(master: Secret[bytes], parties: Iterable[str]) -> Iterator[Secret[bytes]]:
    """Each party's pad seed. Without the master it tells nothing about another's: HMAC is a pseudorandom function."""
    return expand_all(master, "pad seed", parties)


def pad_seed(master: Secret[bytes], party: str) -> Secret[bytes]:
    """One party's pad seed."""
    return next(pad_seeds(master, [party]))


class PublicSetup(Message, frozen=True, kw_only=True):
    """Set-up, leader to aggregator: public and evaluation keys, one entry per parameter set."""

    round: str
    sender: str
    keys: tuple[bytes, ...]


def leader_set_up(
    engine: Engine,
    round_: Round,
    parameters: Sequence[Parameters],
    rng: Randomness,
    keeper: str = "",
    *,
    hashed: bool = False,
) -> tuple[PartySecrets, PublicSetup]:
    """Set-up, leader (or `keeper`, of a committee): make the FHE keys, the common seed and the master.

    `hashed` keys have a uniform part that nobody chose: see `uniform_data`.

    These are the leader's own secrets. What the other parties get of them, sealed so that the aggregator cannot open
    it, is the protocol's matter (`Protocol.secrets_of`); the public part goes to the aggregator.
    """
    maker = keeper or round_.leader
    public_data = uniform_data(round_.id, maker) if hashed else b""
    keys = [engine.generate_keys(chosen, public_data) for chosen in parameters]
    master = new_seed(rng)
    public = PublicSetup(round=round_.id, sender=maker, keys=tuple(made.public for made in keys))
    secrets = PartySecrets(
        seed=new_seed(rng),
        pad_seed=pad_seed(master, maker),
        keys=tuple(made.secret for made in keys),
        master=master,
        publics=(public_digest(public),),
    )
    return secrets, public


def public_digest(setup: PublicSetup) -> bytes:
    """What a keeper tells every party of its public keys, under seal, so that nobody exchanges them on the way."""
    content = [setup.round, setup.sender, [sha256(key).digest() for key in setup.keys]]
    return sha256(b"fheval/1 public keys\0" + msgspec.msgpack.encode(content)).digest()


def uniform_data(round_id: str, maker: str) -> bytes:
    """What the uniform part of a keeper's encryption keys is a hash of: the round they were made in and their maker.

    Engines add the parameter set.
    """
    return msgspec.msgpack.encode(["keys", round_id, maker])


def require_keys(setup: PublicSetup, expected: int) -> None:
    """Refuse a set-up that lacks keys for some parameter set, or has too many."""
    if len(setup.keys) != expected:
        raise RemoteProtocolError(
            f"The set-up of {setup.sender} has {len(setup.keys)} public keys instead of {expected}. "
            "Ask for a new set-up.",
            step="PublicSetup",
            culprit=setup.sender,
        )


class Ending(str, Enum):
    """How a round ended for a party. The last one is never the leader's: a party's own check spoke against it."""

    RELEASED = "released"
    UNDEFINED = "undefined"
    REFUSED = "refused"
    REFUSED_BY_CHECK = "refused by check"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a party holds at the end of a round: one ratio per form or the counts, and what stands behind them.

    A ratio is None where zero over zero came back: the form's denominator is zero or, whatever `verified` says of the
    others, the aggregator withheld it. A round without any other is undefined. `counts` are there where the parties
    consented to learn them. Both are of everyone and of the `groups` that are published. Who has not opened the answer
    of a study with resamples has finished `numbers` in place of the ratios, written by whoever knows the study.
    `soundness_bits` and `hiding_bits` hold for the whole round: a wrong number is accepted with that power of one half,
    and a guess at the denominators that is wrong by s octaves is told from the truth with an advantage of at most
    s/hiding_bits. `answer` is the digest of the aggregator's answer, and `checked` says whether the holder of this
    verdict opened it itself. `error` says why there is nothing, to the opener alone.
    """

    ending: Ending = Ending.RELEASED
    roster: tuple[str, ...]
    ratios: tuple[Fraction | float | None, ...] = ()
    counts: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()
    numbers: bytes = b""
    verified: bool | None = None
    soundness_bits: float | None = None
    hiding_bits: int | None = None
    answer: bytes = b""
    checked: bool = False
    error: Exception | None = field(default=None, compare=False)

    def ratio(self, index: int = 0) -> Fraction | float:
        """The ratio of one form; `UndefinedMetric` where there is none."""
        found = self.ratios[index]
        if found is None:
            raise UndefinedMetric
        return found

    def __repr__(self) -> str:
        return f"<Verdict over {len(self.roster)} parties>"


@lru_cache
def digits_within(width: Fraction) -> int:
    """The fewest decimals whose last unit is no wider.

    >>> digits_within(Fraction(1, 1000)), digits_within(Fraction(5, 1000))
    (3, 3)
    """
    digits = 0
    while Fraction(1, 10**digits) > width:
        digits += 1
    return digits


def in_decimals(ratio: Fraction | float, digits: int) -> Fraction:
    """The nearest number of so many decimals.

    >>> in_decimals(Fraction(2, 3), 4)
    Fraction(6667, 10000)
    """
    return Fraction(round(Fraction(ratio) * 10**digits), 10**digits)


class SealedVerdict(Message, frozen=True, kw_only=True):
    """Leader to all parties: what it found, as long for a result as for none."""

    round: str
    box: bytes


class _WrittenVerdict(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A verdict with its ratios as text, "" for none: msgpack's integers have 64 bits."""

    ending: Ending
    roster: tuple[str, ...]
    ratios: tuple[str, ...]
    counts: tuple[int, ...]
    groups: tuple[str, ...]
    numbers: bytes
    verified: bool | None
    soundness_bits: float | None
    hiding_bits: int | None
    answer: bytes
    checked: bool


def verdict_to_bytes(verdict: Verdict) -> bytes:
    """Write a verdict; `verdict_from_bytes` reads it."""
    values = {name: getattr(verdict, name) for name in _WrittenVerdict.__struct_fields__}
    values["ratios"] = tuple("" if ratio is None else str(Fraction(ratio)) for ratio in verdict.ratios)
    return msgspec.msgpack.encode(_WrittenVerdict(**values))


def verdict_from_bytes(data: bytes) -> Verdict:
    """Read a verdict, or raise a `ValueError` or `ZeroDivisionError`."""
    values = msgspec.structs.asdict(msgspec.msgpack.decode(data, type=_WrittenVerdict))
    pairs = [text.partition("/") for text in values["ratios"]]
    values["ratios"] = tuple(Fraction(int(top), int(bottom or 1)) if top else None for top, _, bottom in pairs)
    return Verdict(**values)


def leader_seal(round_: Round, secrets: PartySecrets, verdict: Verdict, rng: Randomness) -> SealedVerdict:
    """Leader: seal the verdict for the parties.

    It is filled up to a length that depends on the round alone, so that the aggregator sees neither the result nor
    whether there is one. Finished numbers come with a length of that kind already.
    """
    names = sum(len(name.encode()) + 5 for name in (*round_.parties, *round_.groups))
    ratios = sum(_ratio_bytes(round_, form) * count for form, count in Counter(round_.forms).items())
    room = _FIXED_BYTES + names + (len(verdict.numbers) or ratios + _COUNT_BYTES * round_.sums)
    plain = verdict_to_bytes(verdict)
    return SealedVerdict(
        round=round_.id, box=seal(secrets.seed, "verdict", round_.digest, plain=plain, rng=rng, room=room)
    )


def _ratio_bytes(round_: Round, form: Form) -> int:
    """What a ratio takes at most, written as a fraction: a sign, two numbers, the bar, and msgpack's length."""
    if round_.precision is None:
        return _RATIO_BYTES
    digits = digits_within(Fraction(str(round_.precision)) / 10)
    return 2 * digits + len(str(form.largest)) + 8


def party_unseal(round_: Round, secrets: PartySecrets, message: SealedVerdict) -> Verdict:
    """Party: open the verdict; anything that was not sealed for this very round is refused."""
    from_this_round(round_, message.round, round_.leader, "SealedVerdict")
    try:
        told = verdict_from_bytes(unseal(secrets.seed, "verdict", round_.digest, box=message.box))
        if told.ending is Ending.REFUSED_BY_CHECK:
            raise ValueError("a leader has nothing to check")
    except (SealBroken, msgspec.DecodeError, ValueError, ZeroDivisionError):
        raise RemoteProtocolError(
            "The sealed verdict was altered or belongs to another round. Ask the leader to send it again.",
            step="SealedVerdict",
            culprit=round_.leader,
        ) from None
    # The leader opened the answer, and this party has not.
    return replace(told, checked=False)


def from_this_round(round_: Round, message_round: str, sender: str, step: str) -> None:
    """Refuse a message of another round."""
    if message_round != round_.id:
        raise RemoteProtocolError(
            f"A message from {sender} belongs to another round. The round was aborted.", step=step, culprit=sender
        )


def from_a_party(parties: Container[str], sender: str, seen: Container[str], step: str) -> None:
    """Refuse a message of a stranger, and a second one of the same party."""
    if sender not in parties:
        raise RemoteProtocolError(
            f"{sender} is not a party of this round. Its message was dropped.", step=step, culprit=sender
        )
    if sender in seen:
        raise RemoteProtocolError(
            f"{sender} sent the same step twice. The round was aborted.", step=step, culprit=sender
        )
