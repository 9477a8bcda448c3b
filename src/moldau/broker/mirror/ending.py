"""The end of a mirrored partition: its open transactions are aborted, and then clients may write.

Nothing is pulled any more, and the partition is in a leader epoch that the source never gave. The markers
have the producers' epochs + 1, so that a producer of the source that comes here is fenced. Only once they are
committed is the partition said to be done: who leads next then has them too, or begins again here.
"""

import asyncio
import logging

from moldau.broker.controller.mirrors import PRODUCER_ID_MAX, partitions_done
from moldau.broker.metadata.mirrors import MirrorState
from moldau.broker.mirror.parts import MirrorParts
from moldau.broker.replication.mirrored import abort_open_transactions
from moldau.broker.replication.partition import Partition

log = logging.getLogger("moldau.mirror")

_AGAIN_MS = 500.0


class _Commit:
    """Waits until markers are committed."""

    def __init__(self, future: "asyncio.Future[int]") -> None:
        self._future = future

    def settle(self, error_code: int, partition: Partition) -> None:
        if not self._future.done():
            self._future.set_result(error_code)


async def end_partition(parts: MirrorParts, partition: Partition) -> None:
    """Abort what is open, and say that the partition is done; again, as long as this broker leads it."""
    while partition.leads and partition.is_mirror:
        try:
            if await _end(parts, partition):
                return
        except Exception:
            log.exception("ending the mirror %s-%d failed: this is a bug", partition.topic, partition.index)
        await parts.pause(_AGAIN_MS)


async def _end(parts: MirrorParts, partition: Partition) -> bool:
    if partition.log.is_cutting:
        return False
    end_offset = abort_open_transactions(partition, parts.clock.now_ms())
    if end_offset is None:
        return False
    committed: asyncio.Future[int] = parts.host.loop.create_future()
    partition.wait_for(end_offset, _Commit(committed))
    error_code = await committed
    if error_code:
        return False
    highest = max((each for each in partition.log.producers.states if each <= PRODUCER_ID_MAX), default=-1)
    return await parts.controller.decide(
        lambda image: partitions_done(
            image, partition.topic, MirrorState.FAILING_OVER, (partition.index,), parts.node_id, highest
        ),
        lambda failure: False,
    )
