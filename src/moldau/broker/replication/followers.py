"""The followers of one leader in one leader epoch, by node id."""

from collections.abc import Callable, Iterator

from moldau.broker.replication.follower_progress import ANY_BROKER_EPOCH, FollowerProgress
from moldau.common.protocol.errors import ErrorCode


class Followers(dict[int, FollowerProgress]):
    """How far each of them is; empty where this replica does not lead."""

    __slots__ = ()

    def refusal(self, replica: int, broker_epoch: int, leader_epoch: int) -> int:
        """The error code for a fetch of `replica`, or 0. `leader_epoch` is the request's, or -1.

        A replica that is not assigned here, but knows the leader epoch, may have newer metadata:
        UNKNOWN_LEADER_EPOCH makes it retry (as in Kafka).
        """
        follower = self.get(replica)
        if follower is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if leader_epoch < 0 else ErrorCode.UNKNOWN_LEADER_EPOCH
        if ANY_BROKER_EPOCH < broker_epoch < follower.broker_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # sent before the follower restarted (KIP-903)
        return 0

    def within(self, in_sync: tuple[int, ...]) -> Iterator[tuple[int, FollowerProgress]]:
        """Those that are in sync, as the metadata has them."""
        return ((node, follower) for node, follower in self.items() if node in in_sync)

    def low_watermark(self, log_start_offset: int, is_live: Callable[[int], bool]) -> int:
        """The smallest log start offset over the leader, which has `log_start_offset`, and the followers on
        live brokers.
        """
        offsets = [each.log_start_offset for node, each in self.items() if is_live(node)]
        return min(log_start_offset, *offsets) if offsets else log_start_offset
