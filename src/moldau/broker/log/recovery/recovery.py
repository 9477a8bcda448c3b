"""Opens a partition's directory, after a clean stop or a crash.

After a clean stop sizes, indexes and snapshots are used as they are, if every segment ends with a whole batch
and the log at its recovery point. After a crash, what lies below the recovery point is on the disk; from
there on every batch is read and checked (header, crc, order), the log is cut at the first that is not whole,
and whatever stood behind it goes. Indexes are rebuilt from there too, the leader epochs completed from the
batches, the producers' state from a snapshot and the headers that follow it, and with that state the indexes
of aborted transactions. Then the log is exactly a prefix of what was appended, as long as everything forced
to disk, at least.

    ....batch batch|batch batch ba~~~            |: recovery point, checked from here
                                ^ cut here

Where any file shows that the log was longer (end_offset_hints.py), and no other replica has what is lost, it
goes on behind that: offsets that were acknowledged are not given to other records. Such a gap is logged, and
filled (end_gap.py), so that readers pass over it as over one of compaction's.

Interrupted deletions and compactions are finished or undone first (leftovers.py); Kafka's preallocated
indexes lose their padding. Between two segments there may be a gap that compaction has left, but only below
the recovery point or what is known to be compacted: elsewhere a gap is a loss.

Runs in recovery threads, before the log is known to the event loop. Not here: the steps (opening.py), many
logs at once (loading.py).
"""

import logging
import random
from collections.abc import Mapping
from typing import NamedTuple

from moldau.broker.log.files.checkpoints import read_topic_id
from moldau.broker.log.files.descriptors import DescriptorLimit
from moldau.broker.log.log import Log
from moldau.broker.log.recovery.checked_scan import UnreadableLog
from moldau.broker.log.recovery.end_gap import fill_end_gap
from moldau.broker.log.recovery.end_offset_hints import OFFSETS_LOST_MAX
from moldau.broker.log.recovery.found_segments import FoundSegments
from moldau.broker.log.recovery.opening import ANY_OFFSET, Opening
from moldau.broker.log.state.epochs import LeaderEpochs
from moldau.common.core.files import Files
from moldau.common.settings.topic import TopicSettings

__all__ = ["Recovered", "Saved", "UnreadableLog", "open_log"]

logger = logging.getLogger("moldau.log.recovery")


class Saved(NamedTuple):
    """One log's offsets in the directory's checkpoint files; 0 where there is no line."""

    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_offset: int = 0
    """Up to where compaction has come."""
    high_watermark: int = 0
    aborts: Mapping[int, int] | None = None
    """Base offset of a segment -> checksum of its index of aborted transactions; None: unknown."""


class Recovered(NamedTuple):
    """An opened log, and what was checked to open it."""

    log: Log
    bytes_truncated: int
    reason: str
    offsets_lost: int = 0
    """The log goes on so far behind its old end: its recovery point has to be written down before it is
    used.
    """
    records_cut: bool = False
    """Whether the log was cut before whole batches, which the death of a process alone does not explain."""


