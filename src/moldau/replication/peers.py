"""What a partition asks of others: in-sync changes of the controller, batches of another broker.

node.py hands the objects over. A cluster of one has no other brokers: `NoPeers` says so.
"""

from typing import TYPE_CHECKING, Protocol

from moldau.replication.role_outputs import AskInSync, FetchFrom

if TYPE_CHECKING:
    from moldau.replication.partition import Partition


class InSyncChanges(Protocol):
    """Brings in-sync changes to the controller."""

    def ask(self, partition: "Partition", asked: AskInSync) -> None:
        """Ask; the answer, also that none came, is given to `partition.in_sync_change_answered`. Answers come
        later, never within this call.
        """


class FollowerFetcher(Protocol):
    """Fetches from leaders on other brokers."""

    def fetch_from(self, partition: "Partition", fetch: FetchFrom) -> None:
        """From now on fetch from there; what comes is given to `partition.append_as_follower`, and a
        diverging epoch to `partition.diverged`, unless another call takes this one's place before.
        """

    def stop(self, partition: "Partition") -> None:
        """Fetch for this partition no longer."""


class NoPeers:
    """A cluster of one: there is nobody to fetch from, no follower comes, and so no in-sync set changes.

    A partition may still name other replicas (a data folder of a former cluster): it waits for its leader.
    """

    def ask(self, partition: "Partition", asked: AskInSync) -> None:
        """No controller would agree on members that do not exist; asked again when one may."""

    def fetch_from(self, partition: "Partition", fetch: FetchFrom) -> None:
        """There is no such leader."""

    def stop(self, partition: "Partition") -> None:
        """Nothing is fetched."""
