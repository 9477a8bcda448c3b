"""Records of the coordinators' topics as the JSON of Kafka's formatters.

    {"key":{"type":1,"data":{"group":"g","topic":"t","partition":0}},"value":{"version":4,"data":{...}}}

The fields are those of the record's version, spelled as in Kafka's schemas; bytes are base64. Like Kafka's,
the documents follow one another without a line break.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from typing import Any

from moldau.common.core.ids import uuid_to_text
from moldau.common.protocol.declare import Message, Struct
from moldau.common.protocol.messages import coordinator_records as groups
from moldau.common.protocol.messages import share_state_records as share_states
from moldau.common.protocol.messages import transaction_records as transactions
from moldau.common.protocol.wire import MalformedMessage

_PREFIX = struct.Struct(">h")
OFFSETS: dict[int, tuple[type[Message], type[Message]]] = {
    0: (groups.OffsetCommitKey, groups.OffsetCommitValue),
    1: (groups.OffsetCommitKey, groups.OffsetCommitValue),
}
GROUPS: dict[int, tuple[type[Message], type[Message]]] = {
    2: (groups.GroupMetadataKey, groups.GroupMetadataValue),
}
TRANSACTIONS: dict[int, tuple[type[Message], type[Message]]] = {
    0: (transactions.TransactionLogKey, transactions.TransactionLogValue),
}
SHARE_STATES: dict[int, tuple[type[Message], type[Message]]] = {
    0: (share_states.ShareSnapshotKey, share_states.ShareSnapshotValue),
    1: (share_states.ShareUpdateKey, share_states.ShareUpdateValue),
}


def _formatter(kinds: dict[int, tuple[type[Message], type[Message]]]) -> Callable[[Any], bytes]:
    def form(message: Any) -> bytes:
        key, value = message.key(), message.value()
        number = _PREFIX.unpack_from(key)[0] if key is not None and len(key) >= _PREFIX.size else -1
        if number not in kinds:
            return b""
        key_kind, value_kind = kinds[number]
        document = {
            "key": {"type": number, "data": _data(key_kind, key, number)},
            "value": None if value is None else _value(value_kind, value),
        }
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()

    return form


def _value(kind: type[Message], data: bytes) -> dict[str, Any]:
    version = _PREFIX.unpack_from(data)[0] if len(data) >= _PREFIX.size else -1
    return {"version": version, "data": _data(kind, data, version)}


def _data(kind: type[Message], data: bytes, version: int) -> Any:
    try:
        return plain(kind.decode(data, version, _PREFIX.size), version)
    except (MalformedMessage, ValueError):
        return "unknown"


def plain(message: Struct, version: int) -> dict[str, Any]:
    """Return a message as a dictionary: the fields of this version, without tagged ones at their defaults."""
    found = {}
    for name, (_, declared) in message.FIELDS.items():
        value = getattr(message, name)
        if not declared.since <= version <= (version if declared.until is None else declared.until):
            continue
        if declared.tag is not None and value == getattr(type(message)(), name):
            continue
        found[_camel(name)] = _plain(value, version, name)
    return found


def _plain(value: Any, version: int, name: str) -> Any:
    if isinstance(value, Struct):
        return plain(value, version)
    if isinstance(value, list | tuple):
        return [_plain(each, version, name) for each in value]
    if isinstance(value, bytes | memoryview):
        return uuid_to_text(bytes(value)) if name.endswith("_id") else base64.b64encode(bytes(value)).decode()
    return value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)


FORMATTERS: dict[str, Callable[[Any], bytes]] = {
    "OffsetsMessageFormatter": _formatter(OFFSETS),
    "GroupMetadataMessageFormatter": _formatter(GROUPS),
    "TransactionLogMessageFormatter": _formatter(TRANSACTIONS),
}
