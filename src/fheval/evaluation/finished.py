"""A round's numbers as they are told to who has not opened its answer: finished, in the decimals of the study.

Whoever opens an answer sees every resample. Others are told what the study asks for and nothing behind it: a value, its
interval and its errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, replace
from math import isclose
from typing import Any

from fheval.errors import LocalProtocolError, RemoteProtocolError
from fheval.evaluation.curves import Curve
from fheval.evaluation.noisy_curves import curves_of
from fheval.evaluation.result import Row, all_verified, curve_fields, only_auc, privacy_of, result_rows
from fheval.protocols.base import Telling
from fheval.protocols.round import Ending, Round, Verdict
from fheval.study import Study
from fheval.wire import Message, decode, encode

# Two machines finish the same ratios to within this: quantiles and means are computed in floating point.
_ALIKE = 1e-9

_LENGTH_BYTES = 4
_FIXED_BYTES = 128
# Names of fields, eight numbers, and two sentences of up to 200 letters each.
_ROW_BYTES = 640


class Finished(Message, frozen=True, kw_only=True):
    """What a round came to: its numbers, or the counts of its curves, and what stands behind them."""

    ending: Ending
    rows: tuple[Row, ...] = ()
    counts: tuple[int, ...] = ()
    parties: int = 0
    verified: bool | None = None
    soundness_bits: float | None = None
    hiding_bits: int | None = None

    def agrees_with(self, other: Finished) -> bool:
        """Whether two members have found the same."""
        mine, others = _leaves(self), _leaves(other)
        return len(mine) == len(others) and all(map(_alike, mine, others))

    def to_dict(self, study: Study, groups: Sequence[str] = ()) -> dict[str, Any]:
        """The fields of the JSON."""
        content: dict[str, Any] = {
            "verified": self.verified,
            "soundness_bits": self.soundness_bits,
            "hiding_bits": self.hiding_bits,
            "results": [row.to_dict() for row in self.rows],
        }
        if study.interval is not None:
            content["confidence"] = study.interval
        if self.counts:
            content["curves"] = [curve_fields(each) for each in self.curves(study, groups)]
        privacy = privacy_of(study, self.parties)
        if privacy is not None and self.counts:
            content["privacy"] = asdict(privacy)
        auc = only_auc(self.rows)
        return content if auc is None else {**content, "auc": auc.value, "binning": auc.binning}

    def curves(self, study: Study, groups: Sequence[str] = ()) -> list[Curve]:
        return curves_of(study, groups, self.counts, self.parties)


def finish(study: Study, verdict: Verdict) -> Finished:
    """The numbers of a verdict; none of a round that released nothing."""
    if verdict.numbers:
        return _read(verdict.numbers)
    if verdict.ending is not Ending.RELEASED:
        return Finished(ending=verdict.ending)
    rows = result_rows(study, verdict)
    return Finished(
        ending=verdict.ending,
        rows=tuple(rows),
        counts=verdict.counts,
        parties=len(verdict.roster),
        verified=all_verified(verdict, rows),
        soundness_bits=verdict.soundness_bits,
        hiding_bits=verdict.hiding_bits,
    )


@dataclass(frozen=True, slots=True)
class FinishedTelling(Telling):
    """Tells the finished numbers of a round in place of its ratios, in a length that depends on the study alone."""

    study: Study
    round: Round

    def finished(self, verdict: Verdict) -> Verdict:
        told = encode(finish(self.study, verdict))
        room = self._most_bytes()
        if len(told) > room:
            raise LocalProtocolError(f"Finished numbers take {len(told)} bytes, and have room for {room}.")
        return replace(verdict, ratios=(), numbers=len(told).to_bytes(_LENGTH_BYTES, "big") + told.ljust(room, b"\0"))

    def same(self, one: Verdict, other: Verdict) -> bool:
        if not (one.numbers and other.numbers):
            return False
        both = replace(one, numbers=b"") == replace(other, numbers=b"")
        return both and _read(one.numbers).agrees_with(_read(other.numbers))

    def _most_bytes(self) -> int:
        """What all numbers take, averages and differences among them, with their names and the longest sentences."""
        study, groups = self.study, self.round.groups
        models = len(study.models) * (len(study.models) + 1) // 2
        pairs = len(groups) * (len(groups) - 1) // 2
        rows = len(study.specs) * models * (len(study.classes) + 1) * max(len(groups) + 1, pairs)
        names = (*map(str, study.specs), *study.models, *study.classes, *groups, study.group_column or "")
        return _FIXED_BYTES + rows * (_ROW_BYTES + 5 * max(len(name.encode()) for name in names))


def telling(study: Study, round_: Round) -> Telling:
    """How a member of a round tells the others what it found: with resamples, without them."""
    return FinishedTelling(study, round_) if study.replicates else Telling()


def _read(numbers: bytes) -> Finished:
    """What a leader has written; where that makes no sense there are no numbers."""
    length = int.from_bytes(numbers[:_LENGTH_BYTES], "big")
    try:
        return decode(numbers[_LENGTH_BYTES:][:length], Finished, sender="leader")
    except RemoteProtocolError:
        return Finished(ending=Ending.REFUSED)


def _leaves(told: Finished) -> list[Any]:
    rest = [getattr(told, name) for name in told.__struct_fields__ if name != "rows"]
    return [*rest, *(value for row in told.rows for value in astuple(row))]


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=_ALIKE, abs_tol=_ALIKE)
    return bool(one == other)
