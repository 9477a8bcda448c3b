"""A record of `__consumer_offsets` as a commit: pure.

key    | type 2: 0 or 1 | group | topic | partition |      others are groups' own records
value  | version 2 | offset | ... | commit timestamp |     null: the commit is deleted
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from moldau.common.protocol.messages.coordinator_records import OffsetCommitKey, OffsetCommitValue
from moldau.common.protocol.wire import MalformedMessage

_TYPE = struct.Struct(">h")
_KEY_TYPES = (0, 1)
_VALUE_VERSIONS = (0, 4)


class Committed(NamedTuple):
    """A group's commit; offset None: it is deleted."""

    group: str
    topic: str
    partition: int
    offset: int | None
    timestamp_ms: int


def committed(key: bytes | None, value: bytes | None) -> Committed | None:
    """The commit in a record; None: the record is of another kind, or is not readable."""
    if key is None or len(key) < _TYPE.size or _TYPE.unpack_from(key)[0] not in _KEY_TYPES:
        return None
    try:
        found = OffsetCommitKey.decode(memoryview(key)[_TYPE.size :], 1)
        if value is None:
            return Committed(found.group, found.topic, found.partition, None, 0)
        version = _TYPE.unpack_from(value)[0]
        if not _VALUE_VERSIONS[0] <= version <= _VALUE_VERSIONS[1]:
            return None
        what = OffsetCommitValue.decode(memoryview(value)[_TYPE.size :], version)
    except (MalformedMessage, ValueError, struct.error):
        return None
    return Committed(found.group, found.topic, found.partition, what.offset, what.commit_timestamp)
