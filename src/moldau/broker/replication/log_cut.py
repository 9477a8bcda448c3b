"""Puts one truncation of a partition's log on the disk, beside the loop, and then lets its follower fetch on.

    log cut on the loop ──> CutJob on a worker ──> [the next step of a long cut] ──> role: the cut is safe

Until the last step is on the disk nothing is appended: a crash could undo the cut. A job that fails for want
of a descriptor is tried again; a disk that fails takes the partition offline. Not here: what is cut
(log/upkeep/truncation.py), and where two logs agree (role.py).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.broker.log.upkeep.truncation import CutJob
    from moldau.broker.replication.partition import Partition


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
        if job.unfinished and partition.leader_epoch == self._leader_epoch and not partition.leads:
            partition.truncate(self._offset)
        else:
            partition.cut_is_safe()
