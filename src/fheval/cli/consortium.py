"""`fheval consortium`: make an authority, enrol members and aggregators, sign policies and studies, list them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from fheval.cli import check_target, write_json
from fheval.cli.consortium_views import overview, show_overview
from fheval.cli.fingerprints import heard as heard_fingerprint
from fheval.cli.progress import waiting
from fheval.cli.study import DISCLOSING, told_of
from fheval.consortium import enrolment, install_policy, install_study
from fheval.consortium.authority import Authority, create_authority, import_authority, load_authority
from fheval.consortium.bulletin import admit, checked_request, is_bulletin, make_bulletin, take_bulletin
from fheval.consortium.files import read_public, replace_public
from fheval.consortium.hub_request import make_hub_request, request_name
from fheval.consortium.kit import SERVER_KEY
from fheval.consortium.policy import Rules
from fheval.consortium.signed_study import is_signed_study
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
MinimumCohort = Annotated[int | None, typer.Option(help="Fewest parties of a round; at first 3.")]
Releases = Annotated[int | None, typer.Option(help="Most releases of a lineage of data; at first 10.")]
Epsilon = Annotated[
    float | None,
    typer.Option(metavar="E", help="Most ε that rounds under noise may spend of a lineage in all; at first 10."),
]
Delta = Annotated[float | None, typer.Option(metavar="D", help="The δ beside which that ε is added up; at first 1e-6.")]
Removed = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Remove this member; repeat for more.")]
Days = Annotated[int, typer.Option("--valid-days", min=1, max=3650, help="Days until it expires.")]


@app.command(epilog="Example: fheval consortium init ./authority --name 'Sepsis study'")
def init(
    directory: Directory,
    name: Annotated[str, typer.Option(metavar="NAME", help="The consortium's name.", show_default=False)],
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
    typer.echo("Next: members and the aggregator run fheval consortium request, and send you their requests; then")
    typer.echo(f"fheval consortium publish {directory} REQUEST… --out consortium.fhev")


@app.command(
    epilog="Examples:\n\nfheval consortium enroll ./authority hospital-a\n\n"
    "fheval consortium enroll ./authority hospital-b --request request.fhev --fingerprint 12ab-34cd-… "
    "--out reply.fhev\n\n"
    "fheval consortium enroll ./authority hub --aggregator hub.example.org --aggregator 192.0.2.7"
)
def enroll(
    directory: Directory,
    member: Member,
    out: Annotated[
        Path | None, typer.Option(help="Where the kit (or the reply) goes; otherwise DIRECTORY/kits/MEMBER.")
    ] = None,
    aggregator: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="Make the aggregator's kit, for this host name or IP address; repeatable."),
    ] = None,
    request: Annotated[Path | None, typer.Option(help="The request of a member that keeps its private keys.")] = None,
    fingerprint: Annotated[
        str | None,
        typer.Option(
            metavar="FINGERPRINT", help="The request's fingerprint, as the member told you; needed with --request."
        ),
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


@app.command(
    epilog="Examples:\n\nfheval consortium request ./kit hospital-b --out hospital-b.fhev\n\n"
    "fheval consortium request ./hub hub --aggregator hub.example.org:9092 --out hub.fhev"
)
def request(
    kit_directory: KitDirectory,
    member: Member,
    aggregator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT", help="As the aggregator: where members find it; the first is dialled, repeatable."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where a copy goes.", show_default=False)] = None,
) -> None:
    """As a member or aggregator: make private keys that never leave this machine, and a request for the authority."""
    if aggregator:
        digest = make_hub_request(kit_directory, member, aggregator)
    else:
        digest = enrolment.make_request(kit_directory, member)
    made = kit_directory / enrolment.REQUEST
    if out is not None:
        replace_public(out, read_public(made))
    typer.echo(f"The keys of {member} are in {kit_directory}. Send {out or made} to the authority.")
    typer.echo(f"Its fingerprint, for the authority to compare: {digest}")


@app.command(epilog="Example: fheval consortium show request.fhev")
def show(
    request_file: Annotated[Path, typer.Argument(metavar="REQUEST", help="A member's request.", show_default=False)],
) -> None:
    """As the authority: show whose request a file is, and the fingerprint to compare before the member is enrolled."""
    request = read_public(request_file)
    typer.echo(f"A request of {request_name(request)}. Its fingerprint: {enrolment.request_fingerprint(request)}")


@app.command(epilog="Example: fheval consortium accept ./kit reply.fhev --authority 12ab-34cd-…")
def accept(
    kit_directory: KitDirectory,
    reply: Annotated[Path, typer.Argument(help="The authority's reply, or its bulletin.", show_default=False)],
    authority: Annotated[
        str,
        typer.Option(
            metavar="FINGERPRINT", help="The authority's fingerprint, as its operator told you.", show_default=False
        ),
    ],
) -> None:
    """As a member or aggregator: complete the kit with the authority's reply to the request, or with its bulletin."""
    data = read_public(reply)
    if is_bulletin(data):
        take_bulletin(kit_directory, data, authority=authority, now=_now())
    else:
        enrolment.accept_reply(kit_directory, data, expected_anchor=authority, now=_now())
    typer.echo(f"The kit {kit_directory} has its certificate.")


