"""What the messages of one round are bound to, and with it: signing replies, checking replies and proofs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from fheval import wire
from fheval.consortium import Identity, MemberRecord, Roster, sign, verify
from fheval.errors import RemoteProtocolError
from fheval.party.messages import REFUSAL, Epoch, Proof, Reply, binding
from fheval.protocols import PROTOCOLS, Protocol
from fheval.protocols.base import Answer, Receipt, Stage, Step
from fheval.protocols.round import AGGREGATOR, NONCE_BYTES, Round


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundContext:
    """A round under an epoch, among members whose certificates were checked."""

    round: Round
    epoch: Epoch
    binding: str
    roster_hash: bytes
    members: dict[str, MemberRecord] = field(repr=False)

    @classmethod
    def of(cls, round_: Round, epoch: Epoch, roster: Roster) -> RoundContext:
        return cls(
            round=round_,
            epoch=epoch,
            binding=binding(round_, epoch),
            roster_hash=roster.hash(),
            members={record.name: record for record in roster.members},
        )

    @property
    def protocol(self) -> Protocol:
        return PROTOCOLS[self.round.protocol].of_round(self.round)

    def reply(self, identity: Identity, stage: Stage, answer: Answer) -> bytes:
        """Member: sign the content of a stage."""
        content = wire.encode(answer.body)
        signature = sign(
            identity,
            round_id=self.binding,
            stage=stage.value,
            roster_hash=self.roster_hash,
            payload=_payload(self.protocol.digest(stage, content), answer.nonce),
        )
        return wire.encode(
            Reply(
                stage=stage,
                round=self.round.id,
                sender=identity.name,
                body=content,
                nonce=answer.nonce,
                signature=signature,
            )
        )

    def open_reply(self, data: bytes, sender: str, stage: Stage) -> Reply:
        """Anyone: read what this member must have signed for this stage."""
        reply = read_reply(data, sender)
        if (reply.stage, reply.round, reply.sender) != (stage, self.round.id, sender):
            raise RemoteProtocolError(
                f"A reply of {sender} belongs to another stage, round or member. It was ignored.",
                step=stage.value,
                culprit=sender,
            )
        digest = self.protocol.digest(stage, reply.body)
        self._check(sender, stage, _payload(digest, reply.nonce), reply.signature)
        return reply

    @staticmethod
    def proof(reply: Reply) -> Proof:
        """Aggregator: what it shows to others of a reply that is signed as a whole."""
        digest = sha256(reply.body).digest()
        return Proof(party=reply.sender, digest=digest, nonce=reply.nonce, signature=reply.signature)

    def proof_of(self, reply: Reply) -> Proof:
        """The same of any stage of the protocol."""
        digest = self.protocol.digest(reply.stage, reply.body)
        return Proof(party=reply.sender, digest=digest, nonce=reply.nonce, signature=reply.signature)

    def check_uploads(self, proofs: Sequence[Proof]) -> dict[str, bytes]:
        """Vault: the parties whose uploads arrived, each of which must have signed its own, and their nonces."""
        self.round.require_cohort([proof.party for proof in proofs])
        for proof in proofs:
            if (len(proof.digest), len(proof.nonce)) != (sha256().digest_size, NONCE_BYTES):
                raise RemoteProtocolError(
                    "A claimed upload has no digest or nonce. The round was aborted.", step="proofs", culprit=AGGREGATOR
                )
            self._check(proof.party, Stage.SUBMIT, _payload(proof.digest, proof.nonce), proof.signature)
        return {proof.party: proof.nonce for proof in proofs}

    def cited(self, step: Step, proofs: Sequence[Proof]) -> tuple[Sequence[Proof], list[tuple[Stage, Proof]]]:
        """The proofs of uploads, and those of what the members of a committee answered, each with its stage."""
        keepers = self.protocol.keepers(self.round)
        stages = [
            part
            for stage in step.cited
            if stage not in (Stage.SUBMIT, Stage.RESULT)
            for part in stage.parts[: self.protocol.parts_of(self.round, stage)]
        ]
        expected = [(stage, keeper) for stage in stages for keeper in keepers]
        uploads = proofs[: len(proofs) - len(expected)]
        others = proofs[len(uploads) :]
        if [proof.party for proof in others] != [keeper for _, keeper in expected]:
            raise RemoteProtocolError(
                "What the committee answered came without its members' signatures. The round was aborted.",
                step=step.stage.value,
                culprit=AGGREGATOR,
            )
        return uploads, [(stage, proof) for (stage, _), proof in zip(expected, others, strict=True)]

    def check_cited(self, cited: Sequence[tuple[Stage, Proof]]) -> dict[tuple[Stage, str], bytes]:
        """Vault: the digests of what members have answered, each of which it must have signed."""
        for stage, proof in cited:
            if len(proof.digest) != sha256().digest_size:
                raise RemoteProtocolError(
                    "A claimed answer has no digest. The round was aborted.", step="proofs", culprit=AGGREGATOR
                )
            self._check(proof.party, stage, _payload(proof.digest, proof.nonce), proof.signature)
        return {(stage, proof.party): proof.digest for stage, proof in cited}

    def check_leaders(self, body: bytes, proofs: Sequence[Proof]) -> None:
        """Vault: this must be what the leader answered with the result."""
        leader = self.round.leader
        if [proof.party for proof in proofs] != [leader]:
            raise RemoteProtocolError(
                "What the leader found came without its signature. The round was aborted.",
                step=Stage.BROADCAST.value,
                culprit=AGGREGATOR,
            )
        self._check(leader, Stage.RESULT, _payload(sha256(body).digest(), b""), proofs[0].signature)

    def check_voided(self, proofs: Sequence[Proof]) -> None:
        """Vault: who could open this round must have signed that it never will: all, or one that all others need."""
        openers = self.protocol.openers(self.round)
        signers = tuple(proof.party for proof in proofs)
        enough = set(signers).issubset(openers) and signers if self.protocol.one_voids else signers == openers
        if not enough:
            raise RemoteProtocolError(
                "A round is said to be void by others than those who could open it. It still counts.",
                step=Stage.VOIDED.value,
                culprit=AGGREGATOR,
            )
        promise = sha256(wire.encode(Receipt(round=self.round.id))).digest()
        for proof in proofs:
            self._check(proof.party, Stage.VOID, _payload(promise, b""), proof.signature)

    def _check(self, sender: str, stage: Stage, payload: bytes, signature: bytes) -> None:
        if sender not in self.members:
            raise RemoteProtocolError(
                f"{sender!r} is no party of this round. Its message was ignored.", step=stage.value, culprit=sender
            )
        verify(
            self.members[sender],
            signature,
            round_id=self.binding,
            stage=stage.value,
            roster_hash=self.roster_hash,
            payload=payload,
        )


def _payload(digest: bytes, nonce: bytes) -> bytes:
    """What is signed of a reply: the digest of its content, which has one length, and the nonce."""
    return digest + nonce


def read_reply(data: bytes, sender: str) -> Reply:
    """Read a reply; a refusal is an error, though it does not say why."""
    if data == REFUSAL:
        raise RemoteProtocolError(
            f"The vault of {sender} refused. Its operator finds the reason in the vault's log.",
            step="reply",
            culprit=sender,
        )
    return wire.decode(data, Reply, sender=sender)
