"""The leader epoch cache: in which epoch each stretch of the log was written (KIP-101, KIP-320).

A sorted list of (leader epoch, first offset written in it). Replicas find where their logs diverge by
comparing where epochs ended, not by their high watermarks. The list is kept in `leader-epoch-checkpoint`; it
changes once per election, so the file is rewritten each time.

Invariant: epochs and start offsets both rise strictly.
"""

from bisect import bisect_right

from moldau.broker.log.files.checkpoints import read_epochs, write_epochs
from moldau.common.core.files import Files

CHECKPOINT_NAME = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1
EPOCH_MAX = (1 << 31) - 1
OFFSET_MAX = (1 << 63) - 1


class LeaderEpochs:
    """The leader epochs of one log."""

    __slots__ = ("_epochs", "_files", "_starts", "path", "unsafe_from", "unwritten")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self.path = f"{directory}/{CHECKPOINT_NAME}"
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.unwritten = False
        """The last `write` failed."""
        self.unsafe_from = OFFSET_MAX
        """From here on the list is perhaps not in the file on the disk, since a `write` failed: recovery has
        to read the batches.
        """

    def load(self) -> None:
        """Read the file; a missing or damaged one counts as empty (recovery rebuilds it from the batches)."""
        self._epochs, self._starts = [], []
        for leader_epoch, start_offset in read_epochs(self._files, self.path):
            if leader_epoch > self.latest() and (not self._starts or start_offset > self._starts[-1]):
                self._epochs.append(leader_epoch)
                self._starts.append(start_offset)

    def moved_to(self, directory: str) -> None:
        """The log's directory has been renamed."""
        self.path = f"{directory}/{CHECKPOINT_NAME}"

    def write(self) -> None:
        """Rewrite the file; OSError when the disk refuses."""
        self.unwritten = True
        try:
            write_epochs(self._files, self.path, self.entries())
        except OSError:
            self.unsafe_from = min(self.unsafe_from, self._starts[-1] if self._starts else 0)
            raise
        self.unwritten = False

    def entries(self) -> list[tuple[int, int]]:
        """(leader epoch, start offset), ascending."""
        return list(zip(self._epochs, self._starts, strict=True))

    def latest(self) -> int:
        """The highest leader epoch that has records, or -1."""
        return self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def assign(self, leader_epoch: int, start_offset: int) -> bool:
        """From `start_offset` on, records are of this epoch; returns whether the list changed (and the file
        must be written). Entries that contradict it (a later epoch, or one that began no earlier) have no
        records and are dropped.
        """
        if leader_epoch < 0 or (
            self._epochs and leader_epoch == self._epochs[-1] and start_offset >= self._starts[-1]
        ):
            return False
        while self._epochs and (self._epochs[-1] >= leader_epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(leader_epoch)
        self._starts.append(start_offset)
        return True

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written, or -1 when that is older than what is
        known.
        """
        place = bisect_right(self._starts, offset)
        return self._epochs[place - 1] if place else UNDEFINED_EPOCH

    def stretch(self, offset: int) -> tuple[int, int, int]:
        """Where the stretch of the list that holds `offset` ends, and the lowest and the highest leader epoch
        that its records can have: the same, where no epoch is missing in the list. The first one begins
        before its start, which a deletion may have put into the middle of a batch.
        """
        starts, epochs = self._starts, self._epochs
        if not starts:
            return OFFSET_MAX, UNDEFINED_EPOCH, EPOCH_MAX
        if offset >= starts[-1]:
            return OFFSET_MAX, epochs[-1], epochs[-1]
        after = bisect_right(starts, offset)
        if not after:  # before the log's start; the batch around that is of the first epoch
            end = starts[1] if len(starts) > 1 else OFFSET_MAX
            return end, UNDEFINED_EPOCH, (epochs[1] - 1 if len(epochs) > 1 else epochs[0])
        return starts[after], epochs[after - 1], epochs[after] - 1

    def end_offset(self, leader_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch up to `leader_epoch`, and the offset at which it ended; (-1, -1) when
        unknown.

        For an epoch older than all that is known, the first known start is its end: what lay before is gone.
        """
        if leader_epoch < 0 or not self._epochs:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if leader_epoch == self._epochs[-1]:
            return leader_epoch, log_end_offset
        later = bisect_right(self._epochs, leader_epoch)
        if later == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if later == 0:
            return leader_epoch, self._starts[0]
        return self._epochs[later - 1], self._starts[later]

    def truncate_end(self, end_offset: int) -> bool:
        """Forget epochs that began at or after `end_offset`; returns whether there were any."""
        before = len(self._epochs)
        while self._starts and self._starts[-1] >= end_offset:
            self._epochs.pop()
            self._starts.pop()
        return len(self._epochs) != before

    def truncate_start(self, start_offset: int) -> bool:
        """Forget epochs that ended before `start_offset`; the one that contains it now begins there."""
        place = bisect_right(self._starts, start_offset)
        if place == 0 or (place == 1 and self._starts[0] == start_offset):
            return False
        del self._epochs[: place - 1]
        del self._starts[: place - 1]
        self._starts[0] = start_offset
        return True

    def replace(self, entries: list[tuple[int, int]]) -> None:
        """Restore the entries that `entries` returned earlier."""
        self._epochs = [leader_epoch for leader_epoch, _ in entries]
        self._starts = [start for _, start in entries]

    def clear(self) -> None:
        """Forget everything."""
        self._epochs.clear()
        self._starts.clear()
