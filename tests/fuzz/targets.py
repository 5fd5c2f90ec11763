"""What is fuzzed: a target makes itself ready, and then tries one case after the other; what it raises is a finding.

A case that is refused with an error of ours, or read, is fine; so is one that changes nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import polars

from engine_forgeries import SETS, adding, take_public, take_secret, work
from engine_roles import Roles, engine_named
from fheval.aggregator.conductor import drive
from fheval.aggregator.orders import kept_keys, kept_rosters
from fheval.aggregator.owed import OwedFile
from fheval.aggregator.round_in_play import Exchange
from fheval.consortium import load_kit, open_study
from fheval.counting import Grid, count_file
from fheval.direct.frames import Answer, Arrival, Notice, Request, ToHub, ToRelay, read_frame
from fheval.engines import container
from fheval.errors import FhevalError
from fheval.party.ledger import Ledger
from fheval.party.messages import REFUSAL, Reply
from fheval.protocols import PROTOCOLS
from fheval.protocols.base import Stage
from fheval.study import Study
from fheval.wire import Message, decode, encode
from fuzz.damage import damaged
from fuzz.ledgers import attack, make_state
from fuzz.trees import altered
from keys_consortium import NOW
from vault.requests import Stopped
from vault.trial import NAMES, PicksTheFirst, Trial, Wire, make_consortium, running

# One try: the case to remember if it is a finding, and what to do with it.
Case = tuple[bytes, Callable[[], object]]
Target = Callable[[Path, Random], Iterator[Case]]


def _all_messages() -> dict[str, type[Message]]:
    found: dict[str, type[Message]] = {}
    kinds = [Message]
    while kinds:
        for kind in kinds.pop().__subclasses__():
            if kind.__module__.startswith("fheval."):
                found[kind.__name__] = kind
            kinds.append(kind)
    return found


def _refused(attempt: Callable[[], object]) -> None:
    with suppress(FhevalError):
        attempt()


# Messages


def messages(folder: Path, draw: Random) -> Iterator[Case]:
    """Every type of message that passed in honest rounds of all protocols, and every other type, with changed items."""
    kinds, seen = _all_messages(), [encode(ToHub(content=Arrival(fheval="0", clock=0.0)))]
    seen += [encode(ToRelay(content=each)) for each in (Request(number=1, body=b"x"), Notice(words="x"))]
    seen += [encode(ToHub(content=Answer(number=1, body=b"x")))]
    with running(folder, make_consortium(folder)) as trial:
        for protocol in _playable(trial):
            wire = Wire(trial)
            drive(trial.conduct(_study_of(trial, protocol), PicksTheFirst()), wire)
            seen += [data for _, _, data in (*wire.requests, *wire.replies)]
    seen += [inner for data in tuple(seen) for inner in _inside(data)]
    while True:
        data = altered(draw.choice(seen), draw)
        kind = draw.choice(sorted(kinds))
        named = _name_of(data)
        expected = kinds[named] if named in kinds and draw.random() < 0.8 else kinds[kind]
        yield data, partial(_refused, partial(decode, data, expected, sender="fuzz"))
        yield data, partial(_refused, partial(read_frame, data, ToHub, "fuzz"))


def _name_of(data: bytes) -> str:
    try:
        tree = msgspec.msgpack.decode(data)
        return str(tree[2][0])
    except (msgspec.DecodeError, UnicodeDecodeError, LookupError, TypeError):
        return ""


def _inside(data: bytes) -> Iterator[bytes]:
    """Messages in the fields of a message."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, LookupError, TypeError):
        for item in msgspec.msgpack.decode(data)[2]:
            if isinstance(item, bytes) and _name_of(item):
                yield item
                yield from _inside(item)


# Stages of real rounds


def stages(folder: Path, draw: Random) -> Iterator[Case]:
    """Vaults that wait at each stage of a round, of each protocol in turn, get changed requests.

    Whatever they would write is not written, so that each waits where it did.
    """
    consortium = make_consortium(folder)
    number = 0
    while True:
        number += 1
        place = folder / f"stages-{number}"
        place.mkdir()
        with running(place, consortium) as trial:
            protocols = _playable(trial)
            protocol = protocols[number % len(protocols)]
            last = PROTOCOLS[protocol].steps[-1].stage
            waiting = [Stage.SETUP, Stage.SUBMIT, *(each.stage for each in PROTOCOLS[protocol].steps), last]
            asked = _asked_at(trial, draw.choice(waiting), protocol)
            for _ in range(60):
                name = draw.choice(sorted(asked))
                data = altered(asked[name], draw)
                yield data, partial(_answered, trial, name, data)
        shutil.rmtree(place)


