"""Shows the records of the coordinators: which group, member, offset or transactional id a key names, and
what its value says.

The record type stands in the first two bytes of the key, the value's version in the first two of the value;
both select among the declarations of protocol/messages/coordinator_records.py (`__consumer_offsets`) or
transaction_records.py (`__transaction_state`). What is not known is shown as bytes.
"""

from __future__ import annotations

import inspect
import struct
from types import ModuleType
from typing import Any

from moldau.coordinator.transaction.states import NAMES
from moldau.protocol.declare import Message, Struct
from moldau.protocol.messages import coordinator_records, transaction_records
from moldau.protocol.wire import MalformedMessage
from moldau.records.record import Record

_PREFIX = struct.Struct(">h")


class _Declared:
    """The keys and values of one topic, by the number in the key."""

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


def decode_offsets_record(record: Record) -> dict[str, Any]:
    """Give `key` and `payload` as plain values; a null payload deletes what the key names."""
    return _decode(record, _OFFSETS)


def decode_transaction_record(record: Record) -> dict[str, Any]:
    """Give a record of `__transaction_state` so, with the state's name beside its number."""
    shown = _decode(record, _TRANSACTIONS)
    payload = shown["payload"]
    if isinstance(payload, dict):
        names = {int(state): name for state, name in NAMES.items()}
        payload["state"] = names.get(payload["transaction_status"], "unknown")
    return shown


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
    """Turn a message into dictionaries and lists; bytes that are not text into hexadecimal."""
    if isinstance(value, Message | Struct):
        return {name: _plain(getattr(value, name)) for name in type(value).__dict__["__slots__"]}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return _hex(value) if isinstance(value, bytes | memoryview) else value


def _hex(value: Any) -> Any:
    return None if value is None else bytes(value).hex()
