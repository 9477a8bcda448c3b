"""What members of the group tell each other, in Confluent's JSON: both kinds of registry may share a group.

    member       {"version":1,"host":"a","port":8081,"master_eligibility":true,"scheme":"http"}
    assignment   {"version":1,"error":0,"master":"member id","master_identity":{..}}

Ours says `moldau_primary` too: who is primary stays it while it lives. Confluent's instances skip that field.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from moldau.services.registry.state.records import encode_json

PROTOCOL_TYPE = "sr"
PROTOCOL_NAME = "v0"
_VERSION = 1
_PRIMARY = "moldau_primary"


class Identity(NamedTuple):
    """Where an instance is reached, and whether it may write."""

    host: str
    port: int
    eligible: bool = True
    scheme: str = "http"
    is_primary: bool = False

    @property
    def url(self) -> str:
        """The address of its HTTP service."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class Assignment(NamedTuple):
    """What the group's leader decided: the primary's member id and identity; None: there is none."""

    primary: str | None
    identity: Identity | None
    error: int = 0


def encode_identity(identity: Identity) -> bytes:
    """A member's metadata."""
    return encode_json(_identity_json(identity))


def encode_assignment(assignment: Assignment) -> bytes:
    """The assignment that all members get."""
    found: dict[str, Any] = {"version": _VERSION, "error": assignment.error}
    if assignment.primary is not None and assignment.identity is not None:
        found |= {"master": assignment.primary, "master_identity": _identity_json(assignment.identity)}
    return encode_json(found)


def parse_identity(data: bytes) -> Identity:
    """A member's metadata. ValueError."""
    return _identity(_object(data))


def parse_assignment(data: bytes) -> Assignment:
    """An assignment. ValueError."""
    found = _object(data)
    primary, identity = found.get("master"), found.get("master_identity")
    if primary is None or identity is None:
        return Assignment(None, None, int(found.get("error", 0)))
    return Assignment(str(primary), _identity(identity), int(found.get("error", 0)))


def _identity_json(identity: Identity) -> dict[str, Any]:
    found = {
        "version": _VERSION,
        "host": identity.host,
        "port": identity.port,
        "master_eligibility": identity.eligible,
        "scheme": identity.scheme,
    }
    return {**found, _PRIMARY: True} if identity.is_primary else found


def _identity(found: Any) -> Identity:
    if not isinstance(found, dict) or not isinstance(found.get("host"), str):
        raise ValueError("a member's identity has no host")
    port = found.get("port")
    if not isinstance(port, int) or isinstance(port, bool):
        raise ValueError("a member's identity has no port")
    eligible = found.get("master_eligibility", found.get("leader_eligibility"))
    return Identity(
        found["host"],
        port,
        eligible is True,
        str(found.get("scheme") or "http"),
        found.get(_PRIMARY) is True,
    )


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(bytes(data))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    return found