@app.command(
    epilog="Examples:\n\nfheval consortium update ./kit consortium.fhev\n\n"
    "fheval consortium update ./kit policy.fhev\n\nfheval consortium update ./hub sepsis-2026.fhev"
)
def update(
    kit_directory: KitDirectory,
    signed_file: Annotated[Path, typer.Argument(help="The bulletin, a signed policy or study.", show_default=False)],
) -> None:
    """As a member or aggregator: put a newer bulletin or policy into the kit; as the aggregator, also a study."""
    data = read_public(signed_file)
    if is_bulletin(data):
        taken = take_bulletin(kit_directory, data, authority=None, now=_now())
        typer.echo(f"The kit {kit_directory} has policy version {taken.version}.")
        return
    if is_signed_study(data):
        typer.echo(f"The kit {kit_directory} has study {install_study(kit_directory, data).name}.")
        return
    installed = install_policy(kit_directory, data, now=_now())
    typer.echo(f"The kit {kit_directory} has policy version {installed.version}.")


@app.command(
    epilog="Example: fheval consortium publish ./authority hub.fhev hospital-a.fhev hospital-b.fhev hospital-c.fhev "
    "--heard hub=12ab-34cd-… --study sepsis-2026.toml --out consortium.fhev"
)
def publish(
    directory: Directory,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the bulletin for everybody goes.", show_default=False)
    ],
    requests: Annotated[
        list[Path] | None, typer.Argument(metavar="[REQUEST]…", help="Requests to enrol.", show_default=False)
    ] = None,
    heard: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FINGERPRINT",
            help="The fingerprint that NAME has read to you over the telephone; repeat. Otherwise it is asked.",
        ),
    ] = None,
    study: Annotated[
        list[Path] | None, typer.Option(metavar="STUDY.toml", help="Sign this study; repeat for more.")
    ] = None,
    minimum_cohort: MinimumCohort = None,
    releases_per_lineage: Releases = None,
    epsilon_per_lineage: Epsilon = None,
    delta_per_lineage: Delta = None,
    remove: Removed = None,
    renew: Annotated[bool, typer.Option("--renew", help="Requests may replace the keys of members.")] = False,
    valid_days: Days = 365,
) -> None:
    """Enrol who asked, sign the policy and the studies, and write all of it to one public file for everybody.

    Nobody is enrolled unless all requests have the fingerprints that you heard.
    """
    authority = load_authority(directory)
    asked = [Study.from_file(each) for each in study or ()]
    data = [read_public(each) for each in requests or ()]
    fingerprints = _fingerprints(data, heard)
    checked = [checked_request(authority, each, fingerprints, renew=renew) for each in data]
    admissions = [each for each in checked if each is not None]
    if admissions:
        with waiting("Enrolling", quiet=False):
            admit(authority, admissions, now=_now(), days=valid_days)
    rules = _rules(
        authority,
        minimum_cohort=minimum_cohort,
        releases_per_lineage=releases_per_lineage,
        epsilon_per_lineage=epsilon_per_lineage,
        delta_per_lineage=delta_per_lineage,
    )
    current = authority.policy()
    if current is None or remove or current.rules != rules or list(current.members) != authority.members():
        current = authority.sign_next_policy(rules, now=_now(), days=valid_days, remove=remove or [])
    for each in asked:
        with waiting(DISCLOSING, quiet=False):
            signed, _ = authority.sign_study(each)
        for sentence in told_of(signed):
            typer.echo(sentence)
    replace_public(out, make_bulletin(authority))
    names = ", ".join(record.name for record in current.members)
    typer.echo(f"{out} has policy version {current.version} for {names}.")
    typer.echo("It is public: send it to all of them, and to the hub.")
    typer.echo(f"Read the authority's fingerprint to each over the telephone: {authority.anchor.fingerprint()}")


