"""Where two histories of a partition part: compared by leader epochs, never by high watermarks (KIP-101,
KIP-279, KIP-320).

    leader      epochs  0: 0-9    2: 10-14   3: 15-
    follower            0: 0-9    1: 10-12             asks with its last epoch, 1
    leader answers      epoch 0, which ended at 10     (`epoch_end`)
    follower cuts       at 10                          (`common_end`), and compares again with its next fetch
"""

from moldau.broker.log.log import Log
from moldau.broker.replication.follower_progress import UNKNOWN_OFFSET


def epoch_end(source: Log, present_epoch: int, epoch_start_offset: int, leader_epoch: int) -> tuple[int, int]:
    """The largest known leader epoch up to `leader_epoch`, and where it ended in a log whose partition is in
    `present_epoch`, which began at `epoch_start_offset`; (-1, -1) when unknown.

    The present epoch, which may have no records yet, ends where the log does (KIP-101, KIP-320).
    """
    latest, end_offset = source.latest_leader_epoch, source.written_end_offset
    if not 0 <= leader_epoch <= present_epoch:
        return -1, -1
    if leader_epoch == present_epoch:
        return leader_epoch, end_offset
    if leader_epoch >= latest:  # what came after the last record's epoch has no records
        return (latest if latest >= 0 else leader_epoch), min(epoch_start_offset, end_offset)
    epoch, end = source.epoch_end_offset(leader_epoch)
    return epoch, min(end, end_offset)


def common_end(epoch: int, end_offset: int, own_epoch: int, own_end_offset: int, high_watermark: int) -> int:
    """Where a follower cuts its log: the leader's largest epoch up to the follower's last is `epoch`, and
    ended at `end_offset`; the follower's largest up to that is `own_epoch`, and ended at `own_end_offset`
    (-1: none).

    A log that does not have `epoch` is cut at the end of `own_epoch`, and the next fetch compares again.
    """
    if own_epoch < 0:
        return high_watermark if end_offset == UNKNOWN_OFFSET else end_offset
    if end_offset != UNKNOWN_OFFSET and own_epoch == epoch:
        return min(own_end_offset, end_offset)
    return own_end_offset
