"""A partition that mirrors another cluster's, as its leader: appended to as by a follower, cut where the
source was, and its open transactions ended when it is failed over.

Not here: what is fetched and where it is cut (mirror/machine.py).
"""

from typing import TYPE_CHECKING

from moldau.broker.log.appending.append_result import Refused
from moldau.broker.log.appending.follower_append import FollowerAppended
from moldau.broker.replication.effects import begin_anew, truncate
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.control import MARKER_BYTES, ControlType, EndTransactionMarker

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition

PRODUCER_EPOCH_MAX = 2**15 - 1


def append_mirrored(
    partition: "Partition", batches: memoryview, now_ms: int, source_start_offset: int = -1
) -> FollowerAppended | Refused:
    """Append what the mirrored partition holds at this log's end (perhaps nothing), as a follower does; then
    follow its log start offset. Batches of a leader epoch above this partition's are left out.
    """
    if not (partition.leads and partition.is_mirror):
        return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker does not lead the mirror any more")
    log = partition.log
    before = log.log_start_offset
    start_offset = min(source_start_offset, partition.high_watermark)
    result = log.append_as_follower(batches, partition.leader_epoch, now_ms, start_offset)
    if result.size_bytes:
        partition.written_soon(result.size_bytes)
        log.transactions.settle(partition.high_watermark)
    if log.log_start_offset != before:
        partition.changed()
    return result


def cut_mirror(partition: "Partition", offset: int, *, anew: bool = False) -> None:
    """The mirrored partition ends here, or (`anew`) has nothing of what this log holds and begins here:
    truncate, or drop all and go on at `offset`. Followers find that by their leader epochs.
    """
    if not (partition.leads and partition.is_mirror):
        return
    if anew:
        begin_anew(partition, offset)
    else:
        truncate(partition, offset)
    partition.changed()


def abort_open_transactions(partition: "Partition", now_ms: int) -> int | None:
    """The mirror is failed over: end what is open with markers of the producers' next epochs. The log's end
    with them; None when they cannot be written now.
    """
    if not (partition.leads and partition.is_mirror):
        return None
    log = partition.log
    for producer_id in list(log.producers.ongoing.values()):
        state = log.producers.states[producer_id]
        result = log.leader.append_marker(
            EndTransactionMarker(ControlType.ABORT, max(0, state.coordinator_epoch)),
            producer_id,
            min(state.producer_epoch + 1, PRODUCER_EPOCH_MAX),
            partition.leader_epoch,
            now_ms,
        )
        if result.error_code:
            return None
        partition.written_soon(MARKER_BYTES)
    return log.log_end_offset
