"""`fheval` with one of its guards taken out, to show what it is for: python -m direct.weakened GUARD COMMAND…"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from unittest.mock import patch

from fheval.cli import main
from fheval.evaluation import result
from fheval.evaluation.result import Estimate
from fheval.party import steps
from fheval.party.accepted import AcceptedStudies
from fheval.protocols import base, release
from fheval.protocols import round as rounds
from fheval.protocols.base import Protocol, Telling
from fheval.protocols.round import Contribution, PartySecrets, Round
from fheval.secrets import SystemRandomness
from fheval.study import Study


def prepared() -> None:
    """Rows are counted when somebody asks."""

    def take(studies: AcceptedStudies, study: Study) -> Contribution:
        accepted = studies.ready(study.hash())
        assert accepted is not None
        return accepted.data_set.count(study, SystemRandomness()).contribution

    patch.object(AcceptedStudies, "take", take).start()


def nonce() -> None:
    """The pad of an upload depends on the round alone."""
    patch.object(base, "NONCE_BYTES", 0).start()


def own_secrets() -> None:
    """A leader gives everybody all that it has, the master among it."""

    def secrets_of(_protocol: Protocol, _round: Round, leaders: PartySecrets, party: str) -> PartySecrets:
        return replace(leaders, pad_seed=leaders.pad_seed_of(party))

    patch.object(Protocol, "secrets_of", secrets_of).start()


def decimals() -> None:
    """A leader tells X/Z, merely reduced, of the numbers and of all resamples."""
    patch.object(release, "in_decimals", lambda found, _digits: found).start()
    patch.object(steps, "telling", lambda *_: Telling()).start()
    # The room in the sealed box is that of decimals.
    patch.object(rounds, "_ratio_bytes", lambda *_: 1024).start()


def withheld() -> None:
    """A number that did not come is as verified as the others, and what is left of the resamples is enough."""
    patch.object(Estimate, "carries", lambda *_: True).start()
    patch.object(result, "_with_state", lambda row, verified: replace(row, verified=verified)).start()


GUARDS: Mapping[str, Callable[[], None]] = {
    each.__name__: each for each in (prepared, nonce, own_secrets, decimals, withheld)
}

if __name__ == "__main__":
    GUARDS[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
