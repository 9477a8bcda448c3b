"""One partition that is pulled here: its machine, and the log that the machine decides about."""

from moldau.broker.mirror.machine import Ends, EpochEnd, Machine, State
from moldau.broker.mirror.source import SourcePartition
from moldau.broker.replication.partition import Partition

_LENGTH_END = 12
_EPOCH_AT = 12
_HEADER_BYTES = 61


class Pulled:
    """A mirrored partition that this broker leads."""

    __slots__ = ("leader_epoch", "machine", "partition", "source", "source_id", "stopped")

    def __init__(self, partition: Partition, source: str, source_id: bytes) -> None:
        """`source` is the topic's name at the source, and `source_id` its id there, zero if not known."""
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.source = source
        self.source_id = source_id
        self.machine = Machine()
        self.stopped = False
        """Set when it is pulled no more: what is on its way is dropped, since the topic may be paused, or
        be failing over, which is read-only still.
        """

    @property
    def name(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    @property
    def leader(self) -> SourcePartition:
        """Who leads at the source, as the machine knows it."""
        return SourcePartition(self.machine.leader, self.machine.source_epoch)

    @property
    def is_led(self) -> bool:
        """Whether it is pulled still, and this broker leads it."""
        return not self.stopped and self.partition.leads and self.partition.is_mirror

    def ends(self) -> Ends:
        """Where the log begins and ends now."""
        log = self.partition.log
        return Ends(log.log_start_offset, log.log_end_offset, log.latest_leader_epoch)

    def own_epoch_end(self, leader_epoch: int) -> EpochEnd:
        """The log's largest epoch up to this one, and its end."""
        return EpochEnd(*self.partition.log.epoch_end_offset(leader_epoch))

    def earlier_epoch(self, leader_epoch: int) -> int:
        """The log's last epoch before this one, or -1."""
        earlier = [epoch for epoch, _ in self.partition.log.epochs.entries() if epoch < leader_epoch]
        return earlier[-1] if earlier else -1

    def last_batch(self) -> bytes | None:
        """The log's last batch; None where it may differ from the source's: a compacted log, an empty one."""
        log = self.partition.log
        end_offset = log.written_end_offset
        if "compact" in log.settings.cleanup_policy or log.log_start_offset >= end_offset:
            return None
        found = log.reader.read(end_offset - 1, 1, end_offset=end_offset, min_one_batch=True)
        return bytes(found) or None

    @property
    def may_fetch(self) -> bool:
        """Whether it is to be in the next request."""
        return self.machine.state is State.FETCHING and self.is_led and not self.partition.log.is_cutting


def same_batch(one: bytes | memoryview, other: bytes | memoryview) -> bool:
    """Whether two batches are the same but for the leader epoch, at the beginning of these bytes."""
    size_bytes = _LENGTH_END + int.from_bytes(one[8:_LENGTH_END], "big")
    if len(one) < size_bytes or len(other) < size_bytes:
        return False
    return one[:_EPOCH_AT] == other[:_EPOCH_AT] and (
        one[_EPOCH_AT + 4 : size_bytes] == other[_EPOCH_AT + 4 : size_bytes]
    )


def first_epoch(batches: memoryview) -> int:
    """The leader epoch of the first of these batches; -1 if not even its header is there."""
    if len(batches) < _HEADER_BYTES:
        return -1
    return int.from_bytes(batches[_EPOCH_AT : _EPOCH_AT + 4], "big", signed=True)
