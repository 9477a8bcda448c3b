"""To which broker a request goes, and when it is repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.client.cluster import Cluster
from moldau.client.connection import Connection
from moldau.client.errors import Retriable, error_words
from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.metadata import MetadataRequest
from moldau.services.rest.kafka.problem import KafkaProblem

_AGAIN = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def refresh(cluster: Cluster, *, topics: list[Any] | None = None, operations: bool = False) -> Any:
    """One Metadata response: with no topics for [], with all for None."""

    def attempt() -> Any:
        connection = cluster.any_broker()
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        if operations:
            request.include_topic_authorized_operations = True
        answer = connection.ask(request)
        cluster.learn(answer)
        return answer

    return cluster.persist("read the cluster's metadata", attempt)


def ask_any(cluster: Cluster, wanted: str, request: Message) -> Any:
    """The response of some broker."""
    return cluster.persist(wanted, lambda: cluster.any_broker().ask(request))


def ask_broker(cluster: Cluster, broker_id: int, wanted: str, request: Message) -> Any:
    """The response of one broker. KafkaProblem (BROKER_NOT_AVAILABLE) if the cluster has none of this id."""
    brokers = {each.node_id for each in refresh(cluster, topics=[]).brokers}
    if broker_id not in brokers:
        raise KafkaProblem(ErrorCode.BROKER_NOT_AVAILABLE, f"There is no broker {broker_id}.")
    return cluster.persist(wanted, lambda: cluster.broker(broker_id).ask(request))


def ask_controller(cluster: Cluster, wanted: str, request: Message, code_of: Callable[[Any], int]) -> Any:
    """The response of the broker that takes changes; asked again while it is no longer that."""

    def attempt() -> Any:
        controller = refresh(cluster, topics=[]).controller_id
        connection = cluster.broker(controller) if controller >= 0 else cluster.any_broker()
        return _unless_again(connection, request, code_of)

    return cluster.persist(wanted, attempt)


def ask_coordinator(
    cluster: Cluster, group_id: str, wanted: str, request: Message, code_of: Callable[[Any], int]
) -> Any:
    """The response of a group's coordinator."""

    def attempt() -> Any:
        try:
            return _unless_again(cluster.coordinator(group_id), request, code_of)
        except (Retriable, OSError):
            cluster.forget_coordinator(group_id)
            raise

    return cluster.persist(wanted, attempt)


def _unless_again(connection: Connection, request: Message, code_of: Callable[[Any], int]) -> Any:
    answer = connection.ask(request)
    if code_of(answer) in _AGAIN:
        raise Retriable(error_words(code_of(answer)))
    return answer
