"""How a member's operator is asked: the study in words, the data it would be answered from, then yes or no."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress

from fheval.cli.fingerprints import heard_authority
from fheval.cli.study import told_of
from fheval.cli.vault_views import binning_for_operator
from fheval.consortium import Kit, check_study, load_kit
from fheval.consortium.bulletin import bulletin_version, read_bulletin, take_bulletin
from fheval.consortium.files import read_public, replace_public
from fheval.consortium.kit import CERTIFICATE, kept_study
from fheval.consortium.records import check_name
from fheval.consortium.signed_study import open_study
from fheval.errors import ConfigError
from fheval.party.accepted import Acceptance, AcceptedStudies
from fheval.party.columns import StudyColumns
from fheval.party.core import utc_now
from fheval.party.ledger import Ledger
from fheval.party.ledger_place import open_ledger
from fheval.party.member_file import MemberFile
from fheval.party.prepare import accept_study, attempts
from fheval.party.process import VaultFiles
from fheval.secrets import SystemRandomness

_BULLETIN = "consortium.fhev"


def take_over(file: MemberFile) -> None:
    """Complete the kit, or bring it up to date, with the authority's bulletin, if it is one that the kit lacks."""
    kit = Path(file.kit)
    if not kit.is_dir():
        raise ConfigError(f"There is no kit {kit}. Make it: fheval consortium request {kit} NAME")
    if file.consortium is None:
        return
    data, kept = read_bulletin(Path(file.consortium)), kit / _BULLETIN
    if kept.exists() and read_public(kept) == data:
        return
    if (kit / CERTIFICATE).exists():
        has, brings = load_kit(kit, now=utc_now()).policy.version, bulletin_version(data)
        if brings < has:
            typer.echo(f"{file.consortium} has policy version {brings}; the kit goes on with {has}.", err=True)
            return
    policy = take_bulletin(kit, data, authority=heard_authority(kit, file.authority), now=utc_now())
    replace_public(kept, data)
    typer.echo(f"The kit {kit} has policy version {policy.version} of {policy.consortium}.")


def accept_all(file: MemberFile, files: VaultFiles, *, yes: bool) -> None:
    """Ask about every study of a member's file that was not accepted so, with these data, before."""
    member = load_kit(files.kit, now=utc_now())
    for name, given in file.studies.items():
        signed = kept_study(files.kit, name)
        columns = given.columns(open_study(signed, member.identity.anchor))
        acceptance = Acceptance(signed=signed, data=given.data, columns=columns, lineage=given.lineage)
        if files.studies.exists():
            with AcceptedStudies.read(files.studies) as studies:
                if any(each.acceptance == acceptance for each in studies.all()):
                    continue
        if not offer(files, member, acceptance, yes=yes):
            typer.echo(f"Study {name} is not accepted, and will not be answered.", err=True)


def offer(files: VaultFiles, member: Kit, acceptance: Acceptance, *, yes: bool) -> bool:
    """Show a study in words, ask unless `yes`, and prepare it from its data; whether it was accepted."""
    asked = open_study(acceptance.signed, member.identity.anchor)
    check_study(asked, member.policy)
    check_name(acceptance.lineage)
    acceptance.columns.translate(asked)
    data = Path(acceptance.data)
    console = Console(highlight=False)
    for sentence in told_of(asked):
        console.print(sentence, markup=False)
    console.print(f"It would be answered from {data}, which counts as {acceptance.lineage}.", markup=False)
    if not yes and not _confirmed(f"Shall the vault of {member.identity.name} answer this study?"):
        return False
    if not Ledger.in_use(files.ledger):
        open_ledger(files.kit, member.identity.name, files.ledger, now=utc_now()).close()
    with AcceptedStudies.open(files.studies) as studies, _bar(attempts(asked)) as advance:
        facts = accept_study(studies, acceptance, SystemRandomness(), now=utc_now(), on_round=advance)
    console.print(f"Study {asked.name} is accepted, and prepared from {facts.rows:,} rows.", markup=False)
    if facts.clipped:
        low, high = asked.target_range or (0.0, 1.0)
        console.print(f"{facts.clipped:,} values were outside {low:g} … {high:g}, and were moved to its ends.")
    if facts.binning is not None and facts.fits_badly:
        console.print(f"{binning_for_operator(facts.binning)} Nobody else is told.")
    if data.stat().st_mode & 0o044:
        console.print(f"{data} can be read by other users. Close it: chmod 600 {data}", markup=False)
    return True


def acceptance_of(signed: bytes, data: Path, columns: StudyColumns, lineage: str) -> Acceptance:
    """What is offered, with the file's full path."""
    return Acceptance(signed=signed, data=str(data.absolute()), columns=columns, lineage=lineage)


def _confirmed(question: str) -> bool:
    """Ask; where nobody can answer, as under systemd, that is a no."""
    try:
        return typer.confirm(question)
    except typer.Abort as abort:
        if isinstance(abort.__context__, EOFError):
            return False
        raise


@contextmanager
def _bar(rounds: int) -> Iterator[Callable[[], None]]:
    """A bar of so many rounds to prepare, on a terminal; gives the function that moves it."""
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("preparing", total=rounds)
        yield lambda: progress.advance(task)
