"""Which rosters may be opened beside earlier ones.

Two results over the same rows whose rosters differ by one party tell that party's own share, however each is rounded.
So two rounds of one lineage are opened only if their rosters are the same, or differ in as many parties as a cohort has
at least: then the difference is about a cohort as well.

Who keeps the rule: the leader knows the rosters of all rounds that it took part in, and opens none too close to them. A
party uploads only to a leader that was in every roster the party knows, since such a leader knows them, too. So for any
two rounds with a common party, whoever leads the later one was in the earlier one. With a committee every member keeps
the rule, and a party asks it of all of them: the one that is honest is among them. What remains: a leader that took
part and was not told the outcome does not know the roster, and three rounds or more may be combined; see SECURITY.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from fheval.errors import RemoteProtocolError
from fheval.protocols.round import AGGREGATOR


def too_close(roster: Iterable[str], other: Iterable[str], least: int) -> bool:
    """Whether two rosters differ, and in fewer parties than a cohort must have."""
    return 0 < len(set(roster) ^ set(other)) < least


def require_apart(roster: Collection[str], earlier: Iterable[Collection[str]], least: int) -> None:
    """Opener: refuse a roster that is too close to that of an earlier round."""
    if any(too_close(roster, other, least) for other in earlier):
        raise RemoteProtocolError(
            f"The roster differs from that of an earlier round in fewer than {least} parties, whose own numbers would "
            "show. The round was aborted.",
            step="roster",
            culprit=AGGREGATOR,
        )


def require_witness(me: str, openers: Sequence[str], earlier: Iterable[Collection[str]]) -> None:
    """Party: refuse a leader, or a member of a committee, that cannot know of every round that this party knows of.

    Who opens compares the rosters that it knows itself.
    """
    if me in openers:
        return
    for opener in openers:
        if any(opener not in roster for roster in earlier):
            raise RemoteProtocolError(
                f"{opener} opens, and was not in an earlier round that this party was in: it cannot compare rosters. "
                "The round was refused.",
                step="roster",
                culprit=AGGREGATOR,
            )
