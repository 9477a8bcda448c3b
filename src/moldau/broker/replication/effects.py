"""Carries out what the role of a replica has decided (role_outputs.py), in order.

    HighWatermark                         readers see more; their parked fetches are woken at the end
    Settle, WakeFetches                   answers to Produce requests; parked fetches look again
    TruncateTo                            the log is cut here, and made safe on a worker:
    AskInSync, FetchFrom, StopFetching    to the controller, to the fetcher of followed partitions

    log cut on the loop ──> CutJob on a worker ──> [the next step of a long cut] ──> role: the cut is safe

Until the last step of a cut is on the disk nothing is appended: a crash could undo it. A job that fails for
want of a descriptor is tried again; a disk that fails takes the partition offline.

Hot: `carry_out` runs for the write of every turn; budget with the partition (bench/hot_path.py). Not here:
what is cut (log/upkeep/truncation.py), and where two logs agree (role.py).
"""

import logging
from typing import TYPE_CHECKING

from moldau.broker.replication.parked_fetches import wake
from moldau.broker.replication.role_outputs import (
    AskInSync,
    FetchFrom,
    HighWatermark,
    Outputs,
    Settle,
    StopFetching,
    TruncateTo,
    WakeFetches,
)
from moldau.broker.replication.waiters import UNKNOWN_BYTES

if TYPE_CHECKING:
    from moldau.broker.log.upkeep.truncation import CutJob
    from moldau.broker.replication.partition import Partition

log = logging.getLogger("moldau.replication")


def carry_out(partition: "Partition", outputs: Outputs) -> None:
    """Do what the role has decided, in order; parked fetches are woken at the end."""
    seen_bytes = stable_bytes = 0
    woken = False
    for output in outputs:
        if isinstance(output, HighWatermark):
            if partition.parked.consumers:
                stable_bytes = _move(partition, output)
            else:
                partition.high_watermark = output.after
            seen_bytes = partition.counted_bytes or 1
            # Before any response: a response lets the next request in, which may append more.
            # What is only staged is not seen yet.
            partition.unseen_bytes -= partition.counted_bytes
            partition.counted_bytes = 0
        elif isinstance(output, Settle):
            _settle(partition, output)
        elif isinstance(output, WakeFetches):
            woken = True
        else:
            _ask(partition, output)
    if seen_bytes:
        parked = partition.parked
        if parked.consumers:
            wake(parked.consumers, seen_bytes, stable_bytes)
        if parked.followers and partition.shared.tells_followers:
            wake(parked.followers, 0, 0)
    if woken:
        partition.changed()


def _move(partition: "Partition", moved: HighWatermark) -> int:
    """Set the high watermark; returns how many more bytes read_committed consumers can read."""
    stable_before = partition.last_stable_offset
    partition.high_watermark = moved.after
    stable = partition.last_stable_offset
    if stable == moved.after and stable_before == moved.before:
        return max(partition.counted_bytes, 1)
    return UNKNOWN_BYTES if stable != stable_before else 0


def _settle(partition: "Partition", settle: Settle) -> None:
    error_code = settle.error_code
    for waiter in settle.waiters:
        try:
            waiter.settle(error_code, partition)
        except Exception:
            log.exception("an answer of %s-%d failed: this is a bug", partition.topic, partition.index)


def _ask(partition: "Partition", output: object) -> None:
    shared = partition.shared
    if isinstance(output, AskInSync):
        shared.in_sync_changes.ask(partition, output)
    elif isinstance(output, FetchFrom):
        if partition.online:  # else there is nowhere to put it
            shared.fetcher.fetch_from(partition, output)
    elif isinstance(output, StopFetching):
        shared.fetcher.stop(partition)
    elif isinstance(output, TruncateTo):
        truncate(partition, output.offset)


def truncate(partition: "Partition", offset: int) -> None:
    """Cut the log, and fetch on when that is on the disk."""
    try:
        job = partition.log.begin_truncation(offset)
    except OSError as error:
        partition.disk_failed(error)
        return
    _truncated(partition, partition.role.truncated(partition.log.log_end_offset, safe=job is None))
    if job is not None:
        LogCut(partition, job, offset).begin()


def _truncated(partition: "Partition", outputs: Outputs) -> None:
    partition.high_watermark = partition.role.high_watermark
    partition.counted_offset = min(partition.counted_offset, partition.log.log_end_offset)
    carry_out(partition, outputs)
    partition.fsync_rest()  # an fsync that was under way counts no longer


def begin_anew(partition: "Partition", offset: int) -> bool:
    """Drop all that the log holds, and go on at `offset`; False: the disk refuses."""
    try:
        job = partition.log.begin_anew(offset)
    except OSError as error:
        partition.disk_failed(error)
        return False
    _truncated(partition, partition.role.restarted(offset, safe=False))
    LogCut(partition, job, offset).begin()
    return True


class LogCut:
    """A truncation to `offset` that the loop has begun."""

    __slots__ = ("_job", "_leader_epoch", "_log", "_offset", "_partition")

    def __init__(self, partition: "Partition", job: "CutJob", offset: int) -> None:
        self._partition = partition
        self._log = partition.log
        self._leader_epoch = partition.leader_epoch
        self._job = job
        self._offset = offset

    def begin(self) -> None:
        """Run it on a worker."""
        self._partition.group_commit.run_beside(self._job.run, self._done)

    def _done(self, error: OSError | None) -> None:
        partition, job = self._partition, self._job
        if error is not None:
            partition.disk_failed(error)
            if partition.online:  # no descriptor was left, say
                partition.group_commit.run_beside_soon(job.run, self._done)
            else:
                job.close()
            return
        self._log.cut_done(job)
        if not partition.online:
            return
        may_cut = not partition.leads or partition.is_mirror
        if job.unfinished and partition.leader_epoch == self._leader_epoch and may_cut:
            truncate(partition, self._offset)
        else:
            carry_out(partition, partition.role.cut_is_safe())
