"""`fheval consortium`: make an authority, enrol members and aggregators, sign policies and studies, list them all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import Certificate
from rich.console import Console
from rich.table import Table

from fheval.cli import check_target, write_json
from fheval.consortium import certificates, enrolment, install_policy, install_study
from fheval.consortium.authority import Authority, create_authority, import_authority, load_authority
from fheval.consortium.files import read_public, replace_public
from fheval.consortium.kit import SERVER_KEY
from fheval.consortium.policy import Policy, Rules
from fheval.consortium.signed_study import is_signed_study
from fheval.disclosure import disclosed_by, disclosure_in_words, study_in_words
from fheval.errors import ConfigError
from fheval.study import Study

app = typer.Typer(
    no_args_is_help=True,
    help="Run a consortium: its authority, the kits of members and aggregator, the signed policy and studies.",
    epilog="Start with: fheval consortium init ./authority --name 'Sepsis study'",
)

Directory = Annotated[Path, typer.Argument(help="The authority's directory.", show_default=False)]
Member = Annotated[str, typer.Argument(help="Name of the member or aggregator.", show_default=False)]
KitDirectory = Annotated[Path, typer.Argument(help="The kit's directory.", show_default=False)]
Days = Annotated[int, typer.Option("--valid-days", min=1, max=3650, help="Days until it expires.")]


@app.command(epilog="Example: fheval consortium init ./authority --name 'Sepsis study'")
def init(
    directory: Directory,
    name: Annotated[str, typer.Option(help="The consortium's name.", show_default=False)],
    ca_cert: Annotated[Path | None, typer.Option(help="An X.509 authority's certificate, then its parents.")] = None,
    ca_key: Annotated[Path | None, typer.Option(help="Its key; without it, certificates come from elsewhere.")] = None,
) -> None:
    """Make the consortium's authority in a new directory, or bring one along."""
    if ca_key is not None and ca_cert is None:
        raise ConfigError("--ca-key needs --ca-cert. Give the certificate that belongs to the key.")
    if ca_cert is None:
        authority = create_authority(directory, name, now=_now())
    else:
        authority = import_authority(directory, name, certificate=ca_cert, key=ca_key, now=_now())
    typer.echo(f"The authority of {name} is in {directory}: keep it safe, and keep a backup.")
    typer.echo(f"Its fingerprint, for members to compare: {authority.anchor.fingerprint()}")
    typer.echo(f"Next: fheval consortium enroll {directory} MEMBER, once for each member")


