"""Who is to be asked: a cluster's brokers, the leaders of its partitions, the coordinator of a transactional
id; and the asking, for requests that no call of confluent-kafka reaches (raw_request.py).

The map is made once, for one command. Not here: what to do when a leader has moved meanwhile; the answer then
says so (NOT_LEADER_OR_FOLLOWER), and the command is run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.cli.shared.errors import CommandError, UsageError
from moldau.cli.shared.raw_request import ask_message, error_words
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest

if TYPE_CHECKING:
    from moldau.cli.shared.connection import Connection
    from moldau.protocol.declare import Message

Address = tuple[str, int]
Place = tuple[str, int]
"""A topic and a partition of it."""

FIND_COORDINATOR_VERSION = 2
TRANSACTION_KEY = 1
RETRY_SECONDS = 0.1
_SOON = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
"""What a coordinator says that is about to be there."""


class Copies(NamedTuple):
    """Where a partition lies: the leader's node id (-1: none) and those of all replicas."""

    leader: int
    replicas: tuple[int, ...]


class Routing:
    """A cluster as its metadata show it."""

    def __init__(
        self,
        brokers: Mapping[int, Address],
        partitions: Mapping[Place, Copies],
        timeout_seconds: float,
        ask: Callable[[Address, Message, int, float], Any] = ask_message,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.brokers = brokers
        self.partitions = partitions
        self.timeout_seconds = timeout_seconds
        self.sleep = sleep
        self._ask = ask

    def ask(self, broker_id: int, request: Message, version: int) -> Any:
        """Ask one broker."""
        address = self.brokers.get(broker_id)
        if address is None:
            known = ", ".join(str(each) for each in sorted(self.brokers))
            raise CommandError(f"there is no broker {broker_id}: there are {known}")
        return self._ask(address, request, version, self.timeout_seconds)

    def leader(self, place: Place) -> int:
        """Give the node id of a partition's leader."""
        topic, index = place
        copies = self.partitions.get(place)
        if copies is None:
            if any(name == topic for name, _ in self.partitions):
                raise CommandError(f"{topic} has no partition {index}: see `moldau topics describe {topic}`")
            raise CommandError(f"topic {topic!r} does not exist: list the topics with `moldau topics list`")
        if copies.leader not in self.brokers:
            raise CommandError(f"{topic}-{index} has no leader: see `moldau status`")
        return copies.leader

    def coordinator(self, transactional_id: str) -> int:
        """Give the node id of the broker that coordinates a transactional id, which may take a moment."""
        request = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION_KEY)
        somebody = next(iter(self.brokers))
        found = self.until_there(
            lambda: self.ask(somebody, request, FIND_COORDINATOR_VERSION), lambda answer: [answer.error_code]
        )
        if found.error_code:
            raise CommandError(f"transactional id {transactional_id!r}: {error_words(found.error_code)}")
        return int(found.node_id)

    def until_there(
        self,
        question: Callable[[], Any],
        error_codes: Callable[[Any], Iterable[int]],
        soon: Iterable[int] = _SOON,
    ) -> Any:
        """Put a question again while the answer says in part that it is too early, up to the timeout."""
        too_early = frozenset(soon)
        attempts = max(1, int(self.timeout_seconds / RETRY_SECONDS))
        for _ in range(attempts - 1):
            answer = question()
            if too_early.isdisjoint(error_codes(answer)):
                return answer
            self.sleep(RETRY_SECONDS)
        return question()


def routing_of(connection: Connection) -> Routing:
    """Ask the cluster for its map."""
    if any("protocol" in name for name in connection.extra_settings):
        raise UsageError("this command speaks plaintext only: the client library has no call for it")
    metadata = connection.admin().list_topics(timeout=connection.timeout_seconds)
    return Routing(
        {each.id: (each.host or "", each.port) for each in metadata.brokers.values()},
        {
            (name, index): Copies(partition.leader, tuple(partition.replicas))
            for name, topic in metadata.topics.items()
            for index, partition in topic.partitions.items()
        },
        connection.timeout_seconds,
    )
