"""Acknowledgements of one request, of ShareFetch and ShareAcknowledge alike: made partition by partition,
then waited for until they are written. No API is registered here."""

import asyncio
from collections.abc import Iterable
from typing import Any

from moldau.broker.handlers.apis.share.share_access import Places
from moldau.broker.handlers.parts.broker import Broker
from moldau.broker.share.served import ServedPartition
from moldau.broker.share.sessions import MemberKey
from moldau.broker.share.share_partition import Ack
from moldau.common.core.slow_lane import Slices
from moldau.common.protocol.errors import ErrorCode

Place = tuple[bytes, int]
"""Topic id and partition."""

WRITE_TIMEOUT_SECONDS = 15.0
"""After so long a member is told that its acknowledgements may not be written; they still may be."""


class Acknowledging:
    """See the module. `codes` has an error code for each partition with acknowledgements."""

    def __init__(self, broker: Broker, places: Places, member: MemberKey, *, renews: bool) -> None:
        self._broker = broker
        self._places = places
        self._member_id = member.member_id
        self._renews = renews
        self.codes: dict[Place, int] = {}
        self._pending: list[tuple[Place, ServedPartition, int]] = []

    async def take(self, topics: Iterable[Any], slices: Slices) -> None:
        """Make the acknowledgements of a request's topics."""
        for topic in topics:
            for row in topic.partitions:
                if row.acknowledgement_batches:
                    self._take_one((topic.topic_id, row.partition_index), row.acknowledgement_batches)
                    if slices.spent():
                        await slices.next_slice()

    def _take_one(self, place: Place, batches: list[Any]) -> None:
        served = self._places.served(*place)
        if isinstance(served, int):
            self.codes[place] = served
            return
        acks = [Ack(row.first_offset, row.last_offset, row.acknowledge_types) for row in batches]
        done = served.acknowledge(self._member_id, acks, renews=self._renews)
        self.codes[place] = done.error_code
        if not done.error_code:
            self._pending.append((place, served, done.version))

    async def written(self) -> None:
        """Wait until all of them are written."""
        waits = {
            asyncio.ensure_future(served.written(version)): place for place, served, version in self._pending
        }
        if not waits:
            return
        done, late = await asyncio.wait(waits, timeout=WRITE_TIMEOUT_SECONDS)
        for each in done:
            self.codes[waits[each]] = each.result()
        for each in late:
            each.cancel()
            self.codes[waits[each]] = ErrorCode.COORDINATOR_NOT_AVAILABLE