@app.command(
    epilog="Examples: fheval consortium enroll ./authority hospital-a  ·  "
    "fheval consortium enroll ./authority hospital-b --request request.fhev --fingerprint 12ab-34cd-… "
    "--out reply.fhev  ·  "
    "fheval consortium enroll ./authority hub --aggregator hub.example.org --aggregator 192.0.2.7"
)
def enroll(
    directory: Directory,
    member: Member,
    out: Annotated[
        Path | None, typer.Option(help="Where the kit (or the reply) goes; otherwise DIRECTORY/kits/MEMBER.")
    ] = None,
    aggregator: Annotated[
        list[str] | None, typer.Option(help="Make the aggregator's kit, for this host name or IP address; repeatable.")
    ] = None,
    request: Annotated[Path | None, typer.Option(help="The request of a member that keeps its private keys.")] = None,
    fingerprint: Annotated[
        str | None, typer.Option(help="The request's fingerprint, as the member told you; needed with --request.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="A certificate that was issued elsewhere, in PEM.")] = None,
    transport_certificate: Annotated[
        Path | None,
        typer.Option(help="The certificate of the member's connections, issued elsewhere from its transport.csr."),
    ] = None,
    renew: Annotated[bool, typer.Option("--renew", help="Replace the member's keys and certificate.")] = False,
    valid_days: Days = 365,
) -> None:
    """Enrol a member, or make the aggregator's kit."""
    authority = load_authority(directory)
    pem = None if certificate is None else read_public(certificate)
    kit = out or authority.kits_directory() / member
    if aggregator:
        if request is not None or renew:
            raise ConfigError("--aggregator goes with neither --request nor --renew. Leave them out.")
        enrolment.enrol_aggregator(authority, member, aggregator, kit, certificate_pem=pem, now=_now(), days=valid_days)
        typer.echo(f"The kit of the aggregator {member} is in {kit}, for {', '.join(aggregator)}.")
        if pem is not None:
            typer.echo(f"Put the certificate's private key there as {SERVER_KEY}, with mode 0600.")
        return
    if request is not None:
        _enroll_request(
            authority,
            member,
            read_public(request),
            fingerprint,
            out,
            pem,
            None if transport_certificate is None else read_public(transport_certificate),
            renew,
            valid_days,
        )
    elif fingerprint is not None:
        raise ConfigError("--fingerprint is that of a --request. Give both.")
    elif pem is not None or transport_certificate is not None:
        raise ConfigError("A certificate from elsewhere needs the member's --request. Ask the member for it.")
    else:
        enrolment.enrol_with_new_keys(authority, member, kit, renew=renew, now=_now(), days=valid_days)
        typer.echo(f"The kit of {member} is in {kit}. It holds private keys: hand it over safely, keep no copy.")
    typer.echo(f"Next, when all are enrolled: fheval consortium policy {directory}")


def _enroll_request(
    authority: Authority,
    name: str,
    request: bytes,
    fingerprint: str | None,
    out: Path | None,
    pem: bytes | None,
    transport_pem: bytes | None,
    renew: bool,
    days: int,
) -> None:
    if fingerprint is None:
        raise ConfigError(
            f"--request needs --fingerprint. Have {name} read it to you over the telephone; it must be the one that "
            "this shows: fheval consortium show REQUEST"
        )
    if out is None:
        raise ConfigError("--request needs --out FILE. Say where the reply for the member goes.")
    if out.exists():
        raise ConfigError(f"{out} already exists. Name another file.")
    reply = enrolment.answer_request(
        authority,
        name,
        request,
        fingerprint=fingerprint,
        certificate_pem=pem,
        transport_pem=transport_pem,
        renew=renew,
        now=_now(),
        days=days,
    )
    replace_public(out, reply)
    typer.echo(f"{name} is enrolled. Send {out} to {name}, who runs:")
    typer.echo(f"fheval consortium accept KIT {out.name} --authority FINGERPRINT")
    typer.echo(f"Read the authority's fingerprint to {name} over the telephone: {authority.anchor.fingerprint()}")


@app.command(epilog="Example: fheval consortium request ./kit hospital-b")
def request(kit_directory: KitDirectory, member: Member) -> None:
    """As a member: make private keys that never leave this machine, and a request for the authority."""
    digest = enrolment.make_request(kit_directory, member)
    made = kit_directory / enrolment.REQUEST
    typer.echo(f"The keys of {member} are in {kit_directory}. Send {made} to the authority.")
    typer.echo(f"Its fingerprint, for the authority to compare: {digest}")


@app.command(epilog="Example: fheval consortium show request.fhev")
def show(
    request_file: Annotated[Path, typer.Argument(metavar="REQUEST", help="A member's request.", show_default=False)],
) -> None:
    """As the authority: show whose request a file is, and the fingerprint to compare before the member is enrolled."""
    request = read_public(request_file)
    typer.echo(
        f"A request of {enrolment.request_name(request)}. Its fingerprint: {enrolment.request_fingerprint(request)}"
    )


@app.command(epilog="Example: fheval consortium accept ./kit reply.fhev --authority 12ab-34cd-…")
def accept(
    kit_directory: KitDirectory,
    reply: Annotated[Path, typer.Argument(help="The authority's reply.", show_default=False)],
    authority: Annotated[
        str, typer.Option(help="The authority's fingerprint, as its operator told you.", show_default=False)
    ],
) -> None:
    """As a member: complete the kit with the authority's reply to the request."""
    enrolment.accept_reply(kit_directory, read_public(reply), expected_anchor=authority, now=_now())
    typer.echo(f"The kit {kit_directory} has its certificate.")


@app.command(
    epilog="Examples: fheval consortium update ./kit policy.fhev  ·  fheval consortium update ./hub sepsis-2026.fhev"
)
def update(
    kit_directory: KitDirectory,
    signed_file: Annotated[Path, typer.Argument(help="The signed policy or study.", show_default=False)],
) -> None:
    """As a member or aggregator: put a newer signed policy into the kit; as the aggregator, also a signed study."""
    data = read_public(signed_file)
    if is_signed_study(data):
        typer.echo(f"The kit {kit_directory} has study {install_study(kit_directory, data).name}.")
        return
    installed = install_policy(kit_directory, data, now=_now())
    typer.echo(f"The kit {kit_directory} has policy version {installed.version}.")


@app.command(
    epilog="Example: fheval consortium study ./authority sepsis-2026.toml, "
    'with name = "sepsis-2026" and metrics = ["auc"] in it'
)
def study(
    directory: Directory,
    file: Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.fhev", help="Where a copy goes.", show_default=False)
    ] = None,
) -> None:
    """Sign a study: what rounds may ask of the members, and on what terms.

    Every member decides by itself whether its vault answers; the aggregator chooses when, and nothing else.
    """
    authority = load_authority(directory)
    asked, signed = authority.sign_study(Study.from_file(file))
    for sentence in (*study_in_words(asked), *disclosure_in_words(disclosed_by(asked))):
        typer.echo(sentence)
    made = out or directory / "studies" / f"{asked.name}.fhev"
    if out is not None:
        replace_public(out, signed)
    typer.echo(f"Signed. Send {made} to every member, who runs:")
    typer.echo(f"fheval vault accept --kit KIT {made.name} --data FILE --lineage NAME")
    typer.echo(f"and to the aggregator, who runs: fheval consortium update KIT {made.name}")


@app.command(
    epilog="Examples: fheval consortium policy ./authority --minimum-cohort 5  ·  "
    "fheval consortium policy ./authority --remove hospital-c"
)
def policy(
    directory: Directory,
    minimum_cohort: Annotated[int | None, typer.Option(help="Fewest parties of a round; at first 3.")] = None,
    releases_per_data_set: Annotated[int | None, typer.Option(help="Most releases of a data set; at first 10.")] = None,
    remove: Annotated[list[str] | None, typer.Option(help="Remove this member; repeat for more.")] = None,
    valid_days: Days = 365,
) -> None:
    """Sign the next version of the policy, with every enrolled member.

    A rule that is not given stays as it was in the current version.
    """
    authority = load_authority(directory)
    current = authority.policy()
    given: dict[str, object] = {
        "minimum_cohort": minimum_cohort,
        "releases_per_data_set": releases_per_data_set,
    }
    changes = {rule: value for rule, value in given.items() if value is not None}
    rules = msgspec.structs.replace(Rules() if current is None else current.rules, **changes)
    signed = authority.sign_next_policy(rules, now=_now(), days=valid_days, remove=remove or [])
    names = ", ".join(record.name for record in signed.members)
    typer.echo(f"Signed policy version {signed.version} of {signed.consortium} for {names}.")
    if authority.update_local_kits(now=_now()):
        typer.echo(f"The kits under {authority.kits_directory()} have it already.")
    typer.echo(f"Send {directory / 'policy.fhev'} to every other member and aggregator, who run:")
    typer.echo("fheval consortium update KIT policy.fhev")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One member or aggregator; `state` is valid, expired, not yet valid or foreign."""

    name: str
    role: str
    state: str
    not_after: str
    fingerprint: str
    in_policy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """An authority, its policy and everybody that it enrolled; `issues` tells whether its key is here."""

    consortium: str
    authority: str
    issues: bool
    policy: dict[str, object] | None
    entries: list[Entry]


@app.command("list", epilog="Example: fheval consortium list ./authority --json -")
def list_(
    directory: Directory,
    json: Annotated[str | None, typer.Option(metavar="FILE|-", help="Write JSON to a file or standard output.")] = None,
) -> None:
    """Show the members, the aggregators and the current policy."""
    check_target(json)
    found = _overview(load_authority(directory), now=_now())
    if json is None:
        _show(found)
    else:
        write_json(json, asdict(found))


def _overview(authority: Authority, *, now: datetime) -> Overview:
    policy = authority.policy()
    listed = () if policy is None else [record.x509() for record in policy.members]
    enrolled = [(record.name, "member", record.x509()) for record in authority.members()]
    enrolled += [(name, "aggregator", certificate) for name, certificate in authority.aggregators().items()]
    return Overview(
        consortium=authority.consortium,
        authority=authority.anchor.fingerprint(),
        issues=authority.key is not None,
        policy=None if policy is None else _facts(policy),
        entries=[
            Entry(
                name=name,
                role=role,
                state=_state(certificate, authority.anchor.authority(), now),
                not_after=_text(certificate.not_valid_after_utc),
                fingerprint=certificate.fingerprint(SHA256()).hex(),
                in_policy=certificate in listed,
            )
            for name, role, certificate in enrolled
        ],
    )


def _state(certificate: Certificate, authority: Certificate, now: datetime) -> str:
    try:
        certificates.check_issuer(certificate, authority)
    except ConfigError:
        return "foreign"
    if now > certificate.not_valid_after_utc:
        return "expired"
    return "valid" if now >= certificate.not_valid_before_utc else "not yet valid"


def _facts(policy: Policy) -> dict[str, object]:
    return {
        "version": policy.version,
        "not_before": _text(datetime.fromtimestamp(policy.not_before, timezone.utc)),
        "not_after": _text(datetime.fromtimestamp(policy.not_after, timezone.utc)),
        "members": [record.name for record in policy.members],
        "hash": policy.hash().hex(),
        **msgspec.structs.asdict(policy.rules),
    }


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _show(found: Overview) -> None:
    console = Console()
    console.print(f"{found.consortium}, authority {found.authority}", markup=False, highlight=False)
    if found.policy is None:
        console.print("No policy has been signed yet.")
    else:
        rules = Table("policy", str(found.policy["version"]))
        for rule, value in found.policy.items():
            if rule not in {"version", "members"}:
                rules.add_row(rule.replace("_", " "), _shown(value))
        console.print(rules)
    table = Table("name", "role", "certificate", "valid until", "in policy")
    for entry in found.entries:
        in_policy = "" if entry.role == "aggregator" else _shown(entry.in_policy)
        table.add_row(entry.name, entry.role, entry.state, entry.not_after, in_policy)
    console.print(table)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if value is None:
        return "exact"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _now() -> datetime:
    return datetime.now(timezone.utc)
