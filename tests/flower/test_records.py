"""Bytes survive Flower's records; anything else is refused."""

from __future__ import annotations

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fheval.errors import RemoteProtocolError
from fheval.flower.records import pack, unpack


@pytest.mark.parametrize("data", [b"", b"\0", bytes(range(256)), b"x" * (6 << 20)])
def test_bytes_come_back(data: bytes) -> None:
    assert unpack(pack(data), sender="birch") == data


def numbers() -> ArrayRecord:
    array = Array(dtype="int64", shape=(1,), stype="numpy.ndarray", data=bytes(8))
    return ArrayRecord({"bytes": array})


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"fheval": ConfigRecord({"bytes": b"x"})}),
        RecordDict({"fheval": ArrayRecord()}),
        RecordDict({"fheval": numbers()}),
        RecordDict({**pack(b"x"), "more": ConfigRecord()}),
    ],
    ids=["empty", "another record", "no array", "numbers", "something beside it"],
)
def test_anything_else_is_the_senders_fault(content: RecordDict) -> None:
    with pytest.raises(RemoteProtocolError, match="birch carries no bytes of fheval") as caught:
        unpack(content, sender="birch")
    assert caught.value.culprit == "birch"
