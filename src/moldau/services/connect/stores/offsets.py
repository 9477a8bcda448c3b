"""connect-offsets: where each partition of a source connector stands; 25 partitions, compacted.

    ["name",{"file":"/x"}]  ->  {"position":17}        null: forgotten, read from the beginning

Kafka Connect finds an offset by the bytes of its key. Two keys with the same members in another order are
two for it, and one for us: the later record counts, and forgetting writes a tombstone for each spelling.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from moldau.services.connect.stores.java_json import decode, decode_object, encode

log = logging.getLogger("moldau.connect.stores.offsets")

BytesRecord = tuple[bytes, bytes | None]


class KnownOffset(NamedTuple):
    """Where a partition stands."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None


def partition_id(partition: Mapping[str, Any]) -> str:
    """The same text for the same partition, in whatever order its members come."""
    return json.dumps(partition, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class OffsetsState:
    """What the topic says."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, dict[bytes, KnownOffset]]] = {}
        """By connector, partition and spelling of the key; the latest last."""

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record."""
        key = key or b""
        try:
            connector, partition = decode(key)
            if not isinstance(connector, str) or not isinstance(partition, dict):
                raise ValueError('its key is not ["connector", {partition}]')
            offset = None if value is None else decode_object(value)
            partitions, place = self._known.setdefault(connector, {}), partition_id(partition)
        except (ValueError, TypeError, RecursionError) as problem:
            log.warning("the offset record %r is not understood and skipped: %s", key[:100], problem)
            return
        spelled = partitions.setdefault(place, {})
        spelled.pop(key, None)
        if offset is not None:
            spelled[key] = KnownOffset(partition, offset)
        elif not spelled:
            del partitions[place]

    def offsets(self, connector: str) -> list[KnownOffset]:
        """All that is known of a connector."""
        return [list(spelled.values())[-1] for spelled in self._known.get(connector, {}).values()]

    def offset(self, connector: str, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Where one partition stands; None: nothing is known."""
        spelled = self._spelled(connector, partition)
        return list(spelled.values())[-1].offset if spelled else None

    def _spelled(self, connector: str, partition: Mapping[str, Any]) -> dict[bytes, KnownOffset]:
        return self._known.get(connector, {}).get(partition_id(partition), {})

    def removal_records(self, connector: str, partition: Mapping[str, Any]) -> list[BytesRecord]:
        """Forget one partition."""
        spellings = {*self._spelled(connector, partition), offset_key(connector, partition)}
        return [(each, None) for each in sorted(spellings)]

    def records(self, connector: str, wanted: Iterable[KnownOffset]) -> list[BytesRecord]:
        """Set offsets; None forgets."""
        made: list[BytesRecord] = []
        for each in wanted:
            if each.offset is None:
                made += self.removal_records(connector, each.partition)
            else:
                key = offset_key(connector, each.partition)
                others = {*self._spelled(connector, each.partition)} - {key}
                made += [(other, None) for other in sorted(others)]
                made.append((key, encode(dict(each.offset))))
        return made


def offset_key(connector: str, partition: Mapping[str, Any]) -> bytes:
    """The record's key."""
    return encode([connector, dict(partition)])