def _fingerprints(requests: Sequence[bytes], heard: Sequence[str] | None) -> dict[str, str]:
    """By name, what was heard; whoever is missing is asked for, so that nobody copies what the file says."""
    found = dict(text.partition("=")[::2] for text in heard or ())
    names = [request_name(data) for data in requests]
    for name in found:
        if name not in names:
            raise ConfigError(f"--heard {name}=… fits no request; there are those of {', '.join(names) or 'nobody'}.")
    if len(set(names)) < len(names):
        raise ConfigError("Two requests bear the same name. Ask which one is meant.")
    for name in names:
        if name not in found:
            found[name] = heard_fingerprint(f"The fingerprint that {name} reads to you over the telephone")
    return found


def _rules(authority: Authority, **given: float | None) -> Rules:
    """The current rules, and what is given in their place."""
    current = authority.policy()
    changes = {rule: value for rule, value in given.items() if value is not None}
    return msgspec.structs.replace(Rules() if current is None else current.rules, **changes)


@app.command(
    epilog="Example:\n\nfheval consortium study ./authority sepsis-2026.toml\n\n"
    'The file has, for instance, name = "sepsis-2026" and metrics = ["auc"] in it.'
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
    read = Study.from_file(file)
    with waiting(DISCLOSING, quiet=False):
        asked, signed = authority.sign_study(read)
    for sentence in told_of(asked):
        typer.echo(sentence)
    made = out or directory / "studies" / f"{asked.name}.fhev"
    if out is not None:
        replace_public(out, signed)
    typer.echo(f"Signed. Send {made} to every member, who runs:")
    typer.echo(f"fheval vault accept --kit KIT {made.name} --data FILE --lineage NAME")
    typer.echo(f"and to the aggregator, who runs: fheval consortium update KIT {made.name}")


@app.command(
    epilog="Examples:\n\nfheval consortium policy ./authority --minimum-cohort 5\n\n"
    "fheval consortium policy ./authority --remove hospital-c"
)
def policy(
    directory: Directory,
    minimum_cohort: MinimumCohort = None,
    releases_per_lineage: Releases = None,
    epsilon_per_lineage: Epsilon = None,
    delta_per_lineage: Delta = None,
    remove: Removed = None,
    valid_days: Days = 365,
) -> None:
    """Sign the next version of the policy, with every enrolled member.

    A rule that is not given stays as it was in the current version.
    """
    authority = load_authority(directory)
    rules = _rules(
        authority,
        minimum_cohort=minimum_cohort,
        releases_per_lineage=releases_per_lineage,
        epsilon_per_lineage=epsilon_per_lineage,
        delta_per_lineage=delta_per_lineage,
    )
    signed = authority.sign_next_policy(rules, now=_now(), days=valid_days, remove=remove or [])
    names = ", ".join(record.name for record in signed.members)
    typer.echo(f"Signed policy version {signed.version} of {signed.consortium} for {names}.")
    if authority.update_local_kits(now=_now()):
        typer.echo(f"The kits under {authority.kits_directory()} have it already.")
    typer.echo(f"Send {directory / 'policy.fhev'} to every other member and aggregator, who run:")
    typer.echo("fheval consortium update KIT policy.fhev")


@app.command("list", epilog="Example: fheval consortium list ./authority --json -")
def list_(
    directory: Directory,
    json: Annotated[str | None, typer.Option(metavar="FILE|-", help="Write JSON to a file or standard output.")] = None,
) -> None:
    """Show the members, the aggregators and the current policy."""
    check_target(json)
    found = overview(load_authority(directory), now=_now())
    if json is None:
        show_overview(found)
    else:
        write_json(json, asdict(found))


def _now() -> datetime:
    return datetime.now(timezone.utc)
