"""A fetch of those that catch up rests after a full response, as catch_up_pace.py says."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.broker.replication.following.catch_up_pace import CatchUpPace, Gap
from moldau.broker.replication.following.fetch_parts import FetchParts

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition


async def give_way(
    parts: FetchParts, pace: CatchUpPace, gap: Gap, partitions: "Iterable[Partition]", size_bytes: int
) -> None:
    """Give way to others before the next request. `partitions`: all that catch up with this leader, of which
    the response had so many bytes.
    """
    now_ms = parts.clock.monotonic_ms()
    if gap.is_due(now_ms):
        records, is_waited_for, slices = 0, False, parts.lane.slices()
        for each in list(partitions):  # thousands, perhaps
            if slices.spent():
                await slices.next_slice()
            records += max(0, each.role.leader_high_watermark - each.log.log_end_offset)
            is_waited_for = is_waited_for or each.role.is_under_min_in_sync
        gap.seen(records, is_waited_for=is_waited_for, now_ms=now_ms)
    if gap.hurries:
        return
    now_ms = parts.clock.monotonic_ms()
    rest_ms = pace.rest_ms(size_bytes, now_ms)
    rested: asyncio.Future[None] = parts.host.loop.create_future()
    timer = parts.host.timers.call_later(rest_ms, lambda: rested.set_result(None))
    try:
        await rested
    finally:
        timer.cancel()
    pace.rested(parts.clock.monotonic_ms() - now_ms - rest_ms)
