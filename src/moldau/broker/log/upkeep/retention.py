"""Which of a log's oldest segments may go: pure, by the topic's settings.

Segments go in order and whole, never above the high watermark. A segment goes when everything in it lies
below the log start offset (DeleteRecords), when the log would still hold retention.bytes without it, or when
its newest record is older than retention.ms. The last two need the policy `delete`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from moldau.common.settings.topic import TopicSettings


class Stretch(NamedTuple):
    """A segment, as retention sees it."""

    base_offset: int
    end_offset: int
    size_bytes: int
    newest_ms: int
    """The largest timestamp, or when the file was last written if its records carry none."""


def expendable(
    stretches: Sequence[Stretch],
    settings: TopicSettings,
    log_start_offset: int,
    high_watermark: int,
    now_ms: int,
    *,
    by_settings: bool = True,
) -> int:
    """How many segments, from the oldest on, may go (perhaps all: then a new one must be begun first). Not
    `by_settings`: only what lies below the log start offset."""
    deletes = by_settings and settings.deletes
    excess_bytes = sum(stretch.size_bytes for stretch in stretches) - settings.retention_bytes
    count = 0
    for stretch in stretches:
        last = stretch is stretches[-1]
        if stretch.end_offset > high_watermark or (last and not stretch.size_bytes):
            break
        below_start = not last and stretch.end_offset <= log_start_offset
        by_size = deletes and settings.retention_bytes >= 0 and excess_bytes >= stretch.size_bytes
        by_time = deletes and 0 <= settings.retention_ms < now_ms - stretch.newest_ms
        if not (below_start or by_size or by_time):
            break
        excess_bytes -= stretch.size_bytes
        count += 1
    return count
