"""`fheval attack`: the adversary suite against a protocol, and what it found."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fheval.cli import REFUSED, STANDARD_OUTPUT, check_target, options, write_json
from fheval_lab.cli import Quiet

if TYPE_CHECKING:
    from fheval.engines import Engine
    from fheval_lab.attacks import Findings
    from fheval_lab.attacks.strategy import Strategy

app = typer.Typer()

# With four parties, one may be left out and three remain; with twenty points, a run of paper-malicious has eighty
# slots to guess from. Twenty tries of every strategy then take a minute or two on the slowest protocol.
PARTIES = 4
DECISION_POINTS = 20
TRIES = 20


@app.command(
    epilog="Examples:\n\n"
    "fheval attack --protocol paper-malicious\n\n"
    "fheval attack --protocol padded-verified --strategy replay --strategy drop-party --tries 100 --json -"
)
def attack(
    protocol: Annotated[
        str | None, typer.Option(metavar="NAME", help="The protocol to attack.", show_default="all, one by one")
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Try this strategy only; may be given often.", show_default="all"),
    ] = None,
    tries: Annotated[int, typer.Option(metavar="N", min=1, help="How often each strategy tries.")] = TRIES,
    parties: Annotated[int, typer.Option(metavar="M", min=3, help="How many parties there are.")] = PARTIES,
    decision_points: Annotated[
        int, typer.Option(metavar="N", min=3, help="How many decision points the curve has.")
    ] = DECISION_POINTS,
    engine: options.EngineName = None,
    json: options.Json = None,
    quiet: Quiet = False,
) -> None:
    """Let an aggregator deviate in every way we know, and say how often the parties caught it.

    A protocol that claims to resist must refuse every forged result; one that does not is shown to be forgeable.
    Beside the strategies: guessing at toy sizes, nudges below the fifth decimal, the algebra in small fields, and
    attacks on privacy, unless --strategy asks for something in particular. The exit status is 1 if a claim broke.
    """
    check_target(json)
    # The libraries read this when they are loaded, which is why they are imported below.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from fheval.engines import load_engine
    from fheval.protocols import PROTOCOLS
    from fheval_lab.attacks import Consortium, strategies_named

    if protocol is not None:
        PROTOCOLS[protocol]  # refuses a protocol that does not exist
    chosen = strategies_named(strategy or [])
    loaded = load_engine(engine)
    silent = quiet or json == STANDARD_OUTPUT
    found = []
    for name in [protocol] if protocol else PROTOCOLS:
        consortium = Consortium(protocol=name, parties=parties, decision_points=decision_points)
        found.append(_attacked(consortium, loaded, chosen, tries, experiments_too=not strategy, quiet=silent))
    if json is not None:
        contents = [each.to_dict() for each in found]
        # One protocol's object as the contract has it; for all, these objects under "protocols".
        write_json(json, contents[0] if protocol else {"protocols": contents})
    if json != STANDARD_OUTPUT and not quiet:
        from rich.console import Console

        from fheval_lab.cli.attack_tables import findings_tables

        Console(highlight=False).print(*(table for each in found for table in findings_tables(each)))
    if not all(each.held for each in found):
        raise typer.Exit(REFUSED)


def _attacked(
    consortium: Any, engine: Engine, strategies: list[type[Strategy]], tries: int, *, experiments_too: bool, quiet: bool
) -> Findings:
    from fheval_lab.attacks import Findings, Suite, experiments
    from fheval_lab.cli.progress import steps

    suite = Suite(consortium, engine, strategies)
    findings = Findings(consortium=consortium, engine=engine.name, tallies=suite.tallies)
    plays = suite.steps(tries)
    beside = experiments(consortium, engine) if experiments_too else []
    with steps(len(plays) + len(beside), quiet=quiet) as on_step:
        for step in plays:
            on_step(f"{consortium.protocol}: {suite.tallies[step].summary}")
            suite.play(step)
        for experiment in beside:
            on_step(f"{consortium.protocol}: {experiment.section.replace('_', ' ')}")
            findings.add(experiment)
    return findings
