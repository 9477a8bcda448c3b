"""A schema as it is stored: text, type, references, metadata and rules; equal versions share it.

Its guid is the MD5 of all but the type, written as a UUID (Confluent's Schema.getGuid). Two registrations
with one guid have one id within a context.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from typing import NamedTuple

from moldau.schemas.schema import Reference
from moldau.services.registry.state.document import Document, hash_metadata, hash_rule_set

AVRO = "AVRO"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Body:
    """What versions of a schema share. Made by `make_body`."""

    schema_type: str
    """AVRO, JSON, PROTOBUF, or what another registry's extension wrote."""
    text: str
    references: tuple[Reference, ...]
    metadata: Document | None
    rule_set: Document | None
    guid_bytes: bytes

    @property
    def guid(self) -> str:
        """The guid, as it is shown."""
        return str(uuid.UUID(bytes=self.guid_bytes))


class Version(NamedTuple):
    """A version of a subject."""

    subject: str
    version: int
    id: int
    body: Body
    deleted: bool
    timestamp_ms: int
    """When its record was written, in milliseconds since 1970."""


def make_body(
    schema_type: str,
    text: str,
    references: tuple[Reference, ...] = (),
    metadata: Document | None = None,
    rule_set: Document | None = None,
) -> Body:
    """A body with its guid."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False)
    for reference in references:
        digest.update(reference.name.encode() + reference.subject.encode())
        digest.update(reference.version.to_bytes(4, "big", signed=True))
    if metadata is not None:
        digest.update(b"\x01")
        hash_metadata(digest, metadata)
    if rule_set is not None:
        digest.update(b"\x01")
        hash_rule_set(digest, rule_set)
    return Body(schema_type, text, references, metadata, rule_set, digest.digest())
