"""Decodes the records of `__consumer_offsets`, `__transaction_state` and `__share_group_state`.

The first two bytes of the key are the record type, the first two of the value its version; both select a
declaration of protocol/messages/coordinator_records.py, transaction_records.py or share_state_records.py.
Unknown types are shown as bytes.
"""

from __future__ import annotations

import inspect
import struct
from types import ModuleType
from typing import Any

from moldau.broker.coordinator.transaction.states import NAMES
from moldau.common.protocol.declare import Message, Struct
from moldau.common.protocol.messages import coordinator_records, share_state_records, transaction_records
from moldau.common.protocol.wire import MalformedMessage
from moldau.common.records.record import Record

_PREFIX = struct.Struct(">h")


class _Declared:
    """The declared keys and values of one topic, by record type."""

    def __init__(self, module: ModuleType) -> None:
        self.by_name: dict[str, type[Message]] = {
            name: declared
            for name, declared in inspect.getmembers(module, inspect.isclass)
            if issubclass(declared, Message) and declared is not Message
        }
        self.keys: dict[int, str] = {
            number: name
            for name, declared in self.by_name.items()
            if name.endswith("Key")
            for number in range(declared.VERSIONS[0], declared.VERSIONS[1] + 1)
        }


_OFFSETS = _Declared(coordinator_records)
_TRANSACTIONS = _Declared(transaction_records)
_SHARE_STATES = _Declared(share_state_records)


def decode_offsets_record(record: Record) -> dict[str, Any]:
    """Return key and value of a record of `__consumer_offsets` as plain values; a null value is a
    tombstone.
    """
    return _decode(record, _OFFSETS)


def decode_transaction_record(record: Record) -> dict[str, Any]:
    """Return key and value of a record of `__transaction_state` as plain values, with the state's name."""
    shown = _decode(record, _TRANSACTIONS)
    payload = shown["payload"]
    if isinstance(payload, dict):
        names = {int(state): name for state, name in NAMES.items()}
        payload["state"] = names.get(payload["transaction_status"], "unknown")
    return shown


def decode_share_state_record(record: Record) -> dict[str, Any]:
    """Return key and value of a record of `__share_group_state` as plain values; a null value is a
    tombstone.
    """
    return _decode(record, _SHARE_STATES)


def _decode(record: Record, declared: _Declared) -> dict[str, Any]:
    if record.key is None or len(record.key) < _PREFIX.size:
        return {"key": record.key, "payload": record.value}
    number = _PREFIX.unpack_from(record.key)[0]
    name = declared.keys.get(number)
    if name is None:
        return {"key": {"type": number, "data": bytes(record.key[2:]).hex()}, "payload": _hex(record.value)}
    try:
        key = _plain(declared.by_name[name].decode(record.key, number, _PREFIX.size))
        shown: dict[str, Any] = {"key": {"type": number, "name": name.removesuffix("Key")} | key}
        value = None
        if record.value is not None:
            version = _PREFIX.unpack_from(record.value)[0]
            kind = declared.by_name[name.removesuffix("Key") + "Value"]
            value = {"version": version} | _plain(kind.decode(record.value, version, _PREFIX.size))
    except (MalformedMessage, struct.error, ValueError) as problem:
        return {"key": bytes(record.key), "payload": _hex(record.value), "damaged": str(problem)}
    return shown | {"payload": value}


def _plain(value: Any) -> Any:
    """Convert a message into dictionaries and lists; bytes that are not UTF-8 into hexadecimal."""
    if isinstance(value, Message | Struct):
        return {name: _plain(getattr(value, name)) for name in type(value).__dict__["__slots__"]}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return _hex(value) if isinstance(value, bytes | memoryview) else value


def _hex(value: Any) -> Any:
    return None if value is None else bytes(value).hex()
