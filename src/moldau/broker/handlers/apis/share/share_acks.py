"""Acknowledgements of one request, of ShareFetch and ShareAcknowledge alike: made partition by partition,
then waited for until they are written. No API is registered here."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from moldau.broker.handlers.apis.share.share_access import Places
from moldau.broker.handlers.parts.broker import Broker
from moldau.broker.share.sessions import MemberKey
from moldau.broker.share.share_partition import Ack
from moldau.common.core.slow_lane import Slices
from moldau.common.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.share.served import ServedPartition

Place = tuple[bytes, int]
"""Topic id and partition."""

AT_ONCE = 4000
"""Ranges, and types of single offsets, that are acknowledged in one slice."""
WRITE_TIMEOUT_SECONDS = 15.0
"""After so long a member is told that its acknowledgements may not be written; they still may be."""


def pieces(served: "ServedPartition", batches: Sequence[Any]) -> Iterator[list[Ack]]:
    """A partition's acknowledgements, a few thousand ranges at a time: usually all in one piece, which is
    made or refused as a whole."""
    piece: list[Ack] = []
    size = 0
    for row in batches:
        first, last, types = row.first_offset, row.last_offset, row.acknowledge_types
        whole = len(types) <= AT_ONCE or len(types) != last - first + 1 or not served.may_hold(last)
        for start in (0,) if whole else range(0, len(types), AT_ONCE):
            if not whole:
                kinds = types[start : start + AT_ONCE]
                piece.append(Ack(first + start, first + start + len(kinds) - 1, kinds))
                size += len(kinds)
            else:
                piece.append(Ack(first, last, types))
                size += min(len(types), AT_ONCE)
            if size >= AT_ONCE:
                yield piece
                piece, size = [], 0
    if piece:
        yield piece


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
            for number, row in enumerate(topic.partitions):
                if not number % 1000 and slices.spent():
                    await slices.next_slice()
                if row.acknowledgement_batches:
                    place = (topic.topic_id, row.partition_index)
                    for _ in self._take_one(place, row.acknowledgement_batches):
                        if slices.spent():
                            await slices.next_slice()

    def _take_one(self, place: Place, batches: list[Any]) -> Iterator[None]:
        served = self._places.served(*place)
        if isinstance(served, int):
            self._told(place, served)
            return
        for acks in pieces(served, batches):
            done = served.acknowledge(self._member_id, acks, renews=self._renews)
            self._told(place, done.error_code)
            yield
            if done.error_code:
                return
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
            self._told(waits[each], each.result())
        for each in late:
            each.cancel()
            self._told(waits[each], ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _told(self, place: Place, code: int) -> None:
        """A part of a partition's acknowledgements has this result; the first error counts for all."""
        self.codes[place] = self.codes.get(place, 0) or code
