"""FindCoordinator (key 10, versions 0-6): which broker coordinates a group, a transactional id or a share
group.

    v1   key_type
    v3   flexible
    v4   several keys at once (KIP-699)
    v5   TRANSACTION_ABORTABLE may be answered (KIP-890)
    v6   share groups (KIP-932)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int8,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    field,
    message,
    response_to,
    since,
)


@message(key=10, versions=(0, 6), flexible_from=3)
class FindCoordinatorRequest(Message):
    """The key, or from version 4 the keys, to look up; key_type 0 is a group, 1 a transactional id, 2 a
    share group."""

    key: String = field(until=3)
    key_type: Int8 = since(1)
    coordinator_keys: list[String] = since(4)


@response_to(FindCoordinatorRequest)
class FindCoordinatorResponse(Message):
    """The broker that coordinates each key."""

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = field(until=3)
    error_message: NullableString = since(1, until=3, ignorable=True)
    node_id: Int32 = field(until=3)
    host: String = field(until=3)
    port: Int32 = field(until=3)
    coordinators: list[Coordinator] = since(4)


class Coordinator(Struct):
    key: String = since(4)
    node_id: Int32 = since(4)
    host: String = since(4)
    port: Int32 = since(4)
    error_code: Int16 = since(4)
    error_message: NullableString = since(4, ignorable=True)
