"""What must hold of each partition after every callback of its broker.

log start <= last stable offset <= high watermark <= written end
the high watermark never falls while the broker lives
where an fsync stands before the answer, the high watermark lies within what was fsynced
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.broker.node import Node
from moldau.broker.replication.partition import Partition


class Invariants:
    """Of one life of a broker."""

    def __init__(self, may_lose: Callable[[], bool] = lambda: False) -> None:
        """`may_lose`: after an unclean election a follower may truncate below its high watermark."""
        self._may_lose = may_lose
        self._high_watermarks: dict[Partition, int] = {}

    def check(self, node: Node) -> None:
        """AssertionError names what does not hold."""
        replicas = getattr(node, "replicas", None)
        if replicas is None:
            return
        known = self._high_watermarks
        for partition in replicas.partitions():
            if known.get(partition) != partition.high_watermark:
                self._moved(partition, known.get(partition, 0))
                known[partition] = partition.high_watermark

    def _moved(self, partition: Partition, before: int) -> None:
        log, high_watermark = partition.log, partition.high_watermark
        name = f"{partition.topic}-{partition.index}"
        assert high_watermark >= before or self._may_lose(), (
            f"{name}: the high watermark fell from {before} to {high_watermark}"
        )
        assert high_watermark <= log.written_end_offset, (
            f"{name}: high watermark {high_watermark}, written only to {log.written_end_offset}"
        )
        assert log.log_start_offset <= partition.last_stable_offset <= high_watermark, (
            f"{name}: last stable offset {partition.last_stable_offset} outside of"
            f" {log.log_start_offset} .. {high_watermark}"
        )
        if partition.flush_before_commit:
            assert high_watermark <= max(log.flushed_end_offset, log.log_start_offset), (
                f"{name}: high watermark {high_watermark}, fsynced only to {log.flushed_end_offset}"
            )
