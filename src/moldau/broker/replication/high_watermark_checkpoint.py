"""Writes replication-offset-checkpoint every replica.high.watermark.checkpoint.interval.ms, as Kafka does.

The same timer retries partitions that could not be created on a full disk. Thousands of partitions are
handled in slices of the loop's time.
"""

import asyncio
from collections.abc import Callable

from moldau.broker.log.manager import LogManager
from moldau.broker.metadata.image import Image
from moldau.broker.replication.manager import ReplicaManager
from moldau.common.core.slow_lane import SlowLane
from moldau.common.core.timers import TimerHandle, Timers


class HighWatermarkCheckpoint:
    """Saves the high watermarks of all partitions every `interval_ms`, from `start` to `stop`."""

    def __init__(
        self,
        replicas: ReplicaManager,
        logs: LogManager,
        image: Callable[[], Image],
        timers: Timers,
        lane: SlowLane,
        interval_ms: int,
    ) -> None:
        self._replicas = replicas
        self._logs = logs
        self._image = image
        self._timers = timers
        self._lane = lane
        self._interval_ms = interval_ms
        self._timer: TimerHandle | None = None
        self._saving: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Save for the first time when the interval has passed."""
        self._timer = self._timers.call_later(self._interval_ms, self._due)

    def stop(self) -> None:
        """Save no more; what is being collected is dropped."""
        if self._timer is not None:
            self._timer.cancel()
        if self._saving is not None:
            self._saving.cancel()

    def _due(self) -> None:
        self.start()  # first: whatever fails below is tried again
        if self._saving is None or self._saving.done():
            self._saving = asyncio.get_running_loop().create_task(self._save())
        self._replicas.open_missing(self._image())

    async def _save(self) -> None:
        high_watermarks = {}
        async for each in self._lane.slices().each(list(self._replicas.partitions())):
            high_watermarks[each.topic, each.index] = each.high_watermark
        self._logs.checkpoints.save_high_watermarks(high_watermarks)
