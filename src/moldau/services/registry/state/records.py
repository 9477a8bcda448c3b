"""The records of the topic `_schemas`, byte for byte as Confluent's registry writes them.

    {"keytype":"SCHEMA","subject":"s","version":1,"magic":1}
        {"subject":"s","version":1,"id":1,"schemaType":"JSON","references":[..],"metadata":{..},
         "ruleSet":{..},"schema":"..","deleted":false}         without schemaType for AVRO, and empty fields
    {"keytype":"CONFIG","subject":null,"magic":0}              {"compatibilityLevel":"FULL", ..}
    {"keytype":"MODE","subject":"s","magic":0}                 {"subject":"s","mode":"IMPORT"}
    {"keytype":"DELETE_SUBJECT","subject":"s","magic":0}       {"subject":"s","version":3}: up to this version
    {"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}        {"subject":"s"}
    {"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}   {"tenant":"default","context":".c"}
    {"keytype":"NOOP","magic":0}                               nothing, or ours: highest_ids.py

A value of nothing (a tombstone) removes what the key stands for. Compaction goes by a key's bytes: a key that
another registry spelled differently is written with its spelling (state.py remembers it).
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, NamedTuple

from moldau.schemas.schema import Reference
from moldau.services.registry.state.body import AVRO, Version

TENANT = "default"
_SCHEMA_MAGIC = 1
_INT32_MAX = 2**31 - 1
_HALF_CHARACTER = "\\ud"


class KeyType(StrEnum):
    """What a record is about."""

    SCHEMA = "SCHEMA"
    CONFIG = "CONFIG"
    MODE = "MODE"
    NOOP = "NOOP"
    DELETE_SUBJECT = "DELETE_SUBJECT"
    CLEAR_SUBJECT = "CLEAR_SUBJECT"
    CONTEXT = "CONTEXT"


class Key(NamedTuple):
    """A record's key. `subject` is the context for CONTEXT, and "" for what is global.

    `version` is the page for NOOP: the number of spaces after it.
    """

    keytype: KeyType
    subject: str = ""
    version: int = 0


class Record(NamedTuple):
    """A record to write; `value` None is a tombstone."""

    key: Key
    value: dict[str, Any] | None


class UnknownRecord(ValueError):
    """A record that this registry does not understand; it is skipped."""


def encode_json(value: Any) -> bytes:
    """JSON as Jackson writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def encode_key(key: Key) -> bytes:
    """The key's bytes, as Confluent's registry writes them."""
    if key.keytype == KeyType.SCHEMA:
        version = {"subject": key.subject, "version": key.version, "magic": _SCHEMA_MAGIC}
        return encode_json({"keytype": key.keytype, **version})
    if key.keytype == KeyType.CONTEXT:
        return encode_json({"keytype": key.keytype, "tenant": TENANT, "context": key.subject, "magic": 0})
    if key.keytype == KeyType.NOOP:
        return encode_json({"keytype": key.keytype, "magic": 0}) + b" " * key.version
    return encode_json({"keytype": key.keytype, "subject": key.subject or None, "magic": 0})


def parse_key(data: bytes) -> Key:
    """Read a key, in any order of fields and with any others. UnknownRecord."""
    found = _object(data, "key")
    try:
        keytype = KeyType(found.get("keytype", ""))
    except ValueError:
        raise UnknownRecord(f"its key is of the type {found.get('keytype')!r}") from None
    if keytype == KeyType.NOOP:
        return Key(keytype, "", len(data) - len(data.rstrip(b" ")))
    if keytype == KeyType.CONTEXT:
        if found.get("tenant", TENANT) != TENANT:
            raise UnknownRecord("it is of another tenant")
        return Key(keytype, _text(found, "context"))
    subject = "" if found.get("subject") is None else _text(found, "subject")
    if keytype != KeyType.SCHEMA:
        return Key(keytype, subject)
    return Key(keytype, subject, number(found, "version", 1))


def parse_value(data: bytes) -> dict[str, Any]:
    """Read a value. UnknownRecord."""
    return _object(data, "value")


def schema_value(version: Version) -> dict[str, Any]:
    """The value for a version of a subject."""
    body = version.body
    value: dict[str, Any] = {"subject": version.subject, "version": version.version, "id": version.id}
    if body.schema_type != AVRO:
        value["schemaType"] = body.schema_type
    if body.references:
        value["references"] = [reference_value(each) for each in body.references]
    if body.metadata is not None:
        value["metadata"] = body.metadata
    if body.rule_set is not None:
        value["ruleSet"] = body.rule_set
    return {**value, "schema": body.text, "deleted": version.deleted}


def mode_value(subject: str, mode: str) -> dict[str, Any]:
    """The value for a mode; "" is the global one."""
    return {**({"subject": subject} if subject else {}), "mode": mode}


def context_value(context: str) -> dict[str, Any]:
    """The value for a context."""
    return {"tenant": TENANT, "context": context}


def reference_value(reference: Reference) -> dict[str, Any]:
    """A reference, in records and responses."""
    return {"name": reference.name, "subject": reference.subject, "version": reference.version}


def parse_references(raw: Any) -> tuple[Reference, ...]:
    """References of a record or a request. UnknownRecord."""
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise UnknownRecord("its references are no list")
    references = []
    for each in raw:
        if not isinstance(each, dict):
            raise UnknownRecord("a reference is no object")
        references.append(Reference(_text(each, "name"), _text(each, "subject"), number(each, "version", -1)))
    return tuple(references)


def number(found: dict[str, Any], field: str, least: int = 0) -> int:
    """A whole number of a record. UnknownRecord."""
    value = found.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _INT32_MAX:
        raise UnknownRecord(f"its {field} is {value!r}")
    return value


def _text(found: dict[str, Any], field: str) -> str:
    value = found.get(field)
    if not isinstance(value, str):
        raise UnknownRecord(f"its {field} is {value!r}")
    return value


def _object(data: bytes, what: str) -> dict[str, Any]:
    try:
        text = data.decode()
        found = json.loads(text)
        if _HALF_CHARACTER in text.lower():
            encode_json(found)  # half a character, which no response could carry
    except (ValueError, RecursionError) as error:
        raise UnknownRecord(f"its {what} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise UnknownRecord(f"its {what} is no object")
    return found
