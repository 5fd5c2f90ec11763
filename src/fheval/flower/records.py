"""Bytes in Flower's records: a message carries one run of bytes, in an array, and nothing else."""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, RecordDict

from fheval.errors import RemoteProtocolError

# Flower routes a message by these words: `query` is one of its own three categories, the action is ours.
ACTION = "vault"
MESSAGE_TYPE = f"query.{ACTION}"

_RECORD = "fheval"
_ARRAY = "bytes"


def pack(data: bytes) -> RecordDict:
    """Bytes as the content of a message; arrays travel in chunks, so that their size is not limited by one request."""
    array = Array(dtype="bytes", shape=(len(data),), stype="raw", data=data)
    return RecordDict({_RECORD: ArrayRecord({_ARRAY: array})})


def unpack(content: RecordDict, *, sender: str) -> bytes:
    """The bytes in a message's content, or a `RemoteProtocolError` where there is something else."""
    record = content.array_records.get(_RECORD, ArrayRecord())
    array = record.get(_ARRAY)
    if array is None or array.stype != "raw" or len(content) != 1 or len(record) != 1:
        raise RemoteProtocolError(
            f"A message from {sender} carries no bytes of fheval. Check that all members run compatible versions.",
            step="records",
            culprit=sender,
        )
    return bytes(array.data)
