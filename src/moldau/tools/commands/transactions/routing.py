"""Request routing: a cluster's brokers, partition leaders and transaction coordinators; and sending requests
that confluent-kafka does not offer (shared/raw_request.py).

The metadata is read once for a command. Not here: moved leaders; the response is then NOT_LEADER_OR_FOLLOWER,
and the user runs the command again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.tools.shared.admin import no_such_topic
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.raw_request import ask_message, error_words

if TYPE_CHECKING:
    from moldau.common.protocol.declare import Message
    from moldau.tools.shared.connection import Connection

Address = tuple[str, int]
Place = tuple[str, int]
"""A topic and a partition of it."""

FIND_COORDINATOR_VERSION = 2
TRANSACTION_KEY = 1
RETRY_SECONDS = 0.1
_SOON = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
"""Error codes of a coordinator that is loading or about to be elected."""


class Copies(NamedTuple):
    """The replicas of a partition: the leader's node id (-1: none) and those of all replicas."""

    leader: int
    replicas: tuple[int, ...]


class Routing:
    """A cluster's metadata."""

    def __init__(
        self,
        brokers: Mapping[int, Address],
        partitions: Mapping[Place, Copies],
        timeout_seconds: float,
        ask: Callable[[Address, Message, int, float], Any] = ask_message,
        sleep: Callable[[float], None] = time.sleep,
        connection: Connection | None = None,
    ) -> None:
        self.brokers = brokers
        self.partitions = partitions
        self.timeout_seconds = timeout_seconds
        self.sleep = sleep
        self.connection = connection
        self._ask = ask

    def ask(self, broker_id: int, request: Message, version: int) -> Any:
        """Send a request to one broker."""
        address = self.brokers.get(broker_id)
        if address is None:
            known = ", ".join(str(each) for each in sorted(self.brokers))
            raise CommandError(f"there is no broker {broker_id}: there are {known}")
        return self._ask(address, request, version, self.timeout_seconds)

    def leader(self, place: Place) -> int:
        """Return the node id of a partition's leader."""
        topic, index = place
        copies = self.partitions.get(place)
        if copies is None:
            if any(name == topic for name, _ in self.partitions):
                raise CommandError(f"{topic} has no partition {index}: see `moldau topics describe {topic}`")
            if self.connection is not None:
                raise no_such_topic(self.connection, topic)
            raise CommandError(f"there is no topic {topic!r}: list them with `moldau topics list`")
        if copies.leader not in self.brokers:
            raise CommandError(f"{topic}-{index} has no leader: see `moldau status`")
        return copies.leader

    def coordinator(self, transactional_id: str) -> int:
        """Return the node id of a transactional id's coordinator; waits while it is not available."""
        request = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION_KEY)
        somebody = next(iter(self.brokers))
        found = self.retry(
            lambda: self.ask(somebody, request, FIND_COORDINATOR_VERSION), lambda answer: [answer.error_code]
        )
        if found.error_code:
            raise CommandError(f"transactional id {transactional_id!r}: {error_words(found.error_code)}")
        return int(found.node_id)

    def retry(
        self,
        question: Callable[[], Any],
        error_codes: Callable[[Any], Iterable[int]],
        soon: Iterable[int] = _SOON,
    ) -> Any:
        """Repeat a request while its response has a retriable error, up to the timeout."""
        too_early = frozenset(soon)
        attempts = max(1, int(self.timeout_seconds / RETRY_SECONDS))
        for _ in range(attempts - 1):
            answer = question()
            if too_early.isdisjoint(error_codes(answer)):
                return answer
            self.sleep(RETRY_SECONDS)
        return question()


def routing_of(connection: Connection) -> Routing:
    """Read the cluster's metadata."""
    metadata = connection.admin().list_topics(timeout=connection.timeout_seconds)
    return Routing(
        {each.id: (each.host or "", each.port) for each in metadata.brokers.values()},
        {
            (name, index): Copies(partition.leader, tuple(partition.replicas))
            for name, topic in metadata.topics.items()
            for index, partition in topic.partitions.items()
        },
        connection.timeout_seconds,
        lambda address, request, version, _: connection.ask(address, request, version),
        connection=connection,
    )