def _asked_at(trial: Trial, stage: Stage, protocol: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    wire = Wire(trial)

    def exchange(asked: Exchange) -> dict[str, bytes]:
        if asked.stage is stage:
            found.update(asked.requests)
            raise Stopped
        return wire(asked)

    with suppress(Stopped):
        drive(trial.conduct(_study_of(trial, protocol), PicksTheFirst()), exchange)
    return found


class NotWritten(OSError):  # noqa: N818 (nothing has failed)
    """The vault would have written to its ledger."""


def _answered(trial: Trial, name: str, data: bytes) -> None:
    ledger = trial.ledgers[name]

    def not_written(*_: object, **__: object) -> None:
        raise NotWritten

    kept = Ledger.record, Ledger.abort
    Ledger.record = Ledger.abort = not_written  # type: ignore[method-assign]
    try:
        reply = trial.vaults[name].handle(data)
    finally:
        Ledger.record, Ledger.abort = kept  # type: ignore[method-assign]
    if reply != REFUSAL:
        assert decode(reply, Reply, sender=name).sender == name, "a reply in another's name"
    assert ledger.place() is None


# Replies to the aggregator


def replies(folder: Path, draw: Random) -> Iterator[Case]:
    """An aggregator that gets changed replies ends its round with a report, or an error of ours."""
    consortium = make_consortium(folder)
    number = 0
    while True:
        number += 1
        place = folder / f"replies-{number}"
        place.mkdir()
        with running(place, consortium) as trial:
            protocols = _playable(trial)
            for _ in range(4):
                seed = draw.randbytes(8)
                chosen = protocols[number % len(protocols)]
                yield seed, partial(_refused, partial(_conducted, trial, chosen, Random(seed)))
                trial.begin_anew()
        shutil.rmtree(place)


def _conducted(trial: Trial, protocol: str, draw: Random) -> None:
    wire, left = Wire(trial), draw.randint(0, 12)

    def exchange(asked: Exchange) -> dict[str, bytes]:
        nonlocal left
        found = {}
        for name, reply in wire(asked).items():
            left -= 1
            found[name] = reply if left else altered(reply, draw)
        return found

    drive(trial.conduct(_study_of(trial, protocol), attempts=2), exchange)


def _playable(trial: Trial) -> list[str]:
    """The registered protocols that these vaults can play, found out once."""
    if not _PLAYABLE:
        for protocol, leaders in product(PROTOCOLS, ((), NAMES)):
            with suppress(FhevalError):
                trial.play(trial.study(protocol, leaders=leaders))
                _PLAYABLE.setdefault(protocol, leaders)
        trial.begin_anew()
    return sorted(_PLAYABLE)


# And who must be named as leaders for it.
_PLAYABLE: dict[str, tuple[str, ...]] = {}


def _study_of(trial: Trial, protocol: str) -> Study:
    return trial.study(protocol, leaders=_PLAYABLE[protocol])


# Ciphertexts and keys


def ciphertexts(engine: str, _folder: Path, draw: Random) -> Iterator[Case]:
    """Ciphertexts and keys with payloads that were changed, in envelopes whose checksums are right."""
    all_roles = [Roles.fresh(engine_named(engine), parameters) for parameters in SETS.values()]
    while True:
        roles = draw.choice(all_roles)
        honest = roles.holder.encrypt(np.ones(5, dtype=np.uint64))
        secret, public = roles.keys.secret.reveal(), roles.keys.public
        kind = draw.random()
        if kind < 0.7:
            payload = damaged(roles.payload(container.CIPHERTEXT, honest), draw)
            forged = roles.forged(container.CIPHERTEXT, honest, payload)
            yield forged, partial(_refused, partial(work, roles.evaluator, roles, forged))
            yield forged, partial(_refused, partial(roles.holder.decrypt, forged))
            yield forged, partial(_refused, partial(adding, roles.evaluator, roles, forged, honest))
        elif kind < 0.85:
            payload = damaged(roles.payload(container.SECRET_KEY, secret), draw)
            forged = roles.forged(container.SECRET_KEY, secret, payload)
            yield forged, partial(_refused, partial(take_secret, roles, forged, honest))
        else:
            parts = msgspec.msgpack.decode(roles.payload(container.PUBLIC_KEYS, public))
            place = draw.randrange(len(parts))
            if isinstance(parts[place], bytes):
                parts[place] = damaged(parts[place], draw)
            forged = roles.forged(container.PUBLIC_KEYS, public, msgspec.msgpack.encode(parts))
            yield forged, partial(_refused, partial(take_public, roles, forged, honest))


# Files


def kits(folder: Path, draw: Random) -> Iterator[Case]:
    """Kits, policies and signed studies with a damaged file, and what the aggregator keeps."""
    consortium = make_consortium(folder)
    study = _study()
    _, signed = consortium.authority.sign_study(study)
    anchor = load_kit(consortium.path("alder"), now=NOW).identity.anchor
    copy = folder / "copy"
    while True:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(consortium.path("alder"), copy)
        file = draw.choice(sorted(each for each in copy.rglob("*") if each.is_file()))
        data = altered(file.read_bytes(), draw)
        file.write_bytes(data)
        yield file.name.encode() + b"\n" + data, partial(_refused, partial(load_kit, copy, now=NOW))
        data = altered(signed, draw)
        yield data, partial(_refused, partial(open_study, data, anchor))
        kept = copy / "kept"
        kept.write_bytes(data)
        yield data, partial(kept_keys, kept, policy=b"")
        yield data, partial(kept_rosters, kept, b"")
        yield data, partial(OwedFile, kept)


def _study() -> Study:
    return Study(
        name="fuzz",
        protocol="padded",
        precision=1e-4,
        grid=Grid.even(10),
        max_samples=1 << 16,
        most_rows_per_party=100,
        reveals="counts",
    )


_TOML = """
name = "sepsis-2026"
metrics = ["auc", "recall@0.3", "f1@0.5"]
models = ["old", "new"]
interval = 0.95
protocol = "padded"
precision = 1e-4
release = "ratios"
least_rows = 1000
most_rows_per_party = 2_000
minimum_cohort = 3
rounds = 10
learns = "members"
"""


def studies(folder: Path, draw: Random) -> Iterator[Case]:
    """Studies in TOML and as bytes."""
    file, honest = folder / "study.toml", _study().to_bytes()
    while True:
        text = damaged(_TOML.encode(), draw)
        file.write_bytes(text)
        yield text, partial(_refused, partial(Study.from_file, file))
        data = altered(honest, draw)
        yield data, partial(_refused, partial(Study.from_bytes, data))


def scores(folder: Path, draw: Random) -> Iterator[Case]:
    """Score files of every kind but Arrow.

    Polars ends the process where a damaged length in an Arrow file asks for more memory than there is.
    """
    rng = np.random.default_rng(draw.randrange(1 << 30))
    labels, values = rng.integers(0, 2, 50), rng.random(50)
    frame = polars.DataFrame({"label": labels, "score": values})
    frame.write_csv(folder / "a.csv")
    frame.write_csv(folder / "a.tsv", separator="\t")
    frame.write_parquet(folder / "a.parquet")
    frame.write_ndjson(folder / "a.jsonl")
    np.save(folder / "a.npy", np.column_stack([labels, values]))
    (folder / "a.txt").write_text("".join(f"{label} {value}\n" for label, value in zip(labels, values, strict=True)))
    honest = {file: file.read_bytes() for file in sorted(folder.glob("a.*"))}
    while True:
        file, data = draw.choice(sorted(honest.items()))
        changed = damaged(data, draw)
        victim = folder / f"b{file.suffix}"
        victim.write_bytes(changed)
        yield file.suffix.encode() + b"\n" + changed, partial(_refused, partial(count_file, victim, 20))


def ledgers(folder: Path, draw: Random) -> Iterator[Case]:
    """Damaged states of a vault: refused, or whole."""
    with running(folder, make_consortium(folder)) as trial:
        state = make_state(trial, folder)
        while True:
            seed = draw.randbytes(8)
            yield seed, partial(attack, replace(state), folder / "copy", Random(seed))


TARGETS: dict[str, Target] = {
    "messages": messages,
    "stages": stages,
    "replies": replies,
    "kits": kits,
    "studies": studies,
    "scores": scores,
    "ledgers": ledgers,
    "ciphertexts-seal": partial(ciphertexts, "seal"),
    "ciphertexts-openfhe": partial(ciphertexts, "openfhe"),
}
