"""`ReplicaFetcher`: follows every partition whose leader is another broker.

    partition ──> fetch_from(leader, epoch, offset) ──> the fetch of that leader (leader_fetch.py)
                                                        one of `num.replica.fetchers`, by topic and index,
                                                        or one for those that are catching up

Each fetch has one request in flight, and a second connection only for partitions that cannot wait for it. A
partition moves to the fetch of those that catch up when this replica is not in the in-sync set, and back when
it is: with its next records, or when none of those that catch up gets any.
Not here: when to fetch from whom (role.py).
"""

import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from moldau.broker.metadata.image import Image
from moldau.broker.peers.broker_peers import BrokerPeers
from moldau.broker.replication.following.fetch_parts import FetchCounts, FetchParts
from moldau.broker.replication.following.leader_fetch import LeaderFetch

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition
    from moldau.broker.replication.role_outputs import FetchFrom


class ReplicaFetcher:
    """All fetches of this broker; a `FollowerFetcher` (replication/peers.py)."""

    def __init__(
        self,
        parts: FetchParts,
        make_peers: Callable[[str], BrokerPeers],
        fetcher_count: Callable[[], int],
    ) -> None:
        """`make_peers`: connections of their own for the purpose of this name."""
        self._parts = parts
        self._make_peers = make_peers
        self._fetcher_count = fetcher_count
        self._peers: dict[str, BrokerPeers] = {}
        self._fetches: dict[tuple[int, int, bool], LeaderFetch] = {}  # by leader, number, catching up
        self._places: dict[Partition, LeaderFetch] = {}
        self._closed = False

    def fetch_from(self, partition: "Partition", fetch: "FetchFrom") -> None:
        """As `FollowerFetcher.fetch_from`."""
        if self._closed:
            return
        count, number = self._fetcher_count(), 0
        if count > 1:
            number = (zlib.crc32(partition.topic.encode()) + partition.index) % count
        place = self._fetch(fetch.leader, number, self._parts.node_id not in partition.isr)
        before = self._places.get(partition)
        if before is not place:
            if before is not None:
                before.stop(partition)
            self._places[partition] = place
        place.follow(partition, fetch)

    def _fetch(self, leader: int, number: int, catching_up: bool) -> LeaderFetch:
        found = self._fetches.get((leader, number, catching_up))
        if found is None:
            parts, name, again = self._parts, f"fetcher-{number}", self._ask_again
            if catching_up:
                peers = self._peers_for(f"{name}-catching-up")
                found = LeaderFetch(leader, parts, peers, caught_up=self.fetch_from, ask_again=again)
            else:
                peers = self._peers_for(name)
                early = lambda: self._peers_for(f"{name}-early")  # noqa: E731
                found = LeaderFetch(leader, parts, peers, early, ask_again=again)
            self._fetches[leader, number, catching_up] = found
        return found

    def _peers_for(self, purpose: str) -> BrokerPeers:
        peers = self._peers.get(purpose)
        if peers is None:
            peers = self._peers[purpose] = self._make_peers(purpose)
        return peers

    def stop(self, partition: "Partition") -> None:
        """As `FollowerFetcher.stop`."""
        place = self._places.pop(partition, None)
        if place is not None:
            place.stop(partition)

    def _ask_again(self, partition: "Partition") -> None:
        place = self._places.get(partition)
        if place is not None:
            place.ask_again(partition)

    def begin(self) -> None:
        """This broker is registered: fetch."""
        for fetch in self._fetches.values():
            fetch.begin()

    def image_changed(self, image: Image) -> None:
        """The metadata changed: connections to brokers that went are closed. This broker may be registered
        again: leaders that it was given in between are fetched from now on.
        """
        for peers in self._peers.values():
            peers.image_changed(image)
        self.begin()

    def close(self) -> None:
        """Fetch nothing more."""
        self._closed = True
        for fetch in self._fetches.values():
            fetch.close()
        for peers in self._peers.values():
            peers.close()
        self._places.clear()

    # For monitoring

    @property
    def counts(self) -> FetchCounts:
        """What was fetched."""
        return self._parts.counts

    def failing(self) -> "Iterator[tuple[int, float, str]]":
        """Leaders from which nothing can be fetched now: since when (monotonic, in milliseconds), and why."""
        for (leader, _, _), fetch in self._fetches.items():
            if fetch.failing is not None and any(fetch.all()):
                yield leader, *fetch.failing

    def lags(self) -> "Iterator[tuple[Partition, int, int]]":
        """Each followed partition, its leader, and how many records it is behind the leader's high
        watermark.
        """
        for partition, place in self._places.items():
            yield (
                partition,
                place.leader,
                max(0, partition.role.leader_high_watermark - partition.log.log_end_offset),
            )
