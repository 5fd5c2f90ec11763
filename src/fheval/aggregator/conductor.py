"""The aggregator's side of a round among vaults: whom to ask what next, whatever carries the bytes.

`conduct` is a generator. It yields an `Exchange`, the requests for one stage by member; whoever drives it sends them,
waits as long as it likes, and gives back the replies that came, by member. Whoever is missing has dropped out. A leader
who does not answer is replaced, in a new round with a new id. It ends with a `Report`, in which there is no result,
unless the study says that the aggregator learns it. `drive` is the loop for a transport that can be called.

    report = drive(conduct(study, members, policy, engine, rng), exchange_over_my_transport)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass

from fheval.aggregator.owed import OwedFile
from fheval.aggregator.round_in_play import EpochKeys, Exchange, Replies, RoundInPlay, Told
from fheval.consortium import Policy
from fheval.engines import Engine
from fheval.errors import CohortTooSmall, TransportError
from fheval.party.rosters import too_close
from fheval.protocols import PROTOCOLS
from fheval.protocols.base import RoundFailed, Stage
from fheval.protocols.round import Round
from fheval.secrets import Randomness, integer_below
from fheval.study import Study

DEFAULT_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One round: how far it came. `failure` is None for the one that succeeded.

    One that is `void` has cost no release, since nobody will ever open it; otherwise the parties count it as one.
    """

    round: str
    leader: str
    parties: tuple[str, ...]
    failure: str | None = None
    void: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the aggregator knows at the end: who took part and who confirmed.

    What came out is among it only where the study lets the aggregator learn it.
    """

    round: Round
    roster: tuple[str, ...]
    dropped: tuple[str, ...]
    confirmed: tuple[str, ...]
    attempts: tuple[Attempt, ...]
    keys: EpochKeys
    told: Told | None = None


Conducting = Generator[Exchange, Replies, Report]


def drive(conducting: Conducting, exchange: Callable[[Exchange], Replies]) -> Report:
    """Send each exchange with `exchange`, which returns the replies that came in time, and give the report."""
    try:
        asked = next(conducting)
        while True:
            asked = conducting.send(exchange(asked))
    except StopIteration as done:
        report: Report = done.value
        return report


def conduct(
    study: Study,
    members: Sequence[str],
    policy: Policy,
    engine: Engine,
    rng: Randomness,
    *,
    keys: EpochKeys | None = None,
    attempts: int = DEFAULT_ATTEMPTS,
    earlier: Collection[Collection[str]] = (),
    owed: OwedFile | None = None,
    opening: Callable[[tuple[str, ...]], None] = lambda _roster: None,
) -> Conducting:
    """Aggregator: play rounds of a study among these members until one succeeds, with a new leader each time.

    `keys` are those of an earlier report, used again if they suit the round. `earlier` are the rosters of the study's
    rounds so far, which vaults compare: where one more party would make the roster too close to one of them, it is left
    out, and whoever leads was in all of them. What members are owed is kept in `owed`, from before they upload on, so
    that an aggregator that was killed finds it there; `opening` is told a roster before its outcome goes out, which may
    reach members after such an end as well. `CohortTooSmall` when too few members are left, `TransportError`
    when the attempts are used up.
    """
    present = tuple(members)
    failed_leaders: set[str] = set()
    wanted = 1 if study.release != "ratios" else PROTOCOLS[study.protocol].keepers_wanted(study.options)
    made: list[Attempt] = []
    for _ in range(attempts):
        _require_cohort(study, policy, present, made)
        parties = _together(present, earlier, study.minimum_cohort)
        leaders = _leaders(study.may_lead(parties), parties, earlier, failed_leaders if wanted == 1 else set())
        if len(leaders) < wanted:
            raise CohortTooSmall(
                f"Of those who may lead, {', '.join(study.leaders or parties)}, {len(leaders) or 'none'} "
                f"{'is' if len(leaders) < 2 else 'are'} there, and it takes {wanted}. Wait for more of them."
            )
        # Whoever made the keys alone can lead rounds under them.
        made_by = keys.epoch.leader if keys is not None else None
        leader = made_by if made_by in leaders else leaders[integer_below(rng, len(leaders))]
        if wanted > 1:
            parties, leader = _with_committee(study, parties, leaders, wanted)
        round_ = study.round(study.call(rng, engine=engine.name, parties=parties, leader=leader))
        protocol = PROTOCOLS[study.protocol].of_round(round_)
        reused = keys if keys is not None and keys.suit(protocol, round_) else None
        # Keys that have failed once are not tried again.
        keys = None
        attempt = RoundInPlay(study, round_, policy, engine, rng, earlier=earlier, owed=owed, opening=opening)
        try:
            confirmed, used = yield from attempt.play(reused)
        except RoundFailed as failed:
            void = yield from attempt.void()
            made.append(Attempt(round=round_.id, leader=leader, parties=parties, failure=str(failed), void=void))
            # Keys of an earlier round may have expired, which is nobody's fault.
            blamed = frozenset[str]() if reused and failed.stage in (Stage.OFFER, Stage.SUBMIT) else failed.without
            present = tuple(name for name in present if name not in blamed)
            failed_leaders = {leader}
            continue
        made.append(Attempt(round=round_.id, leader=leader, parties=parties))
        told = yield from attempt.tell()
        return Report(
            round=round_,
            roster=attempt.roster,
            dropped=tuple(name for name in members if name not in attempt.roster),
            confirmed=confirmed,
            attempts=tuple(made),
            keys=used,
            told=told,
        )
    raise TransportError(
        f"No round succeeded in {attempts} attempts; the last one failed: {made[-1].failure} "
        "Check that the members' vaults run, then try again."
    )


def _together(present: tuple[str, ...], earlier: Collection[Collection[str]], least: int) -> tuple[str, ...]:
    """Those present, or as many of them as were together before, where all would be too close to an earlier roster."""
    if not any(too_close(present, other, least) for other in earlier):
        return present
    before = [
        roster
        for roster in earlier
        if set(roster).issubset(present) and not any(too_close(roster, other, least) for other in earlier)
    ]
    if not before:
        missing = {name for other in earlier if too_close(present, other, least) for name in other} - set(present)
        raise CohortTooSmall(
            f"{', '.join(sorted(missing))} were in an earlier round of this study and are missing now: the difference "
            "would show their own numbers. Wait until they are there, then try again."
        )
    largest = max(before, key=len)
    return tuple(name for name in present if name in largest)


def _leaders(
    may_lead: Sequence[str], parties: tuple[str, ...], earlier: Collection[Collection[str]], failed: set[str]
) -> list[str]:
    """Of those who may lead, whom vaults upload to: none that has missed an earlier round of theirs, or just failed."""
    known = [name for name in may_lead if all(name in other for other in earlier if set(other).intersection(parties))]
    leaders = known or list(may_lead)
    return [name for name in leaders if name not in failed] or leaders


def _with_committee(
    study: Study, parties: tuple[str, ...], members: Sequence[str], wanted: int
) -> tuple[tuple[str, ...], str]:
    """The parties, with the committee before all others, as the study names its members; and the first of them."""
    chosen = [name for name in study.leaders or members if name in members][:wanted]
    return (*chosen, *(name for name in parties if name not in chosen)), chosen[0]


def _require_cohort(study: Study, policy: Policy, parties: tuple[str, ...], made: Sequence[Attempt]) -> None:
    fewest = max(study.minimum_cohort, policy.rules.minimum_cohort)
    if len(parties) < fewest:
        before = f" Before, {made[-1].failure}" if made else ""
        raise CohortTooSmall(
            f"Only {len(parties)} members answered and a round needs {fewest}.{before} "
            "Wait until more of them are there, then try again."
        )
