"""Requests of tools to a cluster: metadata, settings, and errors in the words of Kafka's tools.

A broker's answer may carry the reason in words; where it has none, Kafka's client has its own for the error
code, and scripts look for them (`WORDS`).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from moldau.client.errors import Retriable, error_words
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.common.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.tools.kafka.problems import ToolError

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster
    from moldau.common.protocol.declare import Message

TOPIC, BROKER = 2, 4
CONFIGS_AT_ONCE = 500

WORDS: dict[int, str] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: (
        "The requested offset is not within the range of offsets maintained by the server."
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The request attempted to perform an operation on an invalid topic.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "Topic with this name already exists.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."
    ),
    ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator is not aware of this member.",
}
"""Kafka's own words for codes that come without any."""


class Refused(ToolError):
    """The broker refused; the text is the reason alone, as Kafka's exceptions have it."""

    def __init__(self, error_code: int, message: str | None) -> None:
        super().__init__(message or WORDS.get(error_code) or error_words(error_code))
        self.error_code = error_code


def require(error_code: int, message: str | None = None) -> None:
    """Return for code 0; Refused for any other. Retriable codes are for `ask`'s caller in Cluster.persist."""
    if error_code:
        raise Refused(error_code, message)


def ask(cluster: Cluster, request: Message) -> Any:
    """Send a request to any broker, again if the connection breaks."""
    name = type(request).__name__.removesuffix("Request")
    return cluster.persist(f"ask for {name}", lambda: cluster.any_broker().ask(request))


def metadata(cluster: Cluster, names: Iterable[str] | None = None) -> Any:
    """Return the Metadata response for some topics, or (None) all; the cluster knows its brokers' addresses
    from then on.
    """
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)

    def attempt() -> Any:
        answer = cluster.any_broker().ask(request)
        cluster.learn(answer)
        return answer

    return cluster.persist("read the cluster's metadata", attempt)


def describe_configs(
    cluster: Cluster, kind: int, names: Sequence[str], *, synonyms: bool = False, broker: int | None = None
) -> dict[str, list[Any]]:
    """Return the settings of resources of one kind, in the broker's order. Refused for the first that is
    unknown. `broker`: who is asked (a broker's own settings are known to itself).
    """
    found: dict[str, list[Any]] = {}
    for start in range(0, len(names), CONFIGS_AT_ONCE):
        resources = [
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for name in names[start : start + CONFIGS_AT_ONCE]
        ]
        request = DescribeConfigsRequest(resources=resources, include_synonyms=synonyms)
        answer = ask(cluster, request) if broker is None else ask_broker(cluster, broker, request)
        for result in answer.results:
            require(result.error_code, result.error_message)
            found[result.resource_name] = result.configs
    return found


def ask_broker(cluster: Cluster, node_id: int, request: Message) -> Any:
    """Send a request to one broker, whose address the last metadata named."""
    name = type(request).__name__.removesuffix("Request")
    return cluster.persist(f"ask broker {node_id} for {name}", lambda: cluster.broker(node_id).ask(request))


def ask_coordinator(cluster: Cluster, key: str, request: Message, codes: Any, kind: int = 0) -> Any:
    """Send a request to the coordinator of a group (kind 0) or transactional id (1), again while it loads or
    moves. `codes(response)`: the error codes to look at.
    """

    def attempt() -> Any:
        answer = cluster.coordinator(key, kind).ask(request)
        for code in codes(answer):
            if code in _COORDINATOR_MOVES:
                cluster.forget_coordinator(key, kind)
                raise Retriable(error_words(code))
        return answer

    name = type(request).__name__.removesuffix("Request")
    return cluster.persist(f"ask the coordinator of {key!r} for {name}", attempt)


_COORDINATOR_MOVES = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


def uuid_text(topic_id: bytes) -> str:
    """Return a topic's id as Kafka prints it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(bytes(topic_id)).decode().rstrip("=")
