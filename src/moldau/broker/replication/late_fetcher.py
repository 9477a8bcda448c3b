"""The fetcher of followed partitions: imported and made when the first one has a leader on another broker."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.broker.replication.role_outputs import FetchFrom

if TYPE_CHECKING:
    from moldau.broker.metadata.image import Image
    from moldau.broker.replication.following.replica_fetcher import ReplicaFetcher
    from moldau.broker.replication.partition import Partition


class LateFetcher:
    """A `FollowerFetcher` that is imported and made when the first partition has a leader on another broker;
    a single broker never needs it.
    """

    def __init__(self, make: "Callable[[], ReplicaFetcher]") -> None:
        self._make = make
        self.made: ReplicaFetcher | None = None

    def fetch_from(self, partition: "Partition", fetch: FetchFrom) -> None:
        """As `FollowerFetcher.fetch_from`."""
        if self.made is None:
            self.made = self._make()
        self.made.fetch_from(partition, fetch)

    def stop(self, partition: "Partition") -> None:
        """As `FollowerFetcher.stop`."""
        if self.made is not None:
            self.made.stop(partition)

    def begin(self) -> None:
        """This broker is registered: fetch."""
        if self.made is not None:
            self.made.begin()

    def image_changed(self, image: "Image") -> None:
        """The metadata changed."""
        if self.made is not None:
            self.made.image_changed(image)

    def close(self) -> None:
        """Fetch nothing more."""
        if self.made is not None:
            self.made.close()
