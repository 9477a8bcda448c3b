"""High watermarks are saved again and again, also when something else that the timer does fails."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moldau.broker.metadata.image import EMPTY_IMAGE
from moldau.broker.replication.high_watermark_checkpoint import HighWatermarkCheckpoint
from moldau.common.core.slow_lane import SlowLane
from moldau.common.core.timers import Timers


class HeldTimers:
    def __init__(self) -> None:
        self.due: list[Any] = []

    def call_later(self, delay_ms: float, call: Any) -> Any:
        assert delay_ms == 5000
        self.due.append(call)
        return SimpleNamespace(cancel=lambda: None)


def test_a_failure_to_open_a_partition_does_not_end_the_checkpoints() -> None:
    saved: list[dict[tuple[str, int], int]] = []
    failures = [RuntimeError("a bug")]

    def open_missing(image: object) -> None:
        if failures:
            raise failures.pop()

    async def scene() -> None:
        timers = HeldTimers()
        partition = SimpleNamespace(topic="t", index=0, high_watermark=7)
        replicas: Any = SimpleNamespace(open_missing=open_missing, partitions=lambda: [partition])
        logs: Any = SimpleNamespace(checkpoints=SimpleNamespace(save_high_watermarks=saved.append))
        lane, host_timers = SlowLane(), cast(Timers, timers)
        saving = HighWatermarkCheckpoint(replicas, logs, lambda: EMPTY_IMAGE, host_timers, lane, 5000)
        saving.start()
        with pytest.raises(RuntimeError):
            timers.due.pop()()
        await asyncio.sleep(0)
        partition.high_watermark = 9
        timers.due.pop()()
        await asyncio.sleep(0)
        saving.stop()

    asyncio.run(asyncio.wait_for(scene(), 5))
    assert saved == [{("t", 0): 7}, {("t", 0): 9}]