def open_log(
    files: Files,
    directory: str,
    topic: str,
    partition: int,
    settings: TopicSettings,
    *,
    descriptors: DescriptorLimit | None = None,
    clean: bool = False,
    recovery_point: int = 0,
    cleaned_offset: int = 0,
    log_start_offset: int = 0,
    high_watermark: int = 0,
    aborts: Mapping[int, int] | None = None,
    sole_copy: bool = False,
    start_offset: int = 0,
    now_ms: int = 0,
    source: random.Random | None = None,
) -> Recovered:
    """Open the partition's directory, creating it when it is missing.

    `clean`: the last stop was clean. The offsets are those of the checkpoints, as in `Saved`. `sole_copy`:
    there is no other replica, so the log keeps what lies behind damage and does not use lost offsets again;
    else it ends at the first damage or missing segment, and the replica fetches from there. `start_offset`:
    where a log without segments begins. OSError when the disk fails; UnreadableLog when the directory holds
    formats older than magic 2.
    """
    recovery_point = max(0, recovery_point)
    name = f"{topic}-{partition}"
    found = FoundSegments(
        files, directory, name, settings, DescriptorLimit() if descriptors is None else descriptors, now_ms
    )
    found.list_files()
    found.load_segments(start_offset)
    opening = Opening(found, sole_copy=sole_copy, cleaned_offset=cleaned_offset)
    epochs = LeaderEpochs(files, directory)
    epochs.load()
    epochs_before = epochs.entries()
    if clean:
        end_offset = _after_clean_stop(found, opening, epochs, recovery_point, log_start_offset)
    else:
        opening.gaps_end_offset = max(recovery_point, cleaned_offset)
        opening.flushed_offset = recovery_point
        found.note_index_hint()
        end_offset = opening.recover(recovery_point, epochs)
    if aborts is not None:
        opening.check_aborts(aborts, complete=clean)
    end_offset = opening.judge_gaps(end_offset)
    found_end_offset = end_offset
    if sole_copy and not (clean and end_offset == recovery_point):
        end_offset = _go_on_behind(found, epochs, end_offset, recovery_point, high_watermark)
    segments = found.segments
    if log_start_offset > end_offset:
        if sole_copy:
            logger.error(
                "%s: log-start-offset-checkpoint has offset %d, which is behind the log's end %d: it is "
                "ignored, and the log starts at %d",
                name,
                log_start_offset,
                end_offset,
                segments[0].base_offset,
            )
            log_start_offset = 0
        else:
            # The log has lost its end below the start that was promised: nothing in it may be shown.
            logger.warning(
                "%s: it ends at %d, below its start %d: it goes on there, empty",
                name,
                end_offset,
                log_start_offset,
            )
            opening.start_afresh(log_start_offset)
            epochs.clear()
            end_offset = log_start_offset
    if sole_copy:
        fill_end_gap(found, epochs)
    first_offset = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_end(end_offset)
    epochs.truncate_start(first_offset)
    if epochs.entries() != epochs_before:
        epochs.write()
    found.drop_snapshots_beyond(end_offset)
    whole = not clean or opening.checked
    if not whole and not found.snapshot_offsets and opening.producers_seen():
        # Earlier versions wrote none when every producer had expired, so that nothing need be wrong.
        logger.info("%s: its producer snapshot is missing: it is rebuilt from the batches", name)
        whole = True
    producers = opening.producers(end_offset, whole=whole)
    offsets_lost = end_offset - found_end_offset
    jitter_ms = min(settings.segment_jitter_ms, settings.segment_ms)
    log = Log(
        files,
        directory,
        topic,
        partition,
        settings,
        found.descriptors,
        segments,
        epochs,
        producers,
        start_offset=first_offset,
        end_offset=end_offset,
        flushed_end_offset=end_offset
        if clean or offsets_lost
        else min(end_offset, max(recovery_point, segments[0].base_offset)),
        snapshot_offsets=found.snapshot_offsets,
        roll_jitter_ms=source.randrange(jitter_ms) if source is not None and jitter_ms > 0 else 0,
        topic_id=read_topic_id(files, directory),
        directory_dirty=not clean,
    )
    log.flusher.last_flush_ms = now_ms
    for segment in segments:
        segment.close_descriptor()
    return Recovered(log, found.bytes_truncated, found.truncated_because, offsets_lost, found.records_cut)


def _after_clean_stop(
    found: FoundSegments, opening: Opening, epochs: LeaderEpochs, recovery_point: int, log_start_offset: int
) -> int:
    """Trust what ends as it should, check the rest; returns the end offset. After a clean stop the recovery
    point is the log's end.
    """
    opening.trust(None, epochs)
    end = opening.end_of_last()
    beyond = 0 < recovery_point < end.next_offset
    if end.problem or beyond:
        why = (
            end.problem or f"it reaches offset {end.next_offset}, and the recovery point is {recovery_point}"
        )
        logger.warning(
            "%s: its end is not as a clean stop leaves it (%s): it is checked as after a crash",
            found.name,
            why,
        )
        opening.gaps_end_offset = opening.flushed_offset = ANY_OFFSET
        opening.known_end_offset = recovery_point or -1
        last = found.segments[-1]
        found.note_index_hint()
        return opening.recover(min(recovery_point or ANY_OFFSET, last.base_offset + 1), epochs)
    last_batch = opening.last_batch()
    # The first epoch begins where the log does, which may be in the last batch, or behind it.
    looked_at = max(last_batch[0], log_start_offset) if last_batch is not None else 0
    if (
        last_batch is not None
        and looked_at < end.next_offset
        and 0 <= last_batch[1] != epochs.epoch_at(looked_at)
    ):
        logger.warning("%s: its leader-epoch-checkpoint is damaged: it is rebuilt", found.name)
        opening.rebuild_epochs(len(found.segments), epochs)
    return end.next_offset


def _go_on_behind(
    found: FoundSegments, epochs: LeaderEpochs, end_offset: int, recovery_point: int, high_watermark: int
) -> int:
    """Skip offsets that were used before, as far as hints show; returns the new end offset."""
    latest = epochs.entries()[-1:]
    hints = [recovery_point, high_watermark, found.hint_from_names(), *(start for _, start in latest)]
    plausible = [offset for offset in hints if offset - end_offset <= OFFSETS_LOST_MAX]
    for offset in set(hints) - set(plausible):
        logger.warning(
            "%s: a checkpoint or file name has offset %d, which is implausible and ignored",
            found.name,
            offset,
        )
    used = max(plausible, default=end_offset)
    if used <= end_offset:
        return end_offset
    logger.error(
        "%s: the log ends at offset %d, but had come to %d: what lay between is lost (a missing or damaged "
        "file, or a power cut). These offsets are not used again; the log goes on at %d. If a file was moved "
        "away, stop the broker and put it back",
        found.name,
        end_offset,
        used,
        used,
    )
    found.continue_at(used)
    return used
