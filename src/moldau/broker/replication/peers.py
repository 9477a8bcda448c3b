"""The interfaces through which a partition reaches other brokers: the controller (in-sync changes) and
leaders (follower fetches).

node.py passes the implementations to ReplicaManager.

    InSyncChanges      LocalInSyncChanges (in_sync_changes.py): the controller in this process
    FollowerFetcher    LateFetcher (late_fetcher.py): makes a ReplicaFetcher (following/) when it is needed
    both               NoPeers: a partition alone, in tests
"""

from typing import TYPE_CHECKING, Protocol

from moldau.broker.replication.role_outputs import AskInSync, FetchFrom

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition


class InSyncChanges(Protocol):
    """Requests in-sync set changes from the controller (AlterPartition, KIP-497)."""

    def ask(self, partition: "Partition", asked: AskInSync) -> None:
        """Request the change. The result, or a network error as an error code, goes to
        `partition.in_sync_change_answered`, never within this call.
        """


class FollowerFetcher(Protocol):
    """Fetches from leaders on other brokers."""

    def fetch_from(self, partition: "Partition", fetch: FetchFrom) -> None:
        """Fetch from this leader at this offset, replacing an earlier request of the partition. Batches go to
        `partition.append_as_follower`, a diverging epoch to `partition.diverged`; results of a replaced
        request are dropped.
        """

    def stop(self, partition: "Partition") -> None:
        """Stop fetching for this partition."""


class NoPeers:
    """A cluster of one: no leader to fetch from, no followers, no in-sync changes.

    A partition may still name other replicas (a data folder of a former cluster); it then waits for its
    leader.
    """

    def ask(self, partition: "Partition", asked: AskInSync) -> None:
        """Ignored: with one broker there is no other member to add or remove."""

    def fetch_from(self, partition: "Partition", fetch: FetchFrom) -> None:
        """Ignored: no other broker leads."""

    def stop(self, partition: "Partition") -> None:
        """Ignored: nothing is being fetched."""
